"""Group-relative advantages."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.train.advantages import EPSILON, group_advantages

rewards = st.lists(st.sampled_from([0, 1, None]), min_size=1, max_size=16)


def test_closed_form_of_a_full_group() -> None:
    values = [a.value for a in group_advantages([1, 0, 0, 0], ["g"] * 4)]
    deviation = math.sqrt((0.75**2 + 3 * 0.25**2) / 3)
    assert values == pytest.approx([0.75 / (deviation + EPSILON)] + [-0.25 / (deviation + EPSILON)] * 3, rel=1e-12)


def test_a_masked_trial_is_out_of_mean_and_deviation() -> None:
    full = group_advantages([1, 0, 0], ["g"] * 3)
    masked = group_advantages([1, None, 0, 0], ["g"] * 4)
    assert [masked[0], masked[2], masked[3]] == full
    assert masked[1].exclusion == "no_reward"


@pytest.mark.parametrize(
    ("rewards", "exclusions"),
    [
        ([1], ["group_too_small"]),
        ([None, 1], ["no_reward", "group_too_small"]),
        ([1, 1], ["one_verdict"] * 2),
        ([0, 0, None], ["one_verdict", "one_verdict", "no_reward"]),
        ([None], ["no_reward"]),
        ([0, 1], [None, None]),
    ],
)
def test_what_says_nothing_contributes_nothing(rewards: list[int | None], exclusions: list[str | None]) -> None:
    advantages = group_advantages(rewards, ["g"] * len(rewards))
    assert [a.exclusion for a in advantages] == exclusions
    assert all(a.value == 0 for a in advantages if a.exclusion)


@given(rewards)
def test_advantages_of_a_group_sum_to_zero_and_rank_like_rewards(group: list[int | None]) -> None:
    advantages = group_advantages(group, ["g"] * len(group))
    assert sum(a.value for a in advantages) == pytest.approx(0, abs=1e-9)
    for reward, advantage in zip(group, advantages, strict=True):
        if advantage.exclusion is None:
            assert (advantage.value > 0) == (reward == 1)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([0, 1, None])), max_size=20), st.randoms())
def test_order_does_not_matter(trials: list[tuple[str, int | None]], random: object) -> None:
    order = list(range(len(trials)))
    random.shuffle(order)  # type: ignore[attr-defined]
    straight = group_advantages([r for _, r in trials], [g for g, _ in trials])
    shuffled = group_advantages([trials[i][1] for i in order], [trials[i][0] for i in order])
    assert [straight[i].exclusion for i in order] == [a.exclusion for a in shuffled]
    assert [straight[i].value for i in order] == pytest.approx([a.value for a in shuffled], rel=1e-12)
