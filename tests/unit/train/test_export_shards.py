"""Sharded checkpoints are read whole, whatever the mesh, or refused in one line."""

from pathlib import Path

import pytest
import torch
from sharded import rank_of, shard, write_shards
from torch.distributed.tensor import Partial
from torch.distributed.tensor.placement_types import Placement, Replicate, Shard

from lego_rl.errors import RunError
from lego_rl.train.export.distributed import DistributedWeights, has_distributed
from lego_rl.train.export.shards import ShardedWeights, has_shards

WEIGHTS = {
    "norm": torch.arange(7.0),
    "matrix": torch.arange(30.0).reshape(5, 6),
    "experts": torch.arange(4 * 6 * 2.0).reshape(4, 6, 2),
}


def check(source: ShardedWeights | DistributedWeights) -> None:
    assert source.shapes == {name: tuple(weight.shape) for name, weight in WEIGHTS.items()}
    for name, weight in WEIGHTS.items():
        assert torch.equal(source.load(name), weight), name


@pytest.mark.parametrize("world", [1, 2, 3])
def test_uneven_shards_are_put_together(tmp_path: Path, world: int) -> None:
    assert has_shards(write_shards(tmp_path, WEIGHTS, world))
    check(ShardedWeights(tmp_path))


@pytest.mark.parametrize(
    "placements", [(Replicate(), Shard(0)), (Shard(0), Shard(0)), (Shard(0), Replicate()), (Replicate(), Replicate())]
)
def test_a_mesh_of_two_dimensions(tmp_path: Path, placements: tuple[Placement, ...]) -> None:
    write_shards(tmp_path, WEIGHTS, 4, torch.arange(4).reshape(2, 2), *placements)
    check(ShardedWeights(tmp_path))


def test_parallel_experts_follow_each_other(tmp_path: Path) -> None:
    """Of four ranks, 0 and 2 have the first two experts, 1 and 3 the others, each half of their rows."""
    for rank in range(4):
        with rank_of(rank, 4):
            own = WEIGHTS["experts"].chunk(2)[rank % 2]
            mesh = torch.tensor([rank % 2, rank % 2 + 2])
            state = {
                "norm": shard(WEIGHTS["norm"], torch.arange(4), rank, (Shard(0),)),
                "matrix": WEIGHTS["matrix"],
                "experts": shard(own, mesh, rank, (Shard(1),)),
            }
            torch.save(state, tmp_path / f"model_world_size_4_rank_{rank}.pt")
    check(ShardedWeights(tmp_path))


def test_what_is_not_sharded_must_be_the_same_everywhere(tmp_path: Path) -> None:
    for rank in range(2):
        torch.save({"norm": torch.full((2,), float(rank))}, tmp_path / f"model_world_size_2_rank_{rank}.pt")
    with pytest.raises(RunError, match="disagree on norm"):
        ShardedWeights(tmp_path).load("norm")


def test_placements_that_are_not_understood_are_refused(tmp_path: Path) -> None:
    write_shards(tmp_path, {"matrix": WEIGHTS["matrix"]}, 2, None, Partial())
    with pytest.raises(RunError, match=r"matrix is sharded as .*model_merger"):
        ShardedWeights(tmp_path).load("matrix")


def test_incomplete_or_damaged_files_are_named(tmp_path: Path) -> None:
    write_shards(tmp_path, WEIGHTS, 2)
    last = tmp_path / "model_world_size_2_rank_1.pt"
    whole = last.read_bytes()
    last.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RunError, match=r"rank_1.pt is damaged"):
        ShardedWeights(tmp_path)
    torch.save({"norm": WEIGHTS["norm"]}, last)
    with pytest.raises(RunError, match=r"rank_1.pt holds other weights than model_world_size_2_rank_0.pt"):
        ShardedWeights(tmp_path)
    torch.save([1], last)
    with pytest.raises(RunError, match="is no state dict"):
        ShardedWeights(tmp_path)
    last.unlink()
    with pytest.raises(RunError, match=r"lacks model_world_size_2_rank_1.pt"):
        ShardedWeights(tmp_path)
    write_shards(tmp_path, WEIGHTS, 1)
    with pytest.raises(RunError, match=r"shards of \[1, 2\] ranks"):
        ShardedWeights(tmp_path)


def test_a_pickle_that_runs_code_is_not_opened(tmp_path: Path) -> None:
    torch.save({"norm": Path}, tmp_path / "model_world_size_1_rank_0.pt")
    with pytest.raises(RunError, match="is damaged"):
        ShardedWeights(tmp_path)


alone = pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")


@alone
@pytest.mark.parametrize("nested", [True, False])
def test_torchs_own_format(tmp_path: Path, nested: bool) -> None:
    named = {f"model.layers.{name}" if name == "norm" else f"model.{name}": w for name, w in WEIGHTS.items()}
    state = {"model": named, "optimizer": {"state": {"model.norm": WEIGHTS["norm"]}}} if nested else named
    torch.distributed.checkpoint.save(state, checkpoint_id=tmp_path, no_dist=True)
    assert has_distributed(tmp_path)
    source = DistributedWeights(tmp_path)
    assert set(source.shapes) == set(named)
    for name, weight in named.items():
        assert torch.equal(source.load(name), weight)


@alone
def test_torchs_own_format_cut_short(tmp_path: Path) -> None:
    torch.distributed.checkpoint.save({"model": WEIGHTS}, checkpoint_id=tmp_path, no_dist=True)
    (data,) = tmp_path.glob("*.distcp")
    data.write_bytes(data.read_bytes()[:-8])
    with pytest.raises(RunError, match="is missing or cut short"):
        DistributedWeights(tmp_path)
    (tmp_path / ".metadata").write_bytes(b"nothing")
    with pytest.raises(RunError, match="metadata is damaged"):
        DistributedWeights(tmp_path)
