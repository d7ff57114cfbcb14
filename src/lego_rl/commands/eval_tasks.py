"""The tasks of an evaluation, and which of them cannot be solved on this machine even by their own solution."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lego_rl.config.evaluation import EvaluatedTasks
from lego_rl.errors import ConfigError
from lego_rl.evaluate.heldout import spread_over_families
from lego_rl.sandbox.environments import provider_of, state_of
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.task_grader import SandboxedGrader
from lego_rl.tasks.pool import BUILTIN, load_pool, pool_place
from lego_rl.tasks.task import Task
from lego_rl.tasks.validate.journal import Validations

_FINDINGS = "validation.jsonl"


def chosen_tasks(settings: EvaluatedTasks, sandbox: SandboxSettings) -> list[Task]:
    """The tasks that a configuration names, in the order of their ids.

    Raises:
        TaskError: The pool or a task is incomplete.
        ConfigError: The pool has no such split.
    """
    splits = load_pool(pool_place(settings.pool, state_of(sandbox).root / "pools"))
    if settings.split is not None and settings.split not in splits:
        raise ConfigError(f"the pool has no split {settings.split!r}", f"it has {', '.join(sorted(splits))}")
    named = [settings.split] if settings.split is not None else sorted(splits)
    tasks = [task for split in named for task in splits[split]]
    return tasks if settings.count is None else spread_over_families(tasks, settings.count)


@dataclass(frozen=True)
class Findings:
    """What validation found of tasks as they are, in sandboxes as the evaluation's.

    Attributes:
        excluded: Tasks that cannot be solved here → why.
        unvalidated: Tasks of which nothing is known.
    """

    excluded: Mapping[str, str]
    unvalidated: Sequence[str]


def findings_of(settings: EvaluatedTasks, tasks: Sequence[Task], sandbox: SandboxSettings) -> Findings:
    """What is known of the tasks; those of ``builtin`` are made with their solutions.

    Raises:
        ConfigError: The file of findings that is named is not there.
        TaskError: A task cannot be read.
    """
    if settings.validation is not None and not settings.validation.is_file():
        raise ConfigError(
            f"there are no findings at {settings.validation}", "make them with: lego-rl tasks validate POOL"
        )
    place = settings.validation or _beside(settings.pool)
    if place is None:
        return Findings({}, () if settings.pool == BUILTIN else [task.path.name for task in tasks])
    known, sandboxes = Validations(place), SandboxedGrader(provider_of(sandbox), sandbox).sandboxes
    found = {task.path.name: known.known(task.path.name, task.content_digest, sandboxes, 1) for task in tasks}
    excluded = {
        name: f"{each.judgement}: {each.reason}"
        for name, each in found.items()
        if each is not None and each.judgement != "valid"
    }
    return Findings(excluded, [name for name, each in found.items() if each is None])


def _beside(pool: str) -> Path | None:
    if pool == BUILTIN:
        return None
    place = Path(pool)
    file = (place if place.is_dir() else place.parent) / _FINDINGS
    return file if file.is_file() else None
