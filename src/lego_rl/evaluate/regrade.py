"""A verdict once more: from the patch, in a fresh sandbox, or from the report that the tests left, on the host.

Invariant: both ways are the grader's own. From a report nothing is run, so what differs then is how reports are read;
from a patch the tests run again, so what differs may be a flaky test or a machine.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lego_rl.errors import LegoError, SandboxError, TaskError
from lego_rl.evaluate.made_from import From
from lego_rl.evaluate.results import RegradeDelta
from lego_rl.rollout.journal import read_journal
from lego_rl.rollout.settled import settled_trials
from lego_rl.rollout.store import RunDirectory
from lego_rl.rollout.trial_folder import OutcomeFile, TrialFolder
from lego_rl.sandbox.judging import reward_from_report
from lego_rl.sandbox.task_grader import SandboxedGrader
from lego_rl.sandbox.verdict import Patch
from lego_rl.tasks.content import directory_digest
from lego_rl.tasks.task import Task


@dataclass(frozen=True)
class Stored:
    """A graded trial of a run.

    Attributes:
        trial: Its id.
        head: What ``outcome.json`` says.
        folder: Its files.
    """

    trial: str
    head: OutcomeFile
    folder: TrialFolder

    @property
    def reward(self) -> int:
        """The reward that it has."""
        return int(self.head.outcome.reward or 0)


@dataclass(frozen=True)
class Regraded:
    """What grading a trial again found.

    Attributes:
        trial: Its id.
        before: The reward that it has.
        after: The reward that it earns now; ``None`` where it cannot be graded.
        sentence: What that means, for people.
    """

    trial: str
    before: int
    after: int | None
    sentence: str

    @property
    def agrees(self) -> bool:
        """Whether the verdict is what it was."""
        return self.after == self.before


def stored(directory: RunDirectory) -> Iterator[Stored]:
    """The trials of a run that have a verdict, in the order of their ids.

    Raises:
        RunError: The journal or a record is damaged.
    """
    for trial in sorted(settled_trials(read_journal(directory.journal))):
        folder = directory.store.folder(trial)
        if folder.head.outcome.reward is not None and folder.verdict() is not None:
            yield Stored(trial, folder.head, folder)


def drawn(trials: Sequence[Stored], count: int) -> list[Stored]:
    """A sample by chance, always the same one: of more trials it keeps all but those that further ones displace."""
    by_chance = sorted(trials, key=lambda each: hashlib.sha256(each.trial.encode()).digest())
    return sorted(by_chance[:count], key=lambda each: each.trial)


def delta_of(found: Sequence[Regraded]) -> RegradeDelta:
    """What came of a sample."""
    return RegradeDelta(
        trials=len(found),
        agree=sum(each.agrees for each in found),
        false_zeros=tuple(each.trial for each in found if (each.before, each.after) == (0, 1)),
        false_ones=tuple(each.trial for each in found if (each.before, each.after) == (1, 0)),
        undecided=tuple(each.trial for each in found if each.after is None),
    )


@dataclass(frozen=True)
class Again:
    """Grades stored trials again.

    Attributes:
        grader: Runs tests in fresh sandboxes.
    """

    grader: SandboxedGrader

    async def grade(self, one: Stored, source: From) -> Regraded:
        """Grade a trial again."""
        before = one.reward
        try:
            after = await self._reward(one, source)
        except (TaskError, SandboxError) as error:
            return Regraded(one.trial, before, None, f"it cannot be graded again: {error.problem}")
        words = {(0, 1): "a false zero: it earns 1 now", (1, 0): "a false one: it earns 0 now"}
        return Regraded(one.trial, before, after, words.get((before, after), "as it was"))

    async def _reward(self, one: Stored, source: From) -> int:
        task = _task(one.head)
        if source is From.REPORT:
            verdict = one.folder.verdict()
            assert verdict is not None
            return reward_from_report(task.tests, verdict)
        patch = one.folder.patch()
        return (await self.grader.verdict(task, patch or Patch())).reward


def _task(head: OutcomeFile) -> Task:
    """The task of a trial, as it was.

    Raises:
        TaskError: It is not there any more, or holds something else now.
    """
    task = Task.load(head.spec.task)
    try:
        held = directory_digest(head.spec.task)
    except (OSError, LegoError) as error:
        raise TaskError(f"task {task.id} cannot be read: {error}", "put it back where it was") from error
    if head.spec.content_digest is not None and held != head.spec.content_digest:
        raise TaskError(f"task {task.id} was changed since", "put it back as it was")
    return task
