"""``lego-rl regrade``: the verdicts of a run once more, from stored patches or from stored reports.

Invariant: nothing of a run is changed. What is found is written beside it, ``regraded.json``, with every trial whose
verdict is another one named; a trial that cannot be graded again is said to be that, and agrees with nothing.
"""

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from lego_rl.commands import interrupts
from lego_rl.commands.check import sandbox_settings
from lego_rl.commands.live_line import LiveLine
from lego_rl.commands.screen import Screen
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.durable import write_text
from lego_rl.errors import RunError
from lego_rl.evaluate.made_from import From
from lego_rl.evaluate.regrade import REGRADED, Again, Regraded, delta_of, stored
from lego_rl.evaluate.trials import run_directories
from lego_rl.plain_text import plain_line
from lego_rl.rollout.store import RunDirectory
from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.task_grader import SandboxedGrader

_AT_ONCE = 2


def run(path: Path, source: From, sample: int | None, overrides: Sequence[str]) -> None:
    """Grade the trials of a run, or of every cell of an evaluation, again.

    Args:
        path: A run directory, or the folder of an evaluation.
        source: What verdicts are made from.
        sample: So many trials of each run, drawn by chance; all of them if unset.
        overrides: ``sandbox.key=value`` strings, over the run's own.

    Raises:
        RunError: There is no run, or verdicts differ.
        SandboxError: Tests cannot be run here.
    """
    places = cells_of(path)
    found: dict[str, list[Regraded]] = {}
    for place in places:
        settings = _settings(place, overrides)
        found[place.name] = interrupts.run(_regrade(place, source, sample, settings, label=None))
        _write(place, found[place.name], source)
    screen = Screen()
    screen.print(table(found))
    wrong = [each for some in found.values() for each in some if not each.agrees]
    for each in wrong:
        screen.print(plain_line(f"{each.trial}: {each.sentence}"), soft_wrap=True)
    if wrong:
        raise RunError(
            f"{len(wrong)} of {sum(map(len, found.values()))} verdicts are not what they were",
            "look at the tests of the trials above: what is flaky, or needs what is not here, belongs in no result",
        )


def regrade_sample(place: Path, count: int, settings: SandboxSettings, label: str) -> None:
    """Grade a sample of a cell again from its patches, and write down what came of it.

    Args:
        place: The cell's run directory.
        count: Trials of the sample; 0 for none.
        settings: Of the sandboxes.
        label: Of the trials that may be drawn.
    """
    if count and not (place / REGRADED).is_file():
        found = interrupts.run(_regrade(place, From.PATCH, count, settings, label))
        _write(place, found, From.PATCH)


def cells_of(path: Path) -> list[Path]:
    """The run directories of a run or an evaluation.

    Raises:
        RunError: There is none.
    """
    cells = sorted(shard for shard in path.glob("cells/*/*") if (shard / "journal").is_file())
    return cells or [directory.path for directory in run_directories(path)]


async def _regrade(
    place: Path, source: From, sample: int | None, settings: SandboxSettings, label: str | None
) -> list[Regraded]:
    trials = [each for each in stored(RunDirectory(place)) if label is None or each.head.spec.label == label]
    if sample is not None and sample < len(trials):
        trials = sorted(random.Random(0).sample(trials, sample), key=lambda each: each.trial)
    provider = provider_of(settings)
    if source is From.PATCH and trials:
        provider.check()
        provider.reap()
    again, slots, done = Again(SandboxedGrader(provider, settings)), asyncio.Semaphore(_AT_ONCE), 0
    with LiveLine() as line:

        async def one(at: int) -> Regraded:
            nonlocal done
            async with slots:
                found = await again.grade(trials[at], source)
            done += 1
            line.show(f"graded {done} of {len(trials)} again")
            return found

        return list(await asyncio.gather(*(one(at) for at in range(len(trials)))))


def _settings(place: Path, overrides: Sequence[str]) -> SandboxSettings:
    """The sandboxes of the run, where it says; changed by overrides."""
    recipe = RunDirectory(place).recipe
    own = read(Recipe, recipe).sandbox if recipe.is_file() else SandboxSettings()
    if not overrides:
        return own
    changed = sandbox_settings(own.environment, overrides)
    return own.model_copy(update={name: getattr(changed, name) for name in changed.model_fields_set})


def _write(place: Path, found: Sequence[Regraded], source: From) -> None:
    content = {"from": source.value, "delta": asdict(delta_of(found)), "trials": [asdict(each) for each in found]}
    write_text(place / REGRADED, json.dumps(content, indent=1, default=str) + "\n")


def table(found: dict[str, list[Regraded]]) -> Table:
    """Verdicts as they were, by what they are now."""
    shown = Table("run", "graded again", "agree", box=None, pad_edge=False)
    for name in ("1 → 1", "0 → 0", "false zeros (0 → 1)", "false ones (1 → 0)", "not graded"):
        shown.add_column(name, justify="right")
    for run_name, some in found.items():
        counts = {pair: sum((e.before, e.after) == pair for e in some) for pair in ((1, 1), (0, 0), (0, 1), (1, 0))}
        none = sum(each.after is None for each in some)
        agree = sum(each.agrees for each in some)
        shown.add_row(run_name, str(len(some)), str(agree), *map(str, counts.values()), str(none))
    return shown
