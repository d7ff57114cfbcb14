"""``lego-rl sft``: learn from captured demonstrations."""

from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console

from lego_rl.commands.policies import policy_directory
from lego_rl.config.begun import check_begun
from lego_rl.config.load import dump, read
from lego_rl.config.sft_recipe import SftRecipe
from lego_rl.rollout.demonstrations import demonstrated_segments
from lego_rl.rollout.lock import LockedFolder
from lego_rl.rollout.metrics_file import checkpoints_in
from lego_rl.train.sft import SftMetrics, run_sft

_INTERRUPTED = 130
_PRINT_EVERY = 10


def run(path: Path, overrides: Sequence[str]) -> None:
    """Fine-tune, or continue what was stopped.

    Raises:
        RunError: The run directory holds a run of another recipe, or another process is at work in it.
        LegoError: Something that the recipe names is missing or does not fit.
    """
    recipe = read(SftRecipe, path, overrides)
    with LockedFolder(recipe.run.dir) as folder:  # first: what another process is at work on is nothing to go on from
        begun = folder.path / "recipe.toml"
        if checkpoints_in(folder.path / "checkpoints") and begun.exists():
            check_begun(recipe, begun)
        _fine_tune(recipe, folder)


def _fine_tune(recipe: SftRecipe, folder: LockedFolder) -> None:
    segments = [segment for run in recipe.demonstrations.runs for segment in demonstrated_segments(run)]
    (folder.path / "recipe.toml").write_text(dump(recipe), encoding="utf-8")
    console = Console()
    console.print(f"{len(segments)} segments of demonstrations · {recipe.sft.steps} updates of {recipe.sft.batch}")

    def show(metrics: SftMetrics) -> None:
        if metrics.step % _PRINT_EVERY == 0 or metrics.step == recipe.sft.steps - 1:
            console.print(
                f"update {metrics.step + 1}/{recipe.sft.steps} · loss {metrics.loss:.4f} · accuracy"
                f" {metrics.accuracy:.4f} · {metrics.positions / metrics.seconds:.0f} positions/s"
            )

    try:
        policy = run_sft(policy_directory(recipe.policy.path), segments, folder, recipe.sft, show)
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on from the last checkpoint", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    console.print(f"policy: {policy}")
