"""The band and the signal: against counting every way that the missing trials can end."""

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lego_rl.errors import ConfigError
from lego_rl.tasks.index.band import Band, Decision
from lego_rl.tasks.index.signal import Prior, advantages, expected_signal, fit_prior
from lego_rl.train.advantages import group_advantages


@st.composite
def cases(draw: st.DrawFn) -> tuple[Band, int, int]:
    """A band, and what is known of a task."""
    of = draw(st.integers(1, 7))
    low = draw(st.integers(0, of))
    known = draw(st.integers(0, of))
    return Band(low, draw(st.integers(low, of)), of), draw(st.integers(0, known)), known


def decided(band: Band, solved: int, known: int) -> Decision:
    """By every way that the missing trials can end."""
    ends = {solved + sum(rest) for rest in product((0, 1), repeat=band.of - known)}
    if all(band.low <= end <= band.high for end in ends):
        return Decision.IN
    if all(end > band.high for end in ends):
        return Decision.ABOVE
    if all(end < band.low for end in ends):
        return Decision.BELOW
    return Decision.UNDECIDED


def after(band: Band, solved: int, known: int) -> tuple[int, int]:
    """The fewest trials that may decide, and those that surely do, by trying every row of results."""

    def first(row: tuple[int, ...]) -> int:
        return next(n for n in range(len(row) + 1) if decided(band, solved + sum(row[:n]), known + n))

    counts = [first(row) for row in product((0, 1), repeat=band.of - known)]
    return min(counts), max(counts)


@given(cases())
def test_a_task_is_decided_when_the_missing_trials_cannot_change_it(case: tuple[Band, int, int]) -> None:
    band, solved, known = case
    assert band.decide(np.array([solved]), np.array([known])).tolist() == [decided(band, solved, known)]


@given(cases())
def test_as_many_trials_decide_as_are_said(case: tuple[Band, int, int]) -> None:
    band, solved, known = case
    missing = band.missing(np.array([solved]), np.array([known]))
    assert (missing.least[0], missing.most[0]) == after(band, solved, known)


@given(cases())
def test_no_more_trials_decide_what_is_decided(case: tuple[Band, int, int]) -> None:
    band, solved, known = case
    assume(decided(band, solved, known) != Decision.UNDECIDED)
    missing = band.missing(np.array([solved]), np.array([known]))
    assert (missing.least[0], missing.most[0]) == (0, 0)


def test_the_bands_of_the_command_line() -> None:
    assert Band.parse("1..3", 4) == Band(1, 3, 4)
    assert Band.parse("2", 4) == Band(2, 2, 4)
    assert Band.parse("0..4", 4) == Band(0, 4, 4)


@pytest.mark.parametrize(
    ("solved", "of"),
    [("3..1", 4), ("1..5", 4), ("-1..2", 4), ("0..0", 0), ("1..2", 257), ("some", 4), ("1..", 4), ("", 4)],
)
def test_what_is_no_band_is_refused(solved: str, of: int) -> None:
    with pytest.raises(ConfigError, match="--solved"):
        Band.parse(solved, of)


@pytest.mark.parametrize("group", [1, 2, 3, 4, 8])
def test_the_advantage_of_a_group_is_that_of_training(group: int) -> None:
    for solved in range(group + 1):
        rewards = [1.0] * solved + [0.0] * (group - solved)
        trained = group_advantages(rewards, ["one"] * group)
        mean = sum(abs(each.value) for each in trained) / group
        assert advantages(group)[solved] == pytest.approx(mean, abs=1e-12)


@given(st.integers(2, 8), st.floats(0.05, 5.0), st.floats(0.05, 5.0), st.integers(0, 6), st.integers(0, 6))
def test_the_signal_is_the_mean_over_solve_rates(group: int, a: float, b: float, solved: int, failed: int) -> None:
    prior = Prior(a, b)
    (found,) = expected_signal(np.array([solved]), np.array([solved + failed]), group, prior)
    assert 0.0 <= found <= 1.0
    # Trial by trial, as Pólya's urn draws: the chance of a row of results of a beta-binomial.
    expected = 0.0
    for row in product((0, 1), repeat=group):
        chance, s, f = 1.0, a + solved, b + failed
        for each in row:
            chance *= (s if each else f) / (s + f)
            s, f = s + each, f + 1 - each
        expected += chance * advantages(group)[sum(row)]
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_task_that_is_solved_sometimes_teaches_most() -> None:
    signal = expected_signal(np.arange(5), np.full(5, 4), 4, Prior(0.5, 0.5))
    assert signal.argmax() == 2
    assert signal[0] == pytest.approx(signal[4])
    assert signal[0] < signal[1] < signal[2] > signal[3] > signal[4]


@pytest.mark.parametrize(("a", "b"), [(0.3, 1.5), (1.0, 1.0), (4.0, 2.0)])
def test_the_solve_rates_of_a_pool_are_fitted(a: float, b: float) -> None:
    draw = np.random.default_rng(0)
    rates = draw.beta(a, b, size=20_000)
    known = draw.integers(0, 9, size=20_000)
    prior = fit_prior(draw.binomial(known, rates), known)
    assert prior.solved == pytest.approx(a, rel=0.2)
    assert prior.failed == pytest.approx(b, rel=0.2)


def test_without_trials_every_solve_rate_is_as_likely() -> None:
    none = np.zeros(3, dtype=np.int64)
    assert fit_prior(none, none) == Prior(1.0, 1.0)


def test_failures_say_less_of_a_pool_where_much_is_never_solved() -> None:
    solved, known = np.zeros(1, dtype=np.int64), np.full(1, 4)
    assert expected_signal(solved, known, 4, Prior(0.2, 0.5)) < expected_signal(solved, known, 4, Prior(5.0, 5.0))
