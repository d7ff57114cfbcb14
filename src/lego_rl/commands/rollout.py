"""``lego-rl rollout``: batches of trials over tasks, without training, and their outcomes.

Invariant: a run directory is of one policy, sampled in one way, and of one shard. Its tasks and the number of their
trials may grow: a trial that has a reward is never run again, and every further one is independent of it. All that have
one are of one content of their task.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.table import Table

from lego_rl.commands.chat_rollouts import ChatTrials
from lego_rl.commands.engine_rollouts import EngineTrials
from lego_rl.commands.kept_apart import keep_apart
from lego_rl.commands.live_line import said_if_slow
from lego_rl.commands.named_tasks import check_indexes, named_tasks
from lego_rl.commands.policies import read_recipe
from lego_rl.commands.program import program
from lego_rl.commands.progress import ConsoleProgress
from lego_rl.commands.recipe_check import check_tasks, room_for
from lego_rl.commands.rollouts import SpecBuilder
from lego_rl.commands.run_outcomes import run_outcomes
from lego_rl.commands.screen import Screen
from lego_rl.config.begun import check_begun, moved
from lego_rl.config.load import dump
from lego_rl.config.recipe import Recipe
from lego_rl.durable import write_text
from lego_rl.engine.chat_settings import ChatSettings
from lego_rl.errors import ConfigError
from lego_rl.rollout.choice import Choice
from lego_rl.rollout.contents import check_contents
from lego_rl.rollout.labels import ROLLOUT
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.spec import Shard
from lego_rl.rollout.store import RunDirectory
from lego_rl.sandbox.environments import provider_of
from lego_rl.tasks.index.current import contents_of
from lego_rl.tasks.task import Task

OUTCOMES = "outcomes.parquet"
_CHANGED = (
    "put those tasks back or leave them out, or give their new trials another folder with --out: tasks filter reads "
    "both, and counts the trials of what a task holds now"
)


def run(
    recipe: Path,
    places: Sequence[Path],
    out: Path,
    *,
    n: int,
    temperature: float,
    shard: str,
    overrides: Sequence[str],
    first_attempt: int = 0,
) -> None:
    """Run what is left of a batch, write its outcomes and print them.

    Args:
        recipe: Policy, harness, budget, sandboxes.
        places: Index files, folders of task directories, or task directories.
        out: The run directory.
        n: Trials of each task.
        temperature: Sampling temperature; 0 for greedy decoding.
        shard: ``i/n``: only this part of the tasks, counted from 0.
        overrides: ``section.key=value`` strings.
        first_attempt: Number of the first of these trials; trials of other numbers have other seeds.

    Raises:
        RunError: The folder holds a run of something else, or rewards of a task that was changed since.
        LegoError: Something that the recipe names is missing or does not fit, or a check stopped the run.
    """
    keep_apart([recipe, *places], {"--out": out, "the outcomes in --out,": out / OUTCOMES})
    resolved = moved(read_recipe(recipe, overrides), out)
    trials, tasks = _checked(resolved, places, RunDirectory(out), temperature)
    part = parse_shard(shard)
    specs = part.of(SpecBuilder(resolved)(tasks, ROLLOUT, n, temperature, first_attempt))
    directory = RunDirectory.make(out)
    with (
        ConsoleProgress(0, Screen(stderr=True)) as progress,
        trials.opened(directory, progress, temperature) as batch,
    ):
        who = batch.who
        Choice(who.policy, who.harness, temperature, f"{part.index}/{part.count}").begin(directory)
        if not directory.recipe.exists():
            write_text(directory.recipe, dump(resolved))
        check_begun(resolved, directory.recipe)
        try:
            records = asyncio.run(batch(specs))
        finally:
            run_outcomes(directory).write(out / OUTCOMES)
    screen = Screen()
    screen.print(table(records, n))
    screen.print(f"{len(records)} trials of {who.policy} in {who.harness}, outcomes in {out / OUTCOMES}")
    if unknown := sum(record.outcome.counted_reward is None for record in records):
        screen.print(f"{unknown} have no reward; they alone are tried again by the same command: {program()} rollout")


type Trials = EngineTrials | ChatTrials
"""What answers, of either kind."""


def trials_of(recipe: Recipe, temperature: float) -> Trials:
    """What answers, where it is there and fits.

    Raises:
        LegoError: It is not, or does not.
    """
    match recipe.engine:
        case ChatSettings() as endpoint:
            return ChatTrials.checked(recipe, endpoint, temperature)
        case _:
            return EngineTrials.checked(recipe)


def _checked(
    recipe: Recipe, places: Sequence[Path], directory: RunDirectory, temperature: float
) -> tuple[Trials, list[Task]]:
    """The policy and the tasks, where trials of them can be run here and no ended one is of another content.

    Raises:
        LegoError: They cannot.
    """
    with said_if_slow("checking what the recipe names, and the tasks"):
        trials = trials_of(recipe, temperature)
        tasks = [Task.load(path) for path in named_tasks(places)]
        check_indexes(places, contents_of(tasks))
        check_tasks(tasks, provider_of(recipe.sandbox))
    if (warning := room_for(recipe, tasks)) is not None:
        typer.echo(f"note: {warning}", err=True)
    check_contents(directory, tasks, _CHANGED)
    return trials, tasks


def parse_shard(text: str) -> Shard:
    """A shard as it is written, ``i/n``.

    Raises:
        ConfigError: It is none.
    """
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal()):
        raise ConfigError(f"{text!r} is no shard", "write i/n, counted from 0, such as 0/4")
    return Shard(int(index), int(count))


def table(records: Sequence[TrialRecord], n: int) -> Table:
    """Tasks by how many of their trials were solved."""
    solved: dict[str, int] = {}
    unknown: Counter[str] = Counter()
    for record in records:
        task, reward = record.spec.task.name, record.outcome.counted_reward
        solved[task] = solved.get(task, 0) + (reward or 0)
        unknown[task] += reward is None
    shown = Table("solved", "tasks", box=None, pad_edge=False)
    counts = Counter(count for task, count in solved.items() if not unknown[task])
    for count in range(n + 1):
        shown.add_row(f"{count} of {n}", str(counts[count]))
    if any(unknown.values()):
        shown.add_row("unknown", str(sum(1 for count in unknown.values() if count)))
    return shown
