"""Two evaluations are compared over common tasks, and told apart only where the data tell."""

import numpy as np
import pytest
from evaluated import trial, trials

from lego_rl.errors import RunError
from lego_rl.evaluate.comparison import compare
from lego_rl.evaluate.heldout import Score
from lego_rl.evaluate.trials import EvaluatedTrial


def evaluation(rates: np.ndarray, seed: int, attempts: int = 4) -> list[EvaluatedTrial]:
    draw = np.random.default_rng(seed)
    return trials(**{f"t{at}": draw.binomial(1, rate, attempts).tolist() for at, rate in enumerate(rates)})


def test_tasks_of_one_side_alone_are_left_out_and_named() -> None:
    found = compare(
        trials(a=[1, 0], b=[0, 0], c=[1, 1], d=[None, None]), trials(a=[1, 1], b=[1, None], d=[1, 1], e=[0])
    )
    assert (found.tasks, found.only_first, found.only_second) == (2, ("c",), ("d", "e"))
    assert (found.first, found.second) == (Score(1, 4), Score(3, 3))
    assert found.difference == pytest.approx((0.5 + 1.0) / 2)


def test_the_same_policy_twice_is_hardly_ever_told_apart() -> None:
    rates = np.random.default_rng(0).uniform(0, 1, 40)
    claims = sum(compare(evaluation(rates, 2 * n), evaluation(rates, 2 * n + 1), n).distinguishable for n in range(100))
    assert claims <= 10  # 5 % are expected


def test_a_large_difference_is_told() -> None:
    found = compare(evaluation(np.full(40, 0.2), 1), evaluation(np.full(40, 0.7), 2))
    assert found.distinguishable
    assert found.verdict == "the second solves more"
    assert found.interval is not None and found.interval.low > 0.2
    assert found.mcnemar.p_value < 0.01


def test_what_does_not_tell_is_said_to_be_that() -> None:
    found = compare(trials(a=[1], b=[0], c=[1]), trials(a=[1], b=[1], c=[1]))
    assert not found.distinguishable
    assert found.verdict.startswith("not distinguishable: these tasks would show a difference of about")
    single = compare(trials(a=[0]), trials(a=[1]))
    assert single.verdict == "not distinguishable: 1 common tasks say nothing of others"
    assert (single.difference, single.interval) == (None, None)


def test_attempts_of_a_task_are_no_independent_evidence() -> None:
    """Ten thousand attempts at three tasks are three tasks."""
    found = compare(trials(**{t: [0] * 3000 for t in "abc"}), trials(**{t: [1] * 3000 for t in "abc"}))
    assert found.p_value == pytest.approx(0.25)
    assert not found.distinguishable


def test_mcnemar_takes_the_lowest_attempt_that_counts_on_both_sides() -> None:
    found = compare(trials(a=[None, 1, 1], b=[0, 1]), trials(a=[1, 0, 1], b=[1, 0]))
    assert (found.mcnemar.only_first, found.mcnemar.only_second) == (1, 1)


def test_nothing_in_common_and_changed_tasks_are_refused() -> None:
    with pytest.raises(RunError, match="no scored task in common"):
        compare(trials(a=[1]), trials(b=[1]))
    with pytest.raises(RunError, match="task a held something else"):
        compare([trial("a", 0, 1, content_digest="1")], [trial("a", 0, 1, content_digest="2")])
