"""Stock verl trains on real trials: Claude Code in bubblewrap, a small MoE, three steps of each mode of its V1 trainer.

Among the trials are some of two segments, some that lost their inference server, and a group with one survivor. The run
of ``sync`` is on a Ray of its own; that of ``separate_async`` is spread over two nodes of Ray, which are started by the
commands of docs/cluster.md, and some of its generations go on under newer weights than those that they were begun with.
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from lego_rl.cluster.rows import rows_of
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.outcome import TrialRecord
from tests.integration.cluster.ray_nodes import two_nodes
from tests.integration.cluster.real_run import STEPS, TRIALS, RealRun, prepared, real_run
from tests.integration.cluster.verl_process import ray_folder
from tests.integration.cluster.versions import Call, calls_of_several_versions

pytestmark = pytest.mark.timeout(1200)
SYNC = (
    "cluster.mode.kind=sync",
    "evaluate.splits={ heldout = 1 }",
    "evaluate.trials=2",
    f"cluster.evaluate_every={STEPS}",
)
ASYNC = (
    "cluster.nodes=2",
    "cluster.mode.kind=separate_async",
    "cluster.mode.rollout_nodes=1",
    "cluster.mode.warmup_batches=2",
    "cluster.weight_transfer=lego_file",
    "rollout.concurrency=6",  # two generations are held
    "budget.wall_clock_sec=300",
)
KEPT = "+actor_rollout_ref.rollout.checkpoint_engine.engine_kwargs.lego_file.keep=10"
STALENESS = 1


def synchronous(folder: Path) -> RealRun:
    with ray_folder() as ray:
        run = prepared(folder)
        temporary = f"+ray_kwargs.ray_init._temp_dir={ray}"
        return real_run(run, SYNC, temporary, timeout=900, environment=run.environment)


def asynchronous(folder: Path) -> RealRun:
    """Of the first task a generation is held until the first update, of the second one until the second: too long."""
    with ray_folder() as ray:
        run = prepared(folder)
        environment = run.environment | {
            "HOME": str(ray),  # of the token
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
            "RAY_AUTH_MODE": "token",
            "VERL_USE_EXTERNAL_MODULES": "held",
            "LEGO_TEST_HOLDS": json.dumps({run.issue(0): 1, run.issue(1): 2}),
            "LEGO_TEST_STALE_AT": str(STEPS),
        }
        with two_nodes(ray, environment) as address:
            settings = (*ASYNC, f"cluster.ray_address={address}")
            held = "actor_rollout_ref.rollout.name=lego_held"
            return real_run(run, settings, held, KEPT, timeout=900, environment=environment)


def _by_step(records: list[TrialRecord]) -> list[list[int]]:
    """Rewards of an evaluation's trials, step by step."""
    steps = sorted({record.spec.label for record in records})
    return [[record.outcome.reward or 0 for record in records if record.spec.label == step] for step in steps]


MODES = {"sync": synchronous, "separate_async": asynchronous}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RealRun]:
    """Both runs, which wait more than they compute, side by side."""
    with ThreadPoolExecutor() as pool:
        begun = {name: pool.submit(run, tmp_path_factory.mktemp(name)) for name, run in MODES.items()}
        return {name: future.result() for name, future in begun.items()}


@pytest.fixture(scope="module", params=MODES)
def ran(request: pytest.FixtureRequest, runs: dict[str, RealRun]) -> RealRun:
    found = runs[request.param]
    assert found.verl.status == 0, found.verl.output[-4_000:]
    return found


@pytest.fixture(scope="module")
def overlapping(runs: dict[str, RealRun]) -> RealRun:
    return runs["separate_async"]


@pytest.fixture(scope="module")
def calls(overlapping: RealRun) -> list[Call]:
    return [*calls_of_several_versions(overlapping.records())]


def test_engine_and_trainer_mean_the_same_policy(ran: RealRun) -> None:
    assert [batch.step for batch in ran.batches] == [*range(1, STEPS + 1)]
    pearson = ran.figure("training/rollout_actor_probs_pearson_corr")
    assert len(pearson) == STEPS
    # Of what was sampled under these very weights; what is a version older is not the same policy.
    assert pearson[0] >= 0.9999


def test_the_gate_compares_tokens_with_the_weights_that_sampled_them(ran: RealRun) -> None:
    pearson, tokens = ran.figure("fidelity/pearson_logprobs"), ran.figure("fidelity/compared_tokens_total")
    assert len(tokens) == STEPS
    assert all(each >= 20 for each in tokens)
    assert min(pearson) >= 0.999999
    assert max(ran.figure("fidelity/mean_abs")) <= 1e-5
    assert ran.figure("fidelity/route_coverage") == [1.0] * STEPS


def test_every_row_is_a_segment_of_a_trial_folder(ran: RealRun) -> None:
    assert ran.prove_rows() == sum(len(batch.rows) for batch in ran.batches)


def test_a_trial_of_several_segments_is_several_rows_of_one_reward(ran: RealRun) -> None:
    """Whether a trial of several is trained on is its group's luck; that it is several rows is not."""
    several = {record.spec.id: rows_of(record.trajectory) for record in ran.records() if record.trajectory}
    several = {trial: rows for trial, rows in several.items() if len(rows) > 1}
    assert several
    for trial, expected in several.items():
        assert sum(row.weight for row in expected) == pytest.approx(1.0)
        own = [row["extra"] for batch in ran.batches for row in batch.rows if row["extra"]["trial"] == trial]
        assert sorted(extra["segment"] for extra in own) in ([], [*range(len(expected))])
        assert len({extra["reward_extra_info"]["solved"] for extra in own}) <= 1


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


def test_the_policy_is_evaluated_before_and_after(runs: dict[str, RealRun]) -> None:
    run = runs["sync"]
    tried = [record for record in run.records() if record.spec.label.startswith("heldout")]
    assert sorted(record.spec.label for record in tried) == ["heldout/step-0000"] * 2 + [f"heldout/step-{STEPS:04}"] * 2
    assert len({record.spec.task.name for record in tried}) == 1
    rewards = [record.outcome.reward for record in tried]
    assert None not in rewards
    assert run.figure("val-core/made/reward/mean@2") == [sum(pair) / 2 for pair in _by_step(tried)]


def test_a_generation_goes_on_under_newer_weights(calls: list[Call]) -> None:
    spans = [[(span.version, span.end - span.start) for span in call.generation.weight_versions] for call in calls]
    assert any([version for version, _ in each] == [0, 1] for each in spans), spans
    assert all(count > 0 for each in spans for _, count in each)


def test_each_token_has_the_log_prob_of_the_version_that_sampled_it(overlapping: RealRun, calls: list[Call]) -> None:
    weights = overlapping.folder / "run" / "weights"
    assert calls
    for call in calls:
        under = {
            span.version: call.logprobs_under(weights / f"{span.version}.safetensors")
            for span in call.generation.weight_versions
        }
        recorded = call.generation.logprobs.astype(np.float64)
        for span in call.generation.weight_versions:
            own = slice(span.start, span.end)
            for version, logprobs in under.items():
                gap = np.abs(recorded[own] - logprobs[own]).max()
                # Rounding alone is below; a span of sure tokens is hardly above under another version.
                assert (gap <= 1e-5) == (version == span.version), (span, version, gap)


def test_what_is_staler_than_the_bound_is_evicted_and_replaced(overlapping: RealRun) -> None:
    assert sum(overlapping.figure("training/off_policy/evicted_samples")) >= 1
    assert max(overlapping.figure("audit/stalest_max")) == STALENESS
