"""Whether the trials of a run are of its tasks as they are now.

Invariant: the trials of a run that have a reward are all of one content of their task. What a task directory held is
part of what a trial is of, so a run whose tasks were changed is not gone on with: nothing that was paid for is dropped,
and nothing is run again that nobody asked for.
"""

from collections import defaultdict
from collections.abc import Sequence

from lego_rl.errors import RunError
from lego_rl.rollout.journal import read_journal
from lego_rl.rollout.settled import SCORED, settled_trials
from lego_rl.rollout.store import RunDirectory
from lego_rl.tasks.index.current import named
from lego_rl.tasks.task import Task


def check_contents(directory: RunDirectory, tasks: Sequence[Task], fix: str) -> None:
    """Refuse to go on with a run that has a reward of a task that was changed since.

    Args:
        directory: The run.
        tasks: What is to be run.
        fix: What to do about it.

    Raises:
        RunError: There is one, or a record cannot be read or is of another format.
        TaskError: A task cannot be read.
    """
    before: dict[str, set[str]] = defaultdict(set)
    journal = read_journal(directory.journal) if directory.journal.is_file() else ()
    for trial, settled in settled_trials(journal).items():
        spec = directory.store.folder(trial).head.spec
        if settled.kind == SCORED and spec.content_digest is not None:
            before[spec.task.name].add(spec.content_digest)
    changed = [task.id for task in tasks if before.get(task.id, set()) - {task.content_digest}]
    if changed:
        raise RunError(
            f"{directory.path} has trials of {len(changed)} of {len(tasks)} tasks that were changed since: "
            f"{named(changed)}",
            fix,
        )
