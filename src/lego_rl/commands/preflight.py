"""What preflight rules ask of this machine, and the answer of all of them about one recipe."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lego_rl.commands.policies import check_policy
from lego_rl.commands.recipe_check import load_tasks, room_for
from lego_rl.config.preflight.here import BELOW, REQUIRED, VEOMNI
from lego_rl.config.preflight.rule import Facts, Verdict, judge
from lego_rl.config.preflight.table import RULES
from lego_rl.config.recipe import Recipe
from lego_rl.config.shapes import ModelShape, shape_of
from lego_rl.errors import ConfigError, LegoError
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls.probe import check_parser
from lego_rl.harness import registry
from lego_rl.policies import policy_directory
from lego_rl.sandbox.disk import check_state_folder
from lego_rl.sandbox.environments import provider_of, state_of
from lego_rl.train.loop_tasks import LoopTasks

_ASK_VERSIONS = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found[name] = None
print(json.dumps(found))
"""


@dataclass(frozen=True)
class ThisMachine:
    """The machine that the command runs on, as `config.preflight.rule.Machine`.

    Attributes:
        recipe: The recipe that it is asked about.
    """

    recipe: Recipe

    def sandbox(self) -> str:
        """See `Machine.sandbox`."""
        provider = provider_of(self.recipe.sandbox)
        provider.check()
        check_state_folder(state_of(self.recipe.sandbox).root)
        provider.reap()
        report = asyncio.run(provider.probe())
        return f"{self.recipe.sandbox.environment}; memory is held by {report.memory}, processes by {report.processes}"

    def parser(self) -> str:
        """See `Machine.parser`."""
        source, name = policy_directory(self.recipe.policy.path), self.recipe.policy.tool_parser
        if self.recipe.cluster is None:  # what the embedded engine demands; verl's take all of transformers
            check_policy(self.recipe, source)
        check_parser(ChatTemplate.load(source), name)
        return f"{self.recipe.policy.path} fits the budget, its template and {name} agree"

    def bundle(self) -> str:
        """See `Machine.bundle`."""
        bundle = registry.load(self.recipe.harness.name)
        return f"{bundle.name} {bundle.version} is installed"

    def tasks(self) -> int:
        """See `Machine.tasks`."""
        return len(self._tasks.train)

    def room(self) -> str | None:
        """See `Machine.room`."""
        return room_for(self.recipe, self._tasks.every)

    def free_bytes(self) -> int:
        """See `Machine.free_bytes`."""
        folder = self.recipe.run.dir.absolute()
        while not folder.is_dir():
            folder = folder.parent
        return shutil.disk_usage(folder).free

    def versions(self) -> Mapping[str, str | None]:
        """See `Machine.versions`."""
        python = verl_python(self.recipe)
        names = [*REQUIRED, VEOMNI[0], BELOW[0], "vllm"]
        try:
            asked = subprocess.run(
                [python, "-c", _ASK_VERSIONS, *names], capture_output=True, text=True, check=True, timeout=60
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ConfigError(f"{python} cannot be asked for its packages: {error}", "mend cluster.python") from error
        found: dict[str, str | None] = json.loads(asked.stdout)
        return found

    @cached_property
    def _tasks(self) -> LoopTasks:
        return load_tasks(self.recipe)


def verl_python(recipe: Recipe) -> Path:
    """The Python that runs verl: the recipe's, else this one."""
    chosen = recipe.cluster.python if recipe.cluster is not None else None
    return Path(sys.executable) if chosen is None else chosen


def preflight(recipe: Recipe, *, offline: bool) -> Sequence[Verdict]:
    """Ask every rule about a recipe.

    Args:
        recipe: The resolved recipe.
        offline: Whether only the recipe is looked at, and this machine is not.

    Raises:
        ConfigError: The policy's ``config.json`` is damaged.
    """
    facts = Facts(recipe, _shape(recipe), None if offline else ThisMachine(recipe))
    return judge(RULES, facts)


def _shape(recipe: Recipe) -> ModelShape | None:
    try:
        path = str(policy_directory(recipe.policy.path))
    except LegoError:  # not here: what is published under its name may be known
        path = recipe.policy.path
    return shape_of(path)
