"""Stock verl trains on real trials: Claude Code in bubblewrap, a small MoE, three steps of each mode of its V1 trainer.

Among the trials are some of two segments, some that lost their inference server, and a group with one survivor.
"""

from collections.abc import Iterator

import pytest

from lego_rl.rollout.faults import Ended
from tests.integration.cluster.real_run import STEPS, TRIALS, RealRun, real_run
from tests.integration.cluster.verl_process import ray_folder

pytestmark = pytest.mark.timeout(1200)
MODES = {
    "sync": ("cluster.mode.kind=sync",),
    "separate_async": (
        "cluster.nodes=2",
        "cluster.mode.kind=separate_async",
        "cluster.mode.rollout_nodes=1",
        "cluster.mode.warmup_batches=2",
        "cluster.weight_transfer=lego_file",
    ),
}
STALENESS = 1


@pytest.fixture(scope="module", params=MODES)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRun]:
    with ray_folder() as ray:
        folder = tmp_path_factory.mktemp(request.param)
        ended = real_run(folder, MODES[request.param], f"+ray_kwargs.ray_init._temp_dir={ray}", timeout=900)
        assert ended.verl.status == 0, ended.verl.output[-4_000:]
        yield ended


def test_engine_and_trainer_mean_the_same_policy(ran: RealRun) -> None:
    assert [batch.step for batch in ran.batches] == [*range(1, STEPS + 1)]
    pearson = ran.figure("training/rollout_actor_probs_pearson_corr")
    assert len(pearson) == STEPS
    # Of what was sampled under these very weights; what is a version older is not the same policy.
    assert pearson[0] >= 0.9999


def test_every_row_is_a_segment_of_a_trial_folder(ran: RealRun) -> None:
    assert ran.prove_rows() == sum(len(batch.rows) for batch in ran.batches)


def test_a_trial_of_several_segments_is_several_rows_of_one_reward(ran: RealRun) -> None:
    rows = [row for batch in ran.batches for row in batch.rows]
    several = {row["extra"]["trial"] for row in rows if row["extra"]["segments"] > 1}
    assert several
    for trial in several:
        own = [row["extra"] for row in rows if row["extra"]["trial"] == trial]
        assert sorted(extra["segment"] for extra in own) == [*range(own[0]["segments"])]
        assert len({extra["reward_extra_info"]["solved"] for extra in own}) == 1


def test_trials_without_an_inference_server_are_in_no_batch(ran: RealRun) -> None:
    lost = ran.lost()
    assert lost
    assert {record.outcome.ended for record in lost} == {Ended.ENGINE_FAILED}
    trained = {row["extra"]["trial"] for batch in ran.batches for row in batch.rows}
    assert trained.isdisjoint(record.spec.id for record in lost)


def test_a_group_with_one_survivor_contributes_nothing(ran: RealRun) -> None:
    assert sum(ran.figure("groups/group_too_small_total")) >= 1
    for batch in ran.batches:
        groups: dict[str, set[str]] = {}
        for row in batch.rows:
            groups.setdefault(row["key"].partition("_")[0], set()).add(row["extra"]["trial"])
        assert all(2 <= len(trials) <= TRIALS for trials in groups.values())


def test_nothing_staler_than_the_bound_is_trained_on(ran: RealRun) -> None:
    for batch in ran.batches:
        assert all(batch.step - 1 - row["extra"]["min_global_steps"] <= STALENESS for row in batch.rows)
