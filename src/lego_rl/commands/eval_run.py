"""``lego-rl eval run``: every model in every harness over the tasks, and the report.

Invariant: a cell is an ordinary run directory, so what has a score is never run again, whatever ended the command; and
everything that a cell needs is seen to be there before the first trial of any begins.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lego_rl.commands.eval_progress import EvaluationProgress
from lego_rl.commands.eval_report import report_folders
from lego_rl.commands.eval_tasks import chosen_tasks, excluded_tasks
from lego_rl.commands.live_line import said_if_slow
from lego_rl.commands.policies import policy_directory
from lego_rl.commands.program import program
from lego_rl.commands.recipe_check import check_tasks, room_for
from lego_rl.commands.regrade import regrade_sample
from lego_rl.commands.rollout import Trials, parse_shard, trials_of
from lego_rl.commands.rollouts import SpecBuilder
from lego_rl.commands.screen import Screen
from lego_rl.config.evaluation import (
    EvaluatedHarness,
    EvaluationConfig,
    ModelSection,
    cell_recipe,
    plain_protocol,
)
from lego_rl.config.load import dump, read
from lego_rl.config.recipe import Recipe
from lego_rl.durable import write_text
from lego_rl.engine.chat_settings import ChatSettings
from lego_rl.errors import ConfigError
from lego_rl.evaluate.folder import write_reviews
from lego_rl.evaluate.plan import Plan, PlannedCell
from lego_rl.evaluate.review import reviewed
from lego_rl.rollout.choice import Choice
from lego_rl.rollout.contents import check_contents
from lego_rl.rollout.handover import Handover
from lego_rl.rollout.metrics_file import checkpoints_in
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.spec import Shard, TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.sandbox.environments import provider_of
from lego_rl.tasks.task import Task
from lego_rl.train.card import PolicyCard

LABEL = "evaluation"
CONFIG = "evaluation.toml"
_GUIDE = "docs/evaluation.md"
_CHANGED = "put those tasks back as they were, or name another evaluation.dir"


@dataclass(frozen=True)
class _Cell:
    """A cell whose parts are there."""

    name: str
    recipe: Recipe
    trials: Trials
    review: int

    @property
    def directory(self) -> RunDirectory:
        return RunDirectory(self.recipe.run.dir)

    def specs(self, config: EvaluationConfig, tasks: Sequence[Task], part: Shard) -> list[TrialSpec]:
        """The trials that it is to have here."""
        build = SpecBuilder(self.recipe)
        return part.of(build(tasks, LABEL, config.evaluation.attempts, config.protocol.temperature))


def run(path: Path, overrides: Sequence[str], shard: str) -> None:
    """Run what is left of an evaluation, and report.

    Args:
        path: Its configuration.
        overrides: ``section.key=value`` strings.
        shard: ``i/n``: only this part of the tasks, counted from 0.

    Raises:
        RunError: The folder holds another evaluation, or a check stopped a cell.
        LegoError: Something that the configuration names is missing or does not fit.
    """
    missing = run_config(read_config(path, overrides), parse_shard(shard))
    if missing:
        Screen(stderr=True).print(f"{missing} trials are left: {program()} eval run {path}", soft_wrap=True)


def run_config(config: EvaluationConfig, part: Shard, only: Sequence[str] | None = None) -> int:
    """Run what is left of an evaluation, and report.

    Args:
        config: The evaluation.
        part: Which part of the tasks.
        only: Names of the models that are run now; all of them if unset. The report is of all.

    Returns:
        Trials of these that have not ended, because a cap was reached.

    Raises:
        RunError: The folder holds another evaluation, or a check stopped a cell.
        LegoError: Something that the configuration names is missing or does not fit.
    """
    screen = Screen(stderr=True)
    models = [model for model in config.models if only is None or model.name in only]
    with said_if_slow("checking models, harnesses and tasks"):
        tasks = chosen_tasks(config.tasks, config.sandbox)
        check_tasks(tasks, provider_of(config.sandbox))
        cells = [_checked(config, model, harness, part) for model in models for harness in config.harnesses]
        for cell in cells:
            check_contents(cell.directory, tasks, _CHANGED)
        excluded = excluded_tasks(config.tasks, tasks)
    if (warning := room_for(cells[0].recipe, tasks)) is not None:
        screen.print(f"note: {warning}", soft_wrap=True)
    _begin(config, tasks, excluded)
    own = [cell.specs(config, tasks, part) for cell in cells]
    with EvaluationProgress(sum(map(len, own)), config.caps, screen) as progress:
        for cell, specs in zip(cells, own, strict=True):
            progress.cell(cell.name)
            asyncio.run(_run_cell(cell, specs, config, progress, part))
    if progress.capped is not None:
        screen.print(f"{progress.capped}: what is missing is run by the same command with a higher one", style="yellow")
    for cell in cells if progress.capped is None else ():
        regrade_sample(
            cell.directory.path, config.evaluation.regrade, config.running.concurrency, config.sandbox, LABEL
        )
    report_folders([config.evaluation.dir])
    return progress.missing


def dry_run(path: Path, overrides: Sequence[str]) -> None:
    """Print the resolved configuration and the size of the table.

    Raises:
        LegoError: It cannot be used, or the tasks are not there.
    """
    config = read_config(path, overrides)
    tasks = chosen_tasks(config.tasks, config.sandbox)
    screen = Screen()
    screen.print(dump(config), soft_wrap=True)
    count = len(config.models) * len(config.harnesses) * len(tasks) * config.evaluation.attempts
    screen.print(
        f"# {len(config.models)} models × {len(config.harnesses)} harnesses × {len(tasks)} tasks × "
        f"{config.evaluation.attempts} attempts = {count} trials"
    )


def read_config(path: Path, overrides: Sequence[str]) -> EvaluationConfig:
    """The configuration of an evaluation.

    Raises:
        ConfigError: It cannot be used.
    """
    return read(EvaluationConfig, path, overrides, guide=_GUIDE)


def _begin(config: EvaluationConfig, tasks: Sequence[Task], excluded: Mapping[str, str]) -> None:
    """Write down what is asked for."""
    cells = tuple(
        PlannedCell(model.name, harness.column, harness.review)
        for model in config.models
        for harness in config.harnesses
    )
    names = tuple(task.path.name for task in tasks)
    Plan(plain_protocol(config), config.evaluation.attempts, names, cells, excluded).begin(config.evaluation.dir)
    write_text(config.evaluation.dir / CONFIG, dump(config))


def _checked(config: EvaluationConfig, model: ModelSection, harness: EvaluatedHarness, part: Shard) -> _Cell:
    policy, chat = _policy(model), isinstance(model.engine, ChatSettings)
    card = None if chat else PolicyCard.read(Path(policy))
    shard = f"{part.index}-of-{part.count}"
    recipe = cell_recipe(config, model, harness, policy, shard=shard, trained_with=card.reasoning if card else None)
    trials = trials_of(recipe, config.protocol.temperature)
    return _Cell(f"{model.name} in {harness.column}", recipe, trials, harness.review)


def _policy(model: ModelSection) -> str:
    """The directory of a model, or its name behind an endpoint.

    Raises:
        ConfigError: The run has no checkpoint of the embedded trainer.
    """
    if isinstance(model.engine, ChatSettings):
        return model.engine.model
    if model.run is None:
        return str(policy_directory(model.path or ""))
    checkpoints = checkpoints_in(model.run / "checkpoints")
    if not checkpoints or not (checkpoints[-1][1] / "policy").is_dir():
        raise ConfigError(
            f"model {model.name!r}: {model.run} has no checkpoint with a policy",
            "name a run of the embedded trainer, or export the run (lego-rl export) and name the folder as path",
        )
    return str(checkpoints[-1][1] / "policy")


async def _run_cell(
    cell: _Cell, specs: Sequence[TrialSpec], config: EvaluationConfig, progress: EvaluationProgress, part: Shard
) -> None:
    """Run what is left of a cell, reviews included."""
    directory = RunDirectory.make(cell.directory.path)
    temperature = config.protocol.temperature
    with cell.trials.opened(directory, progress, temperature) as batch:
        Choice(batch.who.policy, batch.who.harness, temperature, f"{part.index}/{part.count}").begin(directory)
        if not directory.recipe.exists():
            write_text(directory.recipe, dump(cell.recipe))

        async def stage(some: Sequence[TrialSpec], handovers: Mapping[str, Handover]) -> list[TrialRecord]:
            return await batch(some, handovers, progress.may_begin)

        drafts = await stage(specs, {})
        if cell.review and len(drafts) == len(specs):
            write_reviews(directory.path, await reviewed(drafts, stage, cell.review))
