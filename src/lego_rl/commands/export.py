"""``lego-rl export``: a trained policy as a Hugging Face folder."""

from pathlib import Path
from typing import TYPE_CHECKING

from lego_rl.commands.live_line import said_if_slow
from lego_rl.commands.model_card import ModelCard
from lego_rl.commands.policies import policy_directory
from lego_rl.commands.program import program
from lego_rl.commands.screen import Screen
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.errors import RunError
from lego_rl.rollout.store import RunDirectory

if TYPE_CHECKING:
    from lego_rl.train.export.checkpoint import Checkpoint

_GIB = 2**30


def run(path: Path, out: Path, base: Path | None) -> None:
    """Export the checkpoint at a path, or the latest one of a run.

    Raises:
        RunError: There is none, it is damaged or does not fit the base, or `out` is there already.
        ConfigError: The base is not known, or is no policy.
    """
    if out.exists() or out.is_symlink():
        raise RunError(f"{out} is there already", "name a folder that does not exist: --out DIR")
    from lego_rl.train.export.checkpoint import find_checkpoint
    from lego_rl.train.export.folder import export

    checkpoint = find_checkpoint(path)
    start = _base_of(checkpoint, base)
    card = ModelCard.of(checkpoint, start)
    with said_if_slow(f"writing {out}"):
        done = export(checkpoint.open(), start, out, card.write)
    console = Screen()
    console.print(
        f"{done.changed} weights changed, {done.unchanged} held and unchanged, {done.untouched} copied untouched ·"
        f" {done.parameters:,} parameters, {done.weight_bytes / _GIB:.2f} GiB"
    )
    if not done.changed:
        console.print("no weight is other than in the policy that the run started from", style="yellow")
    console.print(f"{out}", soft_wrap=True)


def _base_of(checkpoint: "Checkpoint", named: Path | None) -> Path:
    """The Hugging Face folder that a checkpoint's policy started from."""
    if named is not None:
        return policy_directory(str(named))
    if checkpoint.run is None:
        raise RunError(
            f"{checkpoint.folder} lies in no run directory, so nothing says which policy it started from",
            f"name that policy: {program()} export … --base DIR",
        )
    return policy_directory(read(Recipe, RunDirectory(checkpoint.run).recipe).policy.path)
