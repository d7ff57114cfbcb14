"""Checkpoints of verl's FSDP2 and VeOmni engines: ``model_world_size_N_rank_R.pt``, a state dict of DTensors each.

Invariant: a weight is put together from the placements that its shards carry, and has the shape they say; what has
placements that are not understood, or shards that are not there, is refused.

Parallel experts: a rank holds the shard of *its* experts only, as a DTensor over the ranks with the same experts, and
nothing in a file says so. Weights whose shards lie on several meshes are such; their meshes follow each other in the
order of their first rank, as ranks are numbered with the experts' dimension innermost.
"""

import logging
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.placement_types import Placement, Replicate, Shard

from lego_rl.errors import RunError
from lego_rl.train.export.sources import RESTORE

_FILE = re.compile(r"model_world_size_(\d+)_rank_(\d+)\.pt\Z")


def has_shards(folder: Path) -> bool:
    """Whether a folder holds such a checkpoint, whole or not."""
    return any(_FILE.match(path.name) for path in folder.iterdir())


class ShardedWeights:
    """The weights of such a checkpoint.

    Args:
        folder: The folder with the files.

    Raises:
        RunError: A file is missing or damaged, files of several runs are mixed, or ranks disagree on what there is.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        files = _files(folder)
        self._ranks = [_load(file) for file in files]
        for file, rank in zip(files, self._ranks, strict=True):
            if rank.keys() != self._ranks[0].keys():
                raise RunError(f"{file} holds other weights than {files[0].name}", RESTORE)
        self._shapes = {name: self._shape(name) for name in self._ranks[0]}

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """See `WeightSource`."""
        return self._shapes

    def load(self, name: str) -> Tensor:
        """See `WeightSource`."""
        blocks = [self._assemble(name, group) for group in self._groups(name)]
        return blocks[0] if len(blocks) == 1 else torch.cat(blocks)

    def _shape(self, name: str) -> tuple[int, ...]:
        shapes = [tuple(self._ranks[group[0]][name].shape) for group in self._groups(name)]
        if any(shape[1:] != shapes[0][1:] for shape in shapes):
            raise RunError(f"the ranks of {self._folder} have {name} in different shapes", RESTORE)
        return shapes[0] if len(shapes) == 1 else (sum(shape[0] for shape in shapes), *shapes[0][1:])

    def _groups(self, name: str) -> list[tuple[int, ...]]:
        """The meshes that the weight's shards lie on, as ranks in the order of the mesh; replicas are one of them."""
        shards = [rank[name] for rank in self._ranks]
        if not isinstance(shards[0], DTensor):
            return [(0,)]
        groups = {tuple(map(int, shard.device_mesh.mesh.flatten().tolist())) for shard in shards}
        found = sorted(groups)
        if sorted(rank for group in found for rank in group) != list(range(len(shards))):
            raise RunError(f"the shards of {name} in {self._folder} do not lie on all ranks once", RESTORE)
        return found

    def _assemble(self, name: str, group: Sequence[int]) -> Tensor:
        shards = [self._ranks[rank][name] for rank in group]
        if not isinstance(shards[0], DTensor):
            return self._replicated(name)
        mesh, placements = shards[0].device_mesh.mesh, shards[0].placements
        local = np.empty(len(shards), dtype=object)
        for place, shard in enumerate(shards):
            if shard.placements != placements:
                raise RunError(f"the ranks of {self._folder} have {name} in different shards", RESTORE)
            local[place] = shard.to_local()
        whole = _merge(local.reshape(tuple(mesh.shape)), placements, name)
        if whole.shape != shards[0].shape:
            raise RunError(
                f"the shards of {name} in {self._folder} make up {list(whole.shape)} of {list(shards[0].shape)}",
                RESTORE,
            )
        return whole

    def _replicated(self, name: str) -> Tensor:
        tensors: list[Tensor] = [rank[name] for rank in self._ranks]
        if any(not torch.equal(tensor, tensors[0]) for tensor in tensors[1:]):
            raise RunError(f"the ranks of {self._folder} disagree on {name}, which is not sharded", RESTORE)
        return tensors[0]


def _merge(local: Any, placements: Sequence[Placement], name: str) -> Tensor:
    """Whole tensor of an array of local ones that is shaped as their mesh.

    A dimension that several mesh dimensions shard is split by the last of them last, so that one is joined first.
    """
    while local.ndim:
        placement = placements[local.ndim - 1]
        rows = local.reshape(-1, local.shape[-1])
        merged = np.empty(len(rows), dtype=object)
        for place, parts in enumerate(rows):
            merged[place] = _join(list(parts), placement, name)
        local = merged.reshape(local.shape[:-1])
    whole: Tensor = local.item()
    return whole


def _join(parts: list[Tensor], placement: Placement, name: str) -> Tensor:
    if isinstance(placement, Replicate) or len(parts) == 1:
        return parts[0]
    if type(placement) is Shard:
        return torch.cat(parts, dim=placement.dim)
    raise RunError(f"{name} is sharded as {placement}, which is not read here", "merge it with verl's model_merger")


def _files(folder: Path) -> list[Path]:
    found = {path: match for path in folder.iterdir() if (match := _FILE.match(path.name))}
    sizes = sorted({int(match[1]) for match in found.values()})
    if len(sizes) != 1:
        raise RunError(f"{folder} holds shards of {sizes} ranks", "export a folder that one run has written")
    files = [folder / f"model_world_size_{sizes[0]}_rank_{rank}.pt" for rank in range(sizes[0])]
    for file in files:
        if file not in found:
            raise RunError(f"{folder} lacks {file.name}", "copy it from the node that wrote it, or export another one")
    return files


def _load(file: Path) -> dict[str, Any]:
    try:
        with _quiet():
            state = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, KeyError, pickle.UnpicklingError) as error:
        reason = str(error).partition("\n")[0]
        raise RunError(f"{file} is damaged: {reason}", RESTORE) from error
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise RunError(f"{file} is no state dict of a model", RESTORE)
    return state


@contextmanager
def _quiet() -> Iterator[None]:
    """torch warns, once a mesh, that the ranks that it was made of are not here."""
    logger = logging.getLogger("torch.distributed.device_mesh")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
