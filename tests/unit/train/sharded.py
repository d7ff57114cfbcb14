"""Checkpoints as several ranks write them, made by one process: DTensors over meshes whose ranks do not exist."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, distributed
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.placement_types import Placement, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore


@contextmanager
def rank_of(rank: int, world: int) -> Iterator[None]:
    """Be a rank of a group that nobody else is in; collectives do nothing."""
    distributed.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    try:
        yield
    finally:
        distributed.destroy_process_group()


def piece(whole: Tensor, mesh: Tensor, rank: int, placements: tuple[Placement, ...]) -> Tensor:
    """What a rank holds of a tensor: mesh dimensions split one after the other."""
    (place,) = (mesh == rank).nonzero().tolist()
    local = whole
    for size, at, placement in zip(mesh.shape, place, placements, strict=True):
        if isinstance(placement, Shard):
            chunks = local.tensor_split(size, dim=placement.dim) if size > 1 else (local,)
            local = chunks[at]
    return local.contiguous().clone()


def shard(whole: Tensor, mesh: Tensor, rank: int, placements: tuple[Placement, ...]) -> DTensor:
    """The DTensor of a rank, within `rank_of`."""
    names = ("ddp", "fsdp")[-mesh.ndim :]
    device_mesh = DeviceMesh("cpu", mesh, mesh_dim_names=names, _init_backend=False)
    local = piece(whole, mesh, rank, placements)
    return DTensor.from_local(
        local, device_mesh, placements, run_check=False, shape=whole.shape, stride=whole.contiguous().stride()
    )


def write_shards(
    folder: Path, weights: Mapping[str, Tensor], world: int, mesh: Tensor | None = None, *placements: Placement
) -> Path:
    """``model_world_size_N_rank_R.pt`` of every rank; weights are split along their first dimension by default."""
    folder.mkdir(parents=True, exist_ok=True)
    mesh = torch.arange(world) if mesh is None else mesh
    for rank in range(world):
        with rank_of(rank, world):
            state = {name: shard(weight, mesh, rank, placements or (Shard(0),)) for name, weight in weights.items()}
            torch.save(state, folder / f"model_world_size_{world}_rank_{rank}.pt")
    return folder
