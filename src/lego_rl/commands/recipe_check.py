"""What of a recipe can be refused before anything starts.

Invariant: nothing here imports torch, so that a recipe that cannot be run is refused in a moment.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lego_rl.commands.policies import check_policy, policy_directory
from lego_rl.config.recipe import Recipe, token_engine
from lego_rl.errors import ConfigError
from lego_rl.evaluate.heldout import evaluated_tasks
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import ToolCallParser, tool_call_parser
from lego_rl.gateway.tool_calls.probe import check_parser
from lego_rl.harness import registry
from lego_rl.harness.base import Harness, HarnessBundle
from lego_rl.sandbox.disk import check_state_folder
from lego_rl.sandbox.environments import provider_of, state_of
from lego_rl.sandbox.provider import Provider
from lego_rl.sandbox.room import check_room
from lego_rl.sandbox.task_check import check_task
from lego_rl.tasks.pool import load_pool, pool_place
from lego_rl.tasks.task import Task
from lego_rl.train.loop_tasks import LoopTasks


@dataclass(frozen=True)
class RuntimeParts:
    """What of a runtime can be refused before the engine is loaded."""

    harness: Harness
    bundle: HarnessBundle
    template: ChatTemplate
    tool_parser: ToolCallParser

    @classmethod
    def load(cls, recipe: Recipe, source: Path) -> "RuntimeParts":
        """Load what a recipe names.

        Args:
            recipe: The resolved recipe.
            source: The policy's directory.

        Raises:
            LegoError: Something is missing or does not fit.
        """
        harness = registry.make(recipe.harness.name, recipe.harness.options)
        bundle = registry.load(recipe.harness.name)
        template = ChatTemplate.load(source)
        check_parser(template, recipe.policy.tool_parser)
        return cls(harness, bundle, template, tool_call_parser(recipe.policy.tool_parser))


@dataclass(frozen=True)
class CheckedPolicy:
    """A policy and what it is tried with, which are there and fit.

    Attributes:
        source: The policy's directory.
        parts: What its trials share.
    """

    source: Path
    parts: RuntimeParts


@dataclass(frozen=True)
class Checked:
    """A recipe of which everything is there and fits.

    Attributes:
        policy: What is trained, and what its trials share.
        tasks: Which tasks they are of.
        note: What to be told of this machine, if anything.
    """

    policy: CheckedPolicy
    tasks: LoopTasks
    note: str | None


def check_recipe(recipe: Recipe) -> Checked:
    """Whether everything that a recipe names is there and fits, without loading a weight.

    Raises:
        LegoError: Something is missing or does not fit.
    """
    policy = check_sampling(recipe)
    tasks = load_tasks(recipe)
    return Checked(policy, tasks, room_for(recipe, tasks.every))


def check_sampling(recipe: Recipe) -> CheckedPolicy:
    """Whether trials of a recipe's policy can be run here, whatever the tasks are.

    Raises:
        LegoError: Something is missing or does not fit.
    """
    token_engine(recipe)
    provider_of(recipe.sandbox).check()
    check_state_folder(state_of(recipe.sandbox).root)
    source = policy_directory(recipe.policy.path)
    check_policy(recipe, source)
    return CheckedPolicy(source, RuntimeParts.load(recipe, source))


def load_tasks(recipe: Recipe) -> LoopTasks:
    """The training split, and of every evaluated split the chosen tasks.

    Raises:
        TaskError: The pool or a task is incomplete.
        SandboxError: Sandboxes have nowhere to keep their files, or a task asks for what it cannot have here.
        ConfigError: The pool has no such split, or more tasks are asked for than a split has.
    """
    state = state_of(recipe.sandbox)
    check_state_folder(state.root)
    splits = load_pool(pool_place(recipe.tasks.pool, state.root / "pools"))
    missing = [name for name in (recipe.tasks.train, *recipe.evaluate.splits) if name not in splits]
    if missing:
        raise ConfigError(f"the pool has no split {missing[0]!r}", f"it has {', '.join(sorted(splits))}")
    train, per_step = splits[recipe.tasks.train], recipe.rollout.tasks_per_step
    if per_step > len(train):
        raise ConfigError(
            f"a step of {per_step} tasks does not fit the {len(train)} of split {recipe.tasks.train!r}",
            "lower rollout.tasks_per_step",
        )
    tasks = LoopTasks(train=train, evaluated=evaluated_tasks(splits, recipe.evaluate))
    check_tasks(tasks.every, provider_of(recipe.sandbox))
    return tasks


def check_tasks(tasks: Iterable[Task], provider: Provider) -> None:
    """Whether trials of some tasks can be run here, as far as their files tell.

    Raises:
        TaskError: One is incomplete, or shows what it hides.
        UnservedTaskError: One asks for what this environment does not do.
        SandboxError: What one starts from is not here.
    """
    for task in tasks:
        check_task(task, provider)


def room_for(recipe: Recipe, tasks: Iterable[Task]) -> str | None:
    """Whether this machine has room for the trials that run at the same time.

    Returns:
        What to be told of, if anything; see `check_room`.

    Raises:
        SandboxError: It has not.
    """
    allowed = [recipe.sandbox.limits(task.memory_mb, task.storage_mb) for task in tasks]
    return check_room(recipe.sandbox, state_of(recipe.sandbox), allowed, recipe.rollout.concurrency)
