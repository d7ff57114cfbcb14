"""``lego-rl regrade``: the verdicts of a run once more, from stored patches or from stored reports.

Invariant: nothing of a run is changed. What is found is written beside it (`evaluate.regraded_file`), with every trial
whose verdict is another one named, of whichever cell it is; a trial that cannot be graded again is said to be that, and
agrees with nothing.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from lego_rl.commands import interrupts
from lego_rl.commands.check import sandbox_settings
from lego_rl.commands.live_line import LiveLine
from lego_rl.commands.screen import Screen
from lego_rl.config.evaluation import CELLS
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.errors import RunError
from lego_rl.evaluate.made_from import From
from lego_rl.evaluate.regrade import Again, Regraded, Stored, drawn, stored
from lego_rl.evaluate.regraded_file import RegradedFile
from lego_rl.evaluate.trials import run_directories
from lego_rl.plain_text import plain_line
from lego_rl.rollout.store import RunDirectory
from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.task_grader import SandboxedGrader
from lego_rl.tasks.at_once import all_of


def run(path: Path, source: From, sample: int | None, at_once: int, overrides: Sequence[str]) -> None:
    """Grade the trials of a run, or of every cell of an evaluation, again, or what is left of them.

    Args:
        path: A run directory, or the folder of an evaluation.
        source: What verdicts are made from.
        sample: So many trials of each run, drawn by chance; all of them if unset.
        at_once: Trials at a time.
        overrides: ``sandbox.key=value`` strings, over the run's own.

    Raises:
        RunError: There is no run, none of its trials has a verdict, or verdicts differ.
        SandboxError: Tests cannot be run here.
    """
    files = {name: RegradedFile(place, source) for name, place in places_of(path).items()}
    found: dict[str, list[Regraded]] = {}
    for name, file in files.items():
        trials = list(stored(RunDirectory(file.folder)))
        trials = trials if sample is None else drawn(trials, sample)
        settings = _settings(file.folder, overrides)
        found[name] = interrupts.run(_graded(trials, file, file.begun(trials), settings, at_once))
    for name, file in files.items():  # all at once: a command that was stopped goes on in every cell
        file.finish(found[name])
    if not any(found.values()):
        raise RunError(f"{path} has no trial with a verdict", "name a run whose trials were graded")
    screen = Screen()
    screen.print(table(found))
    wrong = [(name, each) for name, some in found.items() for each in some if not each.agrees]
    for name, each in wrong:
        screen.print(plain_line(f"{name}: {each.trial}: {each.sentence}"), soft_wrap=True)
    if wrong:
        raise RunError(
            f"{len(wrong)} of {sum(map(len, found.values()))} verdicts are not what they were",
            "look at the tests of the trials above: what is flaky, or needs what is not here, belongs in no result",
        )


def regrade_sample(place: Path, count: int, at_once: int, settings: SandboxSettings, label: str) -> None:
    """Grade a sample of a cell again from its patches, but for what was, and write down what came of it.

    Args:
        place: The cell's run directory.
        count: Trials of the sample; 0 for none.
        at_once: Trials at a time.
        settings: Of the sandboxes.
        label: Of the trials that may be drawn.
    """
    own = [each for each in stored(RunDirectory(place)) if each.head.spec.label == label]
    file, sample = RegradedFile(place, From.PATCH), drawn(own, count)
    known = file.known(own)
    if any(each.trial not in known for each in sample):
        again = interrupts.run(_graded(sample, file, known | file.begun(sample), settings, at_once))
        whole = known | {each.trial: each for each in again}
        file.finish([whole[name] for name in sorted(whole)])


def places_of(path: Path) -> dict[str, Path]:
    """The run directories of a run or an evaluation, by what tells them apart.

    Raises:
        RunError: There is none.
    """
    cells = [shard for shard in sorted(path.glob(f"{CELLS}/*/*")) if (shard / "journal").is_file()]
    if cells:
        return {shard.relative_to(path / CELLS).as_posix(): shard for shard in cells}
    return {directory.path.name: directory.path for directory in run_directories(path)}


async def _graded(
    trials: Sequence[Stored],
    file: RegradedFile,
    known: Mapping[str, Regraded],
    settings: SandboxSettings,
    at_once: int,
) -> list[Regraded]:
    """The verdicts of trials once more, in their order; those that are known are not made again."""
    left = [each for each in trials if each.trial not in known]
    provider = provider_of(settings)
    if file.source is From.PATCH and left:
        provider.check()
        provider.reap()
    again, slots = Again(SandboxedGrader(provider, settings)), asyncio.Semaphore(at_once)
    done = len(trials) - len(left)
    with LiveLine() as line:

        async def one(trial: Stored) -> Regraded:
            nonlocal done
            async with slots:
                graded = await again.grade(trial, file.source)
            file.add(graded)
            done += 1
            line.show(f"graded {done} of {len(trials)} again")
            return graded

        graded = await all_of(one(trial) for trial in left)
    found = {**known, **{each.trial: each for each in graded}}
    return [found[each.trial] for each in trials]


def _settings(place: Path, overrides: Sequence[str]) -> SandboxSettings:
    """The sandboxes of the run, where it says; changed by overrides."""
    recipe = RunDirectory(place).recipe
    own = read(Recipe, recipe).sandbox if recipe.is_file() else SandboxSettings()
    if not overrides:
        return own
    changed = sandbox_settings(own.environment, overrides)
    return own.model_copy(update={name: getattr(changed, name) for name in changed.model_fields_set})


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
