"""The fault table applied to groups: which of them contribute, which are rolled out again, and what stops the run.

Invariant (training law 1): a group with fewer than two trials that count, or with one verdict, contributes nothing: no
row of it ever reaches the trainer. verl would give a lone trial its raw reward as its advantage, and would have trials
of one verdict take part in the KL term.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import Any, Self

from lego_rl.cluster.account import TrialAccount
from lego_rl.rollout.batch_check import check_batch

_SECONDS = ("setup", "harness", "engine", "grading", "trial")


class Standing(StrEnum):
    """What a group contributes."""

    CONTRIBUTES = "contributes"
    ONE_VERDICT = "one_verdict"
    """All trials that count got the same verdict: the group says nothing about which was better."""
    TOO_SMALL = "group_too_small"
    """Faults left fewer than two trials that count."""
    NO_TOKENS = "no_tokens"
    """No trial that counts has a token to train."""

    @property
    def is_replaced(self) -> bool:
        """Whether faults are what the group lacks: another prompt takes its place where prompts stream in."""
        return self is Standing.TOO_SMALL


def standing(accounts: Sequence[TrialAccount]) -> Standing:
    """What a group contributes.

    Args:
        accounts: Of all its trials, those included that faults took.
    """
    rewards = [account.reward for account in accounts if account.reward is not None]
    if len(rewards) < 2:
        return Standing.TOO_SMALL
    if min(rewards) == max(rewards):
        return Standing.ONE_VERDICT
    return Standing.CONTRIBUTES if any(account.rows for account in accounts) else Standing.NO_TOKENS


@dataclass(frozen=True)
class GroupReport:
    """A group that has come to its end.

    Attributes:
        accounts: Of all its trials.
        standing: What it contributes.
    """

    accounts: tuple[TrialAccount, ...]
    standing: Standing

    @classmethod
    def of(cls, accounts: Sequence[TrialAccount]) -> Self:
        """The report of a group."""
        return cls(tuple(accounts), standing(accounts))

    def packed(self) -> dict[str, Any]:
        """As plain values, for the queue."""
        return {"standing": self.standing.value, "trials": [account.packed() for account in self.accounts]}

    @classmethod
    def unpack(cls, packed: dict[str, Any]) -> Self:
        """What `packed` made of it."""
        return cls(tuple(map(TrialAccount.unpack, packed["trials"])), Standing(packed["standing"]))


def check_groups(reports: Iterable[GroupReport]) -> None:
    """Stop a run whose faults nobody can explain, or that measures nothing any more.

    Args:
        reports: Of a step's groups, or of an evaluation's.

    Raises:
        RunError: See `rollout.batch_check.check_batch`.
    """
    check_batch((account.ended, account.detail) for report in reports for account in report.accounts)


def group_figures(reports: Sequence[GroupReport]) -> dict[str, float]:
    """Figures of a step's groups, named as those of a run on one machine are.

    Returns:
        Names that end in ``_total`` are counts (verl sums such names over the mini-batches of a step); the others are
        shares and means over the trials. A share of nothing is left out.
    """
    accounts = [account for report in reports for account in report.accounts]
    if not accounts:
        return {}
    counted = [account.reward for account in accounts if account.reward is not None]
    sampled, positions = sum(a.sampled for a in accounts), sum(a.route_positions for a in accounts)
    ended = Counter(account.ended.value for account in accounts)
    standings = Counter(report.standing.value for report in reports)
    roles: Counter[str] = Counter()
    for account in accounts:
        roles.update(account.roles)
    figures: dict[str, float] = {
        "rollout/trials_total": len(accounts),
        "rollout/counted_total": len(counted),
        "rollout/solved_total": sum(counted),
        "rollout/sampled_tokens_total": sampled,
        "rollout/trainable_tokens_total": sum(a.trainable for a in accounts),
        "rollout/rows_total": sum(a.rows for a in accounts),
        "rollout/tries_total": sum(a.tries for a in accounts),
        "rollout/tool_calls_total": sum(a.tool_calls for a in accounts),
        "rollout/tool_parse_faults_total": sum(a.tool_parse_faults for a in accounts),
        "rollout/truncated_total": sum(a.truncated for a in accounts),
        "rollout/calls": fmean(a.calls for a in accounts),
        **{f"ended/{row}_total": count for row, count in sorted(ended.items())},
        **{f"groups/{name}_total": count for name, count in sorted(standings.items())},
        **{f"tokens/{role}_total": count for role, count in sorted(roles.items())},
        **{f"seconds/{name}": fmean(a.seconds.get(name, 0.0) for a in accounts) for name in _SECONDS},
    }
    if counted:
        figures["rollout/solve_rate"] = sum(counted) / len(counted)
    if sampled:
        figures["rollout/delivered_fraction"] = sum(a.trainable for a in accounts) / sampled
    if positions:
        figures["rollout/route_coverage"] = sum(a.routes_recorded for a in accounts) / positions
    return figures
