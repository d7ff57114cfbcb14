"""How a run on stock verl is started: its files beside the resolved recipe, and the one line that starts it.

Invariant: the line is complete. Run by hand, on any machine that shares the run directory, it does the same.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lego_rl.cluster.overrides import LOOP, LOOP_CLASS, RunFiles, cluster_of, environment, overrides
from lego_rl.config.load import dump
from lego_rl.config.recipe import Recipe
from lego_rl.durable import write_text
from lego_rl.errors import LegoError
from lego_rl.policies import policy_directory
from lego_rl.tasks.pool import BUILTIN


@dataclass(frozen=True)
class Launch:
    """What starts a run.

    Attributes:
        recipe: The recipe, with absolute paths: verl's processes work in folders of their own.
        files: The run's.
        environment: What is added to the environment.
        command: The line.
    """

    recipe: Recipe
    files: RunFiles
    environment: Mapping[str, str]
    command: Sequence[str]

    @classmethod
    def of(cls, recipe: Recipe, python: Path) -> Self:
        """How a recipe is started.

        Args:
            recipe: The recipe.
            python: Python of verl's environment.

        Raises:
            ConfigError: The recipe has no cluster, or contradicts itself.
        """
        cluster, resolved = cluster_of(recipe), with_absolute_paths(recipe)
        files = RunFiles(resolved.run.dir, _policy(resolved))
        own = f"hydra.run.dir={files.run / 'hydra'}"  # Hydra would make a folder where the command was called
        command = [str(python), "-m", "verl.trainer.main_ppo", *overrides(resolved, files), own]
        return cls(resolved, files, environment(cluster, files), command)

    @property
    def line(self) -> str:
        """The command as a shell takes it."""
        added = [f"{name}={shlex.quote(text)}" for name, text in self.environment.items()]
        return " ".join([*added, shlex.join(self.command)])

    @property
    def loops(self) -> str:
        """verl's agent-loop configuration: YAML, of which JSON is a part."""
        return json.dumps([{"name": LOOP, "_target_": LOOP_CLASS, "recipe": str(self.files.recipe)}], indent=1) + "\n"

    def write(self) -> None:
        """Write the resolved recipe and the agent-loop configuration into the run directory.

        Metrics of an earlier start are put aside, as ``verl-001.jsonl`` and so on: verl empties the file.
        """
        run, metrics = self.files.run, self.files.metrics
        run.mkdir(parents=True, exist_ok=True)
        if metrics.exists() and metrics.stat().st_size:
            earlier = len(list(run.glob(f"{metrics.stem}-*{metrics.suffix}")))
            metrics.rename(metrics.with_stem(f"{metrics.stem}-{earlier + 1:03}"))
        write_text(self.files.recipe, dump(self.recipe))
        write_text(self.files.loops, self.loops)


def with_absolute_paths(recipe: Recipe) -> Recipe:
    """The same recipe, whatever folder it is read in."""
    tasks, policy = recipe.tasks, recipe.policy
    if tasks.pool != BUILTIN:
        tasks = tasks.model_copy(update={"pool": str(Path(tasks.pool).absolute())})
    if Path(policy.path).is_dir():
        policy = policy.model_copy(update={"path": str(Path(policy.path).absolute())})
    cluster = cluster_of(recipe)
    if cluster.python is not None:  # not resolved: a link to a Python is how an environment finds itself
        cluster = cluster.model_copy(update={"python": cluster.python.absolute()})
    run = recipe.run.model_copy(update={"dir": recipe.run.dir.absolute()})
    return recipe.model_copy(update={"run": run, "tasks": tasks, "policy": policy, "cluster": cluster})


def _policy(recipe: Recipe) -> str:
    """What verl is told of the policy; where it is not here, what the recipe says."""
    try:
        return str(policy_directory(recipe.policy.path))
    except LegoError:
        return recipe.policy.path
