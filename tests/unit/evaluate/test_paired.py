"""Paired tests against independent counts: the binomial by recursion, every flip by hand, Holm by definition."""

import random
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.evaluate.paired import EXACT_TASKS, holm, mcnemar, sign_flip


@cache
def coins(heads: int, n: int) -> float:
    """P(heads of n fair coins), by Pascal's rule."""
    if not 0 <= heads <= n:
        return 0.0
    return 1.0 if n == 0 else (coins(heads - 1, n - 1) + coins(heads, n - 1)) / 2


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 5))
def test_mcnemar_is_the_binomial_test_of_the_tasks_that_differ(b: int, c: int, same: int) -> None:
    found = mcnemar([1] * b + [0] * c + [1] * same, [0] * b + [1] * c + [1] * same)
    assert (found.only_first, found.only_second) == (b, c)
    n = b + c
    # Two-sided: every outcome that is no likelier than the observed one (Fisher); for fair coins the doubled tail.
    expected = sum(coins(k, n) for k in range(n + 1) if coins(k, n) <= coins(b, n) * (1 + 1e-12))
    assert found.p_value == pytest.approx(min(1.0, expected), abs=1e-12)


def test_mcnemar_of_known_tables() -> None:
    assert mcnemar([0] * 5, [1] * 5).p_value == pytest.approx(2 / 2**5)
    assert mcnemar([1, 0], [1, 0]).p_value == 1.0
    assert mcnemar([0] * 10 + [1] * 2, [1] * 10 + [0] * 2).p_value == pytest.approx(0.03857421875)


@given(st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0]), max_size=8))
def test_few_differences_are_counted_out(differences: list[float]) -> None:
    kept = [each for each in differences if each]
    observed = abs(sum(kept))
    flips = list(product((-1, 1), repeat=len(kept)))
    extreme = sum(abs(sum(s * d for s, d in zip(flip, kept, strict=True))) >= observed - 1e-12 for flip in flips)
    assert sign_flip(differences) == pytest.approx(extreme / len(flips))


def test_many_differences_are_sampled_near_the_exact_value_and_never_zero() -> None:
    draw = random.Random(1)
    few = [draw.choice([-1.0, 0.5, 1.0]) for _ in range(EXACT_TASKS)]
    exact = sign_flip(few)
    # The same test of a padded list is a sample: tasks whose differences are tiny change nothing.
    sampled = sign_flip([*few, 1e-9])
    assert sampled == pytest.approx(exact, abs=0.01)
    assert 0.0 < sign_flip([1.0] * 200) < 1e-4
    assert sign_flip([1.0, -1.0] * 100) == 1.0
    assert sign_flip([]) == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_keeps_the_order_and_is_between_the_value_and_bonferroni(values: list[float]) -> None:
    adjusted = holm(values)
    for p, q in zip(values, adjusted, strict=True):
        assert p <= q <= min(1.0, len(values) * p) + 1e-12 or q == max(adjusted)
    by_rank = [q for _, q in sorted(zip(values, adjusted, strict=True))]
    assert by_rank == sorted(by_rank)
    assert adjusted[values.index(min(values))] == pytest.approx(min(1.0, len(values) * min(values)))


def test_holm_of_a_known_family() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
