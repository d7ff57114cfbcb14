"""What ``lego-rl run`` says: what was handed over, the change, and how it ended."""

from collections import Counter
from collections.abc import Iterator

from rich.text import Text

from lego_rl.messages import Json
from lego_rl.plain_text import plain_line
from lego_rl.sandbox.not_carried import GIT_DIRECTORY
from lego_rl.workspace.job import Done, Job
from lego_rl.workspace.listing import Listing, Reason

_NAMED = 6
_STYLES = ((b"+++ ", "bold"), (b"--- ", "bold"), (b"diff ", "bold"), (b"@@", "cyan"), (b"+", "green"), (b"-", "red"))


def handed_over(listing: Listing) -> str:
    """One line: what the agent gets, and what it does not."""
    parts = [f"{len(listing.files)} files are handed over"]
    for reason in Reason:
        paths = [path for path, why in listing.left_out.items() if why is reason]
        if paths:
            more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
            parts.append(f"left out, {reason}: {', '.join(map(plain_line, paths[:_NAMED]))}{more}")
    if any(reason is not Reason.REPOSITORY for reason in listing.left_out.values()):
        parts.append("--include PATH hands one over")
    return "; ".join(parts)


def coloured(text: bytes) -> Text:
    """A patch for a terminal."""
    shown = Text()
    for line in text.decode(errors="replace").splitlines(keepends=True):
        style = next((style for start, style in _STYLES if line.encode().startswith(start)), "")
        shown.append(line, style)
    return shown


def outcome(done: Done, seconds: float) -> str:
    """One line: how it ended."""
    return "; ".join(_outcome(done, seconds))


def _outcome(done: Done, seconds: float) -> Iterator[str]:
    account = done.captured.accounting
    yield f"{len(done.patch.changes)} changed in {seconds:.0f} s, {account.calls} calls"
    yield f"{account.sampled_tokens} tokens answered"
    if account.budget_hit is not None:
        yield f"the budget of {account.budget_hit} ended it"
    elif done.completed.timed_out:
        yield "its time was up"
    elif done.completed.returncode != 0:
        yield f"the harness ended with exit code {done.completed.returncode}"
    names = [name for name in ("memory", "processes", "disk") if getattr(done.limit_hits, name)]
    if names:
        yield f"it ran into its limit of {', '.join(names)}"
    reasons = Counter(reason for reason in done.patch.dropped.values() if reason != GIT_DIRECTORY)
    for reason, count in reasons.items():
        yield f"{count} not in the patch ({reason})"


def as_json(done: Done, job: Job, seconds: float) -> dict[str, Json]:
    """Everything, for programs."""
    account = done.captured.accounting
    changes: list[Json] = [
        {"path": change.path, "kind": change.kind, "executable": change.executable} for change in done.patch.changes
    ]
    return {
        "harness": {"name": job.bundle.name, "version": job.bundle.version},
        "patch": done.text.decode(errors="surrogateescape"),
        "changes": changes,
        "dropped": dict(done.patch.dropped),
        "handed_over": len(job.listing.files),
        "left_out": {path: str(reason) for path, reason in job.listing.left_out.items()},
        "exit_code": done.completed.returncode,
        "timed_out": done.completed.timed_out,
        "budget_hit": account.budget_hit,
        "calls": account.calls,
        "answered_tokens": account.sampled_tokens,
        "failure": None if done.failure is None else str(done.failure),
        "seconds": round(seconds, 1),
    }
