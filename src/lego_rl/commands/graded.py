"""What grading made of a trial's change, for people: which tests did not pass, and what was not graded, and why."""

from collections import Counter
from collections.abc import Iterator, Mapping

from rich.text import Text

from lego_rl.plain_text import plain_line
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.sandbox.verdict import Verdict

MOST = 20
"""Paths or tests shown of each kind."""


def graded(record: TrialRecord) -> Text | None:
    """The lines on grading; ``None`` for a trial without a change."""
    lines = [*_verdict(record.outcome.verdict), *_left_out(record)]
    return Text("\n".join(lines)) if lines else None


def _verdict(verdict: Verdict | None) -> Iterator[str]:
    if verdict is None:
        return
    ended = verdict.ended.replace("_", " ")
    status = "" if verdict.exit_status is None else f" · exit status {verdict.exit_status}"
    if verdict.tests:
        counts = Counter(verdict.tests.values())
        ended += " · tests: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    yield f"graded: {ended}{status} · {verdict.seconds:.1f} s"
    others = {test: what for test, what in sorted(verdict.tests.items()) if what != "passed"}
    yield from _listed("not passed", others)


def _left_out(record: TrialRecord) -> Iterator[str]:
    if record.outcome.verdict is not None:
        yield from _listed("rolled back", record.outcome.verdict.rolled_back)
    if record.patch is not None:
        yield from _listed("not carried over", record.patch.dropped)
        yield from (f"  and {count} more: {plain_line(reason)}" for reason, count in record.patch.more_dropped.items())


def _listed(title: str, reasons: Mapping[str, str]) -> Iterator[str]:
    if not reasons:
        return
    yield f"{title}: {len(reasons)}"
    # Paths are the agent's own words: none may begin a line of its own.
    yield from (f"  {plain_line(path)}: {plain_line(reason)}" for path, reason in list(reasons.items())[:MOST])
    if len(reasons) > MOST:
        yield f"  and {len(reasons) - MOST} more"
