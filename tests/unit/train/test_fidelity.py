"""The gate: what agrees passes, and each way of disagreeing stops the run under its own name.

Every rollout is the real embedded engine's; what is wrong is wrong in the engine or in what it is given.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_rollouts import Fault, corrupted, digest, sampled_trials
from hypothesis import example, given
from hypothesis import strategies as st
from tiny_moe import moe, segment

from lego_rl.engine.audit import reconcile
from lego_rl.engine.audit_log import MemoryAuditLog
from lego_rl.errors import FidelityError
from lego_rl.train.batch import TrainingTrial
from lego_rl.train.fidelity import ComparedTokens, EngineClaim, PromptCheck, check_claim, measure, violations
from lego_rl.train.settings import GateSettings, OptimizerSettings, TrainSettings
from lego_rl.train.trainer import BatchShape, Trainer

SHAPE = BatchShape(prompts=2, trials_per_prompt=4, temperature=1.0)
BF16 = torch.bfloat16
UNKNOWN = EngineClaim(0)
VERIFIED = EngineClaim(0, digest="a", expected_digest="a")


def trainer(temperature: float = 1.0, **settings: Any) -> Trainer:
    settings.setdefault("optimizer", OptimizerSettings(lr=3e-3))
    return Trainer(moe(), moe(), Path(), TrainSettings(**settings), BatchShape(2, 4, temperature))


def stopped(one: Trainer, batch: list[TrainingTrial], claim: EngineClaim) -> FidelityError:
    with pytest.raises(FidelityError) as error:
        one.step(batch, claim)
    return error.value


def test_a_float32_engine_agrees_to_rounding() -> None:
    report = trainer().step(sampled_trials(moe()), VERIFIED).fidelity
    assert report.pearson_logprobs > 1 - 1e-9
    assert report.pearson_probs > 1 - 1e-9
    assert report.mean_abs < 5e-6
    assert report.max_abs < 1e-4
    assert report.k3 < 1e-9
    assert (report.route_coverage, report.route_overlap) == (1.0, 1.0)
    assert (report.compared_fraction, report.weight_version) == (1.0, 0)
    assert report.tokens > 400


def test_replay_brings_a_bfloat16_engine_nearer() -> None:
    batch = sampled_trials(moe(), Fault(dtype=BF16))
    with_replay = trainer().step(batch, UNKNOWN).fidelity
    loose = GateSettings(min_pearson_logprobs=0.9, min_pearson_probs=0.9, max_mean_abs=1.0, max_abs=9.0, max_k3=1.0)
    without = trainer(routing="own", gate=loose).step(batch, UNKNOWN).fidelity
    assert with_replay.pearson_logprobs > 0.9995
    assert with_replay.route_overlap > 0.98
    assert with_replay.mean_abs < without.mean_abs
    assert with_replay.max_abs < without.max_abs
    assert with_replay.pearson_logprobs > without.pearson_logprobs


@pytest.mark.parametrize("temperature", [0.6, 1.4])
def test_another_temperature_on_both_sides_is_no_fault(temperature: float) -> None:
    report = trainer(temperature).step(sampled_trials(moe(), Fault(temperature=temperature)), VERIFIED).fidelity
    assert report.mean_abs < 1e-5


@pytest.mark.parametrize("claim", [UNKNOWN, VERIFIED])
@pytest.mark.parametrize(
    ("fault", "reason", "evidence"),
    [
        (Fault(route_shift=1), "routes", "own routing"),
        (Fault(route_shift=-1, dtype=BF16), "routes", "own routing"),
        (Fault(temperature=0.8), "temperature", "at 0.80"),
        (Fault(temperature=1.25), "temperature", "at 1.2"),
        (Fault(temperature=1.1, dtype=BF16), "temperature", "at 1.1"),
    ],
)
def test_what_the_engine_did_otherwise_is_named(fault: Fault, reason: str, evidence: str, claim: EngineClaim) -> None:
    error = stopped(trainer(), sampled_trials(moe(), fault), claim)
    assert error.reason == reason
    assert evidence in error.problem


def test_another_prompt_than_the_recorded_one_is_named_once_the_tensors_are_verified() -> None:
    batch = sampled_trials(moe(), Fault(prompt_shift=1))
    assert stopped(trainer(), batch, VERIFIED).reason == "template"
    assert stopped(trainer(), batch, UNKNOWN).reason == "pearson"


def test_a_prompt_that_renders_otherwise_is_named_before_anything_is_computed() -> None:
    check = PromptCheck((1, 2, 3, 4), (1, 2, 9, 4, 5))
    error = stopped(trainer(), [], EngineClaim(0, prompts=(PromptCheck((1,), (1,)), check)))
    assert error.reason == "template"
    assert "position 2" in error.problem
    check_claim(EngineClaim(0, prompts=(PromptCheck((1, 2), (1, 2)),)), 0)


def test_stale_weights_are_named_by_version_by_digest_and_by_what_was_sampled() -> None:
    one = trainer()
    batch = sampled_trials(moe())
    before = digest(moe())
    one.step(batch, EngineClaim(0, digest=before, expected_digest=digest(one.policy)))  # type: ignore[arg-type]
    assert stopped(one, batch, EngineClaim(0)).reason == "stale_weights"
    after = digest(one.policy)  # type: ignore[arg-type]
    assert before != after
    by_digest = EngineClaim(1, digest=before, expected_digest=after, previous_digest=before)
    assert stopped(one, batch, by_digest).reason == "stale_weights"
    unpushed = sampled_trials(moe(), version=1)
    error = stopped(one, unpushed, EngineClaim(1))
    assert error.reason == "stale_weights"
    assert "before the last update" in error.problem


def test_a_damaged_expert_is_named_by_the_digest_of_the_engines_own_tensors() -> None:
    healthy, damaged = moe(), moe()
    damaged.load_state_dict(corrupted(healthy.state_dict(), 0, 2, 1.1))
    claim = EngineClaim(0, digest=digest(damaged, BF16), expected_digest=digest(healthy, BF16), previous_digest="x")
    assert stopped(trainer(), sampled_trials(healthy, state=damaged.state_dict()), claim).reason == "weights"


@pytest.mark.parametrize("scale", [-1.0, 0.0])
@pytest.mark.parametrize("expert", [1, 3])
def test_a_damaged_expert_is_named_by_the_tokens_it_served_where_there_is_no_digest(expert: int, scale: float) -> None:
    damaged = corrupted(moe().state_dict(), 1, expert, scale)
    error = stopped(trainer(), sampled_trials(moe(), state=damaged), UNKNOWN)
    assert error.reason == "weights"
    assert f"expert {expert} of routed layer 1" in error.problem


def test_missing_routes_are_named() -> None:
    batch = sampled_trials(moe())
    first = batch[0].segments[0]
    one = segment(
        first.token_ids.tolist(), first.loss_mask.tolist(), first.logprobs.tolist(), first.routes, recorded=30
    )
    error = stopped(trainer(), [TrainingTrial("t", batch[0].group_id, 0, (one,)), *batch[1:]], VERIFIED)
    assert error.reason == "coverage"


def test_too_few_tokens_of_the_compared_weights_are_named() -> None:
    error = stopped(trainer(), sampled_trials(moe(), version=5), VERIFIED)
    assert error.reason == "compared_fraction"
    assert "0 tokens" in error.problem


def test_tokens_of_other_weights_are_not_compared() -> None:
    """Half of the trials were sampled under weights that nobody holds any more: trained, but not compared."""
    older = sampled_trials(moe(3), version=7, groups=1)
    newer = [TrainingTrial(t.trial_id, "new", t.reward, t.segments) for t in sampled_trials(moe(), groups=1)]
    metrics = trainer().step([*older, *newer], VERIFIED)
    assert metrics.trials == 8
    assert 0.3 < metrics.fidelity.compared_fraction < 0.7
    assert metrics.fidelity.mean_abs < 5e-6


def test_nearly_flat_distributions_are_judged_by_their_differences_alone() -> None:
    generator = np.random.default_rng(0)
    engine = -4.0 + 0.01 * generator.standard_normal(500)
    noise = 0.01 * generator.standard_normal(500)
    report = measure(ComparedTokens(engine, engine + noise, np.zeros(500, np.int64)), 0)
    assert report.pearson_logprobs < 0.8
    assert violations(report, GateSettings()) == []
    assert violations(report, GateSettings(max_mean_abs=1e-3))[0][0] == "mean_abs"
    assert violations(report, GateSettings(flat_sd=0.0))[0][0] == "pearson"


def test_figures_in_closed_form() -> None:
    engine, trained = np.log([0.5, 0.25, 0.125, 0.9]), np.log([0.5, 0.5, 0.125, 0.1])
    report = measure(ComparedTokens(engine, trained, np.array([1, 1, 1, 0])), 1)
    assert report.tokens == 3
    assert report.compared_fraction == 0.75
    assert report.mean_abs == pytest.approx(math.log(2) / 3)
    assert report.max_abs == pytest.approx(math.log(2))
    assert report.k3 == pytest.approx((2 - math.log(2) - 1) / 3)
    assert report.pearson_probs == pytest.approx(np.corrcoef([0.5, 0.25, 0.125], [0.5, 0.5, 0.125])[0, 1])
    assert report.pearson_logprobs == pytest.approx(np.corrcoef(engine[:3], trained[:3])[0, 1])


@given(st.floats(-1, 1), st.integers(0, 1000))
@example(5.694035114367509e-15, 0)  # rounding alone made it negative
def test_k3_is_never_negative_and_any_figure_over_its_limit_is_a_violation(shift: float, seed: int) -> None:
    engine = -np.random.default_rng(seed).random(50) * 3
    report = measure(ComparedTokens(engine, engine + shift, np.zeros(50, np.int64)), 0)
    assert report.k3 >= 0
    assert bool(violations(report, GateSettings())) == (
        report.mean_abs > 0.04 or report.max_abs > 1.0 or report.k3 > 2e-3 or report.pearson_probs < 0.99
    )


def test_what_is_undefined_is_a_violation_not_a_pass() -> None:
    elsewhere = measure(ComparedTokens(np.zeros(9), np.zeros(9), np.ones(9, np.int64)), 0)
    assert violations(elsewhere, GateSettings(min_compared_fraction=1e-9))[0][0] == "compared_fraction"
    broken = np.full(10, np.nan)
    report = measure(ComparedTokens(-np.arange(10.0), broken, np.zeros(10, np.int64)), 0)
    assert {"pearson", "mean_abs", "max_abs", "k3"} <= {name for name, _ in violations(report, GateSettings())}


def test_the_auditor_reconciles_a_step_with_what_the_engine_returned() -> None:
    """`engine.audit` on the tensors of a real step; its own tests alter single tokens."""
    one, log = trainer(), MemoryAuditLog()
    batch = sampled_trials(moe(), log=log)
    one.step(batch, VERIFIED)
    found = reconcile(one.trained_tokens(), log)
    assert found.exact, found.reason
    assert found.tokens == sum(t.trainable_tokens for t in batch)
    batch[0].segments[0].logprobs[-1] -= 1e-6
    fresh = trainer()
    fresh.step(batch, VERIFIED)
    assert reconcile(fresh.trained_tokens(), log).wrong_logprobs == 1
