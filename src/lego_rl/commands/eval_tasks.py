"""The tasks of an evaluation, and which of them cannot be solved on this machine even by their own solution."""

from collections.abc import Sequence
from pathlib import Path

from lego_rl.config.evaluation import EvaluatedTasks
from lego_rl.errors import ConfigError
from lego_rl.evaluate.heldout import spread_over_families
from lego_rl.sandbox.environments import state_of
from lego_rl.sandbox.settings import SandboxSettings
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


def excluded_tasks(settings: EvaluatedTasks, tasks: Sequence[Task]) -> dict[str, str]:
    """Tasks that validation did not find valid → what it found.

    Raises:
        ConfigError: The file of findings that is named is not there.
    """
    if settings.validation is not None and not settings.validation.is_file():
        raise ConfigError(
            f"there are no findings at {settings.validation}", "make them with: lego-rl tasks validate POOL"
        )
    place = settings.validation or _beside(settings.pool)
    if place is None:
        return {}
    latest = Validations(place).latest
    found = {task.path.name: latest.get(task.path.name) for task in tasks}
    return {
        name: f"{each.judgement}: {each.reason}"
        for name, each in found.items()
        if each is not None and each.judgement not in ("valid", "fault")
    }


def _beside(pool: str) -> Path | None:
    if pool == BUILTIN:
        return None
    place = Path(pool)
    file = (place if place.is_dir() else place.parent) / _FINDINGS
    return file if file.is_file() else None
