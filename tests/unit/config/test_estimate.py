"""The estimates of memory and disk, against sums made by hand."""

from pathlib import Path

import pytest

from lego_rl.config.cluster import ClusterSection
from lego_rl.config.load import read
from lego_rl.config.preflight.estimate import GB, RUNTIME, server_memory, storage, trainer_memory
from lego_rl.config.recipe import Recipe
from lego_rl.config.shapes import PUBLISHED

RECIPES = Path(__file__).parents[3] / "recipes"
MODEL = PUBLISHED["Qwen3.5-35B-A3B"]
SMALL = PUBLISHED["Qwen3-0.6B"]


def recipe(name: str, *changed: str) -> tuple[Recipe, ClusterSection]:
    found = read(Recipe, RECIPES / f"{name}.toml", changed)
    assert found.cluster is not None
    return found, found.cluster


PUBLISHED_RUN = "qwen3.5-35b-a3b-claude-code"


def test_weights_gradients_and_moments_are_sixteen_bytes_a_parameter_over_the_trainers_gpus() -> None:
    memory = trainer_memory(*recipe(PUBLISHED_RUN), MODEL)
    assert memory.weights + memory.gradients + memory.optimizer == pytest.approx(16 * MODEL.parameters / 16)
    assert memory.reference == memory.weights


def test_the_inputs_of_all_layers_are_kept_and_logits_of_a_chunk() -> None:
    memory = trainer_memory(*recipe(PUBLISHED_RUN), MODEL)
    assert memory.kept == 26_624 * 2_048 * 2 * 40
    assert memory.logits == 4_096 * 248_320 * 8


def test_without_a_kl_there_is_no_reference() -> None:
    assert trainer_memory(*recipe(PUBLISHED_RUN, "train.loss.kl_coefficient=0"), MODEL).reference == 0


def test_what_is_offloaded_does_not_stay_while_servers_sample() -> None:
    memory = trainer_memory(*recipe("one-gpu"), SMALL)
    assert memory.resident == RUNTIME
    kept = trainer_memory(*recipe("one-gpu", "cluster.trainer.offload=[]"), SMALL)
    assert kept.resident == pytest.approx(16 * SMALL.parameters + RUNTIME)
    assert kept.peak > memory.peak


def test_megatron_shares_layers_experts_and_its_optimizer() -> None:
    changed = 'cluster.trainer={kind="megatron", tensor_parallel=2, pipeline_parallel=2, expert_parallel=8}'
    memory = trainer_memory(*recipe(PUBLISHED_RUN, changed), MODEL)
    routed = 40 * 256 * 3 * 2_048 * 512
    assert memory.weights == pytest.approx(2 * ((MODEL.parameters - routed) / 2 + routed / 8) / 2)
    assert memory.optimizer == pytest.approx(12 * MODEL.parameters / 16)


def test_a_smaller_group_of_shards_holds_more() -> None:
    whole = trainer_memory(*recipe(PUBLISHED_RUN), MODEL)
    half = trainer_memory(*recipe(PUBLISHED_RUN, "cluster.trainer.shard_size=1"), MODEL)
    assert half.weights == pytest.approx(2 * whole.weights)


def test_a_servers_cache_is_of_the_layers_of_full_attention() -> None:
    memory = server_memory(*recipe(PUBLISHED_RUN), MODEL)
    assert memory.weights == MODEL.parameters  # two bytes, two GPUs
    states = 4 * 30 * 32 * 128 * 128 // 2
    assert memory.sequence == 200_000 * 10 * 2 * 2 * 256 * 2 // 2 + states
    assert memory.allowed == int(0.85 * 80 * GB)
    assert memory.replicas == 4


def test_more_gpus_than_key_value_heads_keep_them_twice() -> None:
    two, four = (
        server_memory(*recipe(PUBLISHED_RUN, f"cluster.servers.tensor_parallel={size}"), MODEL).sequence
        for size in (2, 4)
    )
    assert two - four == 4 * 30 * 32 * 128 * 128 // 4  # only the states are shared further


def test_disk_and_the_rows_that_wait() -> None:
    found, _ = recipe(PUBLISHED_RUN)
    use = storage(found, MODEL)
    assert use.checkpoint == 12 * MODEL.parameters
    assert use.checkpoints == 3 * use.checkpoint
    assert use.trial == 50_000 * (9 + 40 * 8)
    assert use.trials == 126 * 512 * use.trial
    assert use.queued == 2 * 512 * 50_000 * (48 + 2 * 40 * 8)
