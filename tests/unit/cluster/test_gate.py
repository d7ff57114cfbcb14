"""The cluster's fidelity gate: tokens are compared under their own weights, and what disagrees stops the run."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.cluster.gate import (
    GatedRow,
    compared,
    coverage,
    gate_figures,
    judge_batch,
    needs_version_before,
    with_version_before,
)
from lego_rl.errors import FidelityError
from lego_rl.train.settings import GateSettings

LIMITS = GateSettings()


def row(
    versions: list[int], *, gap: float = 0.0, context: int = 3, seed: int = 0, routes: tuple[int, int] = (0, 0)
) -> GatedRow:
    """A row of sampled tokens with context between, whose trainer's log-probs differ by `gap` where version is 1."""
    rng = np.random.default_rng(seed)
    count = len(versions)
    engine = -rng.exponential(1.0, count + context)
    mask = np.array([1] * count + [0] * context)
    trainer = engine + np.where(np.array([*versions, *[-1] * context]) == 1, gap, 0.0)
    trainer[count:] = -7.0  # what is no token of the policy's must not count
    edges = [0, *[at for at in range(1, count) if versions[at] != versions[at - 1]], count]
    spans = [("call", a, a, b - a, versions[a]) for a, b in pairwise(edges)]
    return GatedRow(mask, engine, trainer, spans, *routes)


def test_only_sampled_tokens_of_the_trainers_version_are_compared() -> None:
    rows = [row([0] * 30, seed=4), row([1] * 50), row([1] * 20, seed=1)]
    report = judge_batch(compared(rows), 1, coverage(rows), LIMITS)
    assert (report.tokens, report.compared_fraction) == (70, 0.7)
    assert report.mean_abs == 0.0
    figures = gate_figures(report)
    assert figures["fidelity/compared_tokens_total"] == 70
    assert figures["fidelity/pearson_logprobs"] == pytest.approx(1.0)


def test_a_difference_stops_the_run_and_is_named() -> None:
    rows = [row([1] * 200, gap=0.2)]
    with pytest.raises(FidelityError, match=r"mean_abs 0.2.*\(200 tokens\)") as error:
        judge_batch(compared(rows), 1, 1.0, LIMITS)
    assert error.value.reason == "mean_abs"


def test_however_few_they_are_what_is_compared_has_to_agree() -> None:
    rows = [row([0] * 500, seed=2), row([1] * 20, gap=-2.0)]
    with pytest.raises(FidelityError):
        judge_batch(compared(rows), 1, 1.0, LIMITS)


def test_tokens_behind_a_change_of_weights_are_not_compared() -> None:
    """Their prefix was routed anew when they were sampled, and is replayed as it was sampled."""
    rows = [row([0] * 30 + [1] * 50, gap=5.0)]
    assert judge_batch(compared(rows), 1, 1.0, LIMITS).tokens == 0
    assert judge_batch(compared(rows), 0, 1.0, LIMITS).tokens == 30
    returned = [row([0] * 10 + [1] * 10 + [0] * 10)]
    assert judge_batch(compared(returned), 0, 1.0, LIMITS).tokens == 10


def test_a_batch_older_than_all_weights_that_are_kept_passes_and_says_so() -> None:
    report = judge_batch(compared([row([0] * 40, seed=3)]), 2, 1.0, LIMITS)
    assert gate_figures(report) == {
        "fidelity/compared_fraction": 0.0,
        "fidelity/route_coverage": 1.0,
        "fidelity/compared_tokens_total": 0.0,
    }


def test_older_tokens_are_asked_of_the_weights_before_where_the_present_ones_say_too_little() -> None:
    rows = [row([0] * 90), row([1] * 10, seed=5)]
    tokens = compared(rows)
    assert needs_version_before(tokens, 1, LIMITS)
    assert not needs_version_before(tokens, 0, LIMITS)
    assert not needs_version_before(tokens, 7, LIMITS)
    changed = [replace(each, trainer=each.engine - 0.3) for each in rows]
    joined = with_version_before(tokens, compared(changed), 1)
    assert np.allclose(joined.trainer_N[:90], tokens.engine_N[:90] - 0.3)
    assert np.array_equal(joined.trainer_N[90:], tokens.trainer_N[90:])
    with pytest.raises(FidelityError):
        judge_batch(joined, 1, 1.0, LIMITS)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 20)), min_size=1, max_size=6), st.integers(0, 3))
def test_every_token_counts_once_and_under_its_own_version(pieces: list[tuple[int, int]], version: int) -> None:
    versions = [each for each, count in pieces for _ in range(count)]
    report = judge_batch(compared([row(versions)]), version, 1.0, LIMITS)
    first = next((at for at, each in enumerate(versions) if each != versions[0]), len(versions))
    expected = first if versions[0] == version else 0
    assert report.tokens == expected
    assert report.compared_fraction == expected / len(versions)


def test_missing_routes_stop_the_run() -> None:
    assert coverage([row([1] * 5, routes=(12, 12)), row([1] * 5)]) == 1.0
    with pytest.raises(FidelityError, match="routes of 11 positions") as error:
        coverage([row([1] * 5, routes=(11, 12))])
    assert error.value.reason == "coverage"
