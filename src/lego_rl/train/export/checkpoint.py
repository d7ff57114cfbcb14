"""Which checkpoint a path means, and what kind it is.

A run directory of the embedded trainer has ``checkpoints/step-NNNN/``, one of verl has
``checkpoints/global_step_N/actor/``; a checkpoint of VeOmni's own trainer is a folder with ``.metadata``. Any of these
folders can be named itself.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lego_rl.errors import RunError
from lego_rl.rollout.metrics_file import checkpoints_in
from lego_rl.rollout.store import RunDirectory
from lego_rl.train import persistence
from lego_rl.train.export.distributed import DistributedWeights, has_distributed
from lego_rl.train.export.shards import ShardedWeights, has_shards
from lego_rl.train.export.sources import FolderWeights, WeightSource

_VERL_STEP = re.compile(r"global_step_(\d+)\Z")
_VERL_LATEST = "latest_checkpointed_iteration.txt"
_ACTOR = "actor"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint, not read yet.

    Attributes:
        folder: Where its weights lie.
        kind: The trainer that wrote it, for people.
        step: Finished steps; ``None`` if neither files nor names tell.
        run: The run directory that it lies in; ``None`` if it lies in none.
        policy: The Hugging Face folder inside it that has its config; ``None`` if it has none.
        open: Reads what there is.
    """

    folder: Path
    kind: str
    step: int | None
    run: Path | None
    policy: Path | None
    open: Callable[[], WeightSource]


def find_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint at a path, or the latest one of a run directory.

    Args:
        path: Either.

    Raises:
        RunError: There is none, or it is damaged as far as is seen without reading its weights.
    """
    if not path.is_dir():
        raise RunError(f"there is no folder {path}", "name a run directory, or a checkpoint")
    run = RunDirectory(path)
    if run.recipe.is_file():
        return _of(_latest(run.checkpoints))
    return _of(path)


def _latest(checkpoints: Path) -> Path:
    embedded = checkpoints_in(checkpoints)
    if embedded:
        return embedded[-1][1]
    folders = list(checkpoints.iterdir()) if checkpoints.is_dir() else []
    steps = {int(match[1]): folder for folder in folders if (match := _VERL_STEP.match(folder.name))}
    marker = checkpoints / _VERL_LATEST  # verl writes it last: a newer folder than it names is not finished
    if marker.is_file():
        text = marker.read_text(encoding="utf-8").strip()
        if not text.isdecimal() or int(text) not in steps:
            raise RunError(f"{marker} names step {text!r}, which is not there", "name a checkpoint in place of the run")
        return steps[int(text)]
    if steps:
        raise RunError(f"{checkpoints} has no finished checkpoint: {_VERL_LATEST} is missing", "name one yourself")
    raise RunError(f"{checkpoints} holds no checkpoint", "a run has one when its first step is finished")


def _of(folder: Path) -> Checkpoint:
    if (folder / persistence.STATE).is_file():
        step, saved = persistence.verify(folder), folder / persistence.POLICY
        return Checkpoint(saved, "embedded", step, _run_of(folder), saved, lambda: FolderWeights(saved))
    weights = folder / _ACTOR if (folder / _ACTOR).is_dir() else folder
    config = weights / "huggingface"
    policy = config if (config / "config.json").is_file() else None
    if has_shards(weights):
        return Checkpoint(weights, "verl", _step_of(weights), _run_of(weights), policy, lambda: ShardedWeights(weights))
    if has_distributed(weights):
        return Checkpoint(
            weights, "torch DCP", _step_of(weights), _run_of(weights), policy, lambda: DistributedWeights(weights)
        )
    raise RunError(
        f"{folder} is no checkpoint of the embedded trainer, of verl's FSDP2 or VeOmni engines, or of torch DCP",
        "name a run directory, or a folder such as checkpoints/step-0008 or checkpoints/global_step_8",
    )


def _step_of(folder: Path) -> int | None:
    matches = (_VERL_STEP.match(part.name) for part in (folder.resolve(), *folder.resolve().parents))
    return next((int(match[1]) for match in matches if match), None)


def _run_of(folder: Path) -> Path | None:
    """The nearest folder above it that holds a recipe."""
    return next((parent for parent in folder.resolve().parents if RunDirectory(parent).recipe.is_file()), None)
