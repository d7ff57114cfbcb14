"""``lego-rl sft``: learn from captured demonstrations."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lego_rl.commands.policies import policy_directory
from lego_rl.commands.screen import Screen
from lego_rl.config.begun import check_begun
from lego_rl.config.load import dump, read
from lego_rl.config.recipe import Recipe
from lego_rl.config.sft_recipe import SftRecipe
from lego_rl.durable import write_text
from lego_rl.errors import ConfigError, RunError
from lego_rl.gateway.settings import DEFAULT_CAPTURE, Reasoning
from lego_rl.rollout.demonstrations import demonstrated_segments
from lego_rl.rollout.lock import LockedFolder
from lego_rl.rollout.metrics_file import checkpoints_in
from lego_rl.rollout.store import RunDirectory
from lego_rl.train.card import PolicyCard

if TYPE_CHECKING:
    from lego_rl.train.sft import SftMetrics

_INTERRUPTED = 130
_PRINT_EVERY = 10


def run(path: Path, overrides: Sequence[str]) -> None:
    """Fine-tune, or continue what was stopped.

    Raises:
        RunError: The run directory holds a run of another recipe, or another process is at work in it.
        LegoError: Something that the recipe names is missing or does not fit.
    """
    recipe = _read(path, overrides)
    with LockedFolder(recipe.run.dir) as folder:  # first: what another process is at work on is nothing to go on from
        directory = RunDirectory(folder.path)
        if directory.journal.exists():
            raise RunError(f"{folder.path} holds a run of lego-rl train", "choose another folder: --set run.dir=DIR")
        if checkpoints_in(directory.checkpoints) and directory.recipe.exists():
            check_begun(recipe, directory.recipe)
        _fine_tune(recipe, folder)


def _read(path: Path, overrides: Sequence[str]) -> SftRecipe:
    try:
        return read(SftRecipe, path, overrides)
    except ConfigError as error:
        if not _is_of_train(path):
            raise
        raise ConfigError(
            f"{path} is a recipe of lego-rl train", "docs/reference/sft.md has the other's keys"
        ) from error


def _is_of_train(path: Path) -> bool:
    try:
        read(Recipe, path)
    except ConfigError:
        return False
    return True


def _fine_tune(recipe: SftRecipe, folder: LockedFolder) -> None:
    segments = [segment for run in recipe.demonstrations.runs for segment in demonstrated_segments(run)]
    from lego_rl.train.sft import run_sft  # it imports torch: what cannot be run is refused before that

    write_text(RunDirectory(folder.path).recipe, dump(recipe))
    card = PolicyCard("sft", recipe.policy.path, None, reasoning_of(recipe.demonstrations.runs))
    console = Screen()
    console.print(f"{len(segments)} segments of demonstrations · {recipe.sft.steps} updates of {recipe.sft.batch}")

    def show(metrics: "SftMetrics") -> None:
        if metrics.step % _PRINT_EVERY == 0 or metrics.step == recipe.sft.steps - 1:
            console.print(
                f"update {metrics.step + 1}/{recipe.sft.steps} · loss {metrics.loss:.4f} · accuracy"
                f" {metrics.accuracy:.4f} · {metrics.positions / metrics.seconds:.0f} positions/s"
            )

    try:
        policy = run_sft(policy_directory(recipe.policy.path), segments, folder, recipe.sft, show, card)
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on from the last checkpoint", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    console.print(f"policy: {policy}")


def reasoning_of(runs: Sequence[Path]) -> Reasoning | None:
    """How all the demonstrations were captured; ``None`` where it was not one and the same way."""
    recipes = [RunDirectory(run).recipe for run in runs]  # a capture of demonstrations by a script has none
    modes = {read(Recipe, path).capture.reasoning if path.is_file() else DEFAULT_CAPTURE.reasoning for path in recipes}
    return modes.pop() if len(modes) == 1 else None
