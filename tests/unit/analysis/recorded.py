"""Run directories with recorded trials, written by the real store and journal."""

from collections.abc import Sequence
from pathlib import Path

from stories import conversation, transcript

from lego_rl.gateway.budget import Budget
from lego_rl.gateway.trajectory import Accounting
from lego_rl.messages import Message
from lego_rl.rollout.faults import FAULT_TABLE, Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, Reward, TrialRecord
from lego_rl.rollout.settled import FAULTED, SCORED
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.sandbox.verdict import Change, Patch, Verdict


def record(
    label: str,
    task: str,
    attempt: int,
    reward: Reward | None,
    said: Sequence[Message] | None = None,
    *,
    harness: str = "claude-code",
    ended: Ended = Ended.FINISHED,
    turns: int = 3,
    changed: Sequence[str] = (),
) -> TrialRecord:
    """A trial of a chat backend."""
    spec = TrialSpec(Path("pool") / task, label, attempt, attempt + 1, 7, 1.0, Budget(), HarnessChoice(harness))
    accounting = Accounting(calls=turns, sampled_tokens=100 * turns)
    kept = transcript(harness, [said if said is not None else conversation([])], accounting)
    verdict = Verdict(reward) if reward is not None else None
    patch = Patch(tuple(Change(path, "file", b"x") for path in sorted(changed)))
    outcome = Outcome(reward, ended, verdict, "")
    return TrialRecord(spec, outcome, None, PhaseSeconds(), accounting, patch=patch, transcript=kept)


def write_run(path: Path, records: Sequence[TrialRecord]) -> Path:
    """A run directory that holds trials."""
    directory = RunDirectory.make(path)
    directory.recipe.write_text("")
    with Journal(directory.journal) as journal:
        for each in records:
            directory.store.save(each)
            kind = FAULTED if FAULT_TABLE[each.outcome.ended].is_masked else SCORED
            journal.append(kind, {"id": each.spec.id, "ended": each.outcome.ended.value})
    return path
