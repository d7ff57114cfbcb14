"""``lego-rl eval run``: every model in every harness over the tasks, and the report.

Invariant: a cell is an ordinary run directory, so what has a score is never run again, whatever ended the command; and
everything that a cell needs is seen to be there before the first trial of any begins.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from lego_rl.commands.eval_cells import LABEL, EvaluationCell, cells_of
from lego_rl.commands.eval_progress import EvaluationProgress
from lego_rl.commands.eval_report import report_folders
from lego_rl.commands.eval_tasks import Findings, chosen_tasks, findings_of
from lego_rl.commands.live_line import said_if_slow
from lego_rl.commands.program import program
from lego_rl.commands.recipe_check import check_tasks, room_for
from lego_rl.commands.regrade import regrade_sample
from lego_rl.commands.rollout import Trials, parse_shard
from lego_rl.commands.screen import Screen
from lego_rl.config.evaluation import EvaluationConfig, plain_protocol
from lego_rl.config.load import dump, read
from lego_rl.durable import write_text
from lego_rl.evaluate.folder import write_reviews
from lego_rl.evaluate.plan import Plan, PlannedCell
from lego_rl.evaluate.review import reviewed
from lego_rl.rollout.contents import check_contents
from lego_rl.rollout.handover import Handover
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.spec import Shard, TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.sandbox.environments import provider_of
from lego_rl.tasks.task import Task

CONFIG = "evaluation.toml"
_GUIDE = "docs/evaluation.md"
_CHANGED = "put those tasks back as they were, or name another evaluation.dir"


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
        findings = findings_of(config.tasks, tasks, config.sandbox)
        plan = _plan(config, tasks, findings)
        plan.check(config.evaluation.dir)
        cells = cells_of(config, models, tasks, part)
        for cell in cells:
            check_contents(cell.directory, tasks, _CHANGED)
        left = [(cell, cell.checked()) for cell in cells]
    for note in (room_for(cells[0].recipe, tasks), _unvalidated(findings, len(tasks), config)):
        if note is not None:
            screen.print(f"note: {note}", soft_wrap=True)
    plan.begin(config.evaluation.dir)
    write_text(config.evaluation.dir / CONFIG, dump(config))
    sampled = sum(trial.sampled for cell in cells for trial in cell.ended())
    with EvaluationProgress(sum(len(cell.specs) for cell in cells), config.caps, sampled, screen) as progress:
        for cell, trials in left:
            progress.cell(cell.name)
            if trials is not None:
                asyncio.run(_run_cell(cell, trials, progress))
            else:
                own = {spec.id for spec in cell.specs}
                progress.finished(trial.reward for trial in cell.ended() if trial.id in own)
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


def _plan(config: EvaluationConfig, tasks: Sequence[Task], findings: Findings) -> Plan:
    """What is asked for."""
    cells = tuple(
        PlannedCell(model.name, harness.column, harness.review)
        for model in config.models
        for harness in config.harnesses
    )
    return Plan(
        protocol=plain_protocol(config),
        attempts=config.evaluation.attempts,
        tasks=tuple(task.path.name for task in tasks),
        cells=cells,
        excluded=findings.excluded,
        unvalidated=len(findings.unvalidated),
        seed=config.evaluation.seed,
    )


def _unvalidated(findings: Findings, tasks: int, config: EvaluationConfig) -> str | None:
    if not findings.unvalidated:
        return None
    return (
        f"whether their own solutions pass here is not known of {len(findings.unvalidated)} of {tasks} tasks: "
        f"{program()} tasks validate {config.tasks.pool}"
    )


async def _run_cell(cell: EvaluationCell, trials: Trials, progress: EvaluationProgress) -> None:
    """Run what is left of a cell, reviews included."""
    directory = RunDirectory.make(cell.directory.path)
    with trials.opened(directory, progress, cell.temperature) as batch:
        cell.choice(trials).begin(directory)
        if not directory.recipe.exists():
            write_text(directory.recipe, dump(cell.recipe))

        async def stage(some: Sequence[TrialSpec], handovers: Mapping[str, Handover]) -> list[TrialRecord]:
            return await batch(some, handovers, progress.may_begin)

        drafts = await stage(cell.specs, {})
        if cell.review and len(drafts) == len(cell.specs):
            write_reviews(directory.path, await reviewed(drafts, stage, cell.review))
