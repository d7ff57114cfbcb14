"""Group-relative advantages.

Invariant: a statistic of a group is taken over the trials that count and nothing else. A trial without a reward is
masked out of everything; a group that says nothing about which trials were better contributes nothing.

Source: GRPO (arXiv 2402.03300); equal to verl's ``compute_grpo_outcome_advantage`` on full groups with both verdicts.
verl differs from this contract on the others: there a lone trial's advantage is its reward, and a constant group still
takes part in the KL term.
"""

import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

EPSILON = 1e-6
"""Added to a group's standard deviation."""

type Exclusion = Literal["no_reward", "group_too_small", "one_verdict"]
"""Why a trial contributes nothing: it has no reward; fewer than two trials of its group count; all of those got the
same verdict."""


@dataclass(frozen=True)
class Advantage:
    """What one trial contributes.

    Attributes:
        value: (r - mean) / (unbiased standard deviation + `EPSILON`) within the group; 0.0 where excluded.
        exclusion: Why the trial is left out of the loss, or ``None``.
    """

    value: float
    exclusion: Exclusion | None = None


def group_advantages(rewards: Sequence[float | None], groups: Sequence[Hashable]) -> list[Advantage]:
    """Advantages of a step's trials.

    Args:
        rewards: ``[trials]``; ``None`` where a trial counts for nothing.
        groups: ``[trials]`` the group of each trial.

    Returns:
        ``[trials]``, in the order given.
    """
    counting: dict[Hashable, list[float]] = {}
    for reward, group in zip(rewards, groups, strict=True):
        members = counting.setdefault(group, [])
        if reward is not None:
            members.append(reward)
    return [_advantage(reward, counting[group]) for reward, group in zip(rewards, groups, strict=True)]


def _advantage(reward: float | None, members: list[float]) -> Advantage:
    if reward is None:
        return Advantage(0.0, "no_reward")
    if len(members) < 2:
        return Advantage(0.0, "group_too_small")
    if min(members) == max(members):
        return Advantage(0.0, "one_verdict")
    return Advantage((reward - statistics.fmean(members)) / (statistics.stdev(members) + EPSILON))
