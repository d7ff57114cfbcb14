"""What the trainer is told of a trial beside its rows: how it ended, what it earned, and what was captured.

Invariant: every trial that was asked for has an account, whether or not it has rows, so that no fault goes uncounted.
"""

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from lego_rl.rollout.faults import Ended
from lego_rl.rollout.outcome import Reward, TrialRecord

_DETAIL_CHARS = 300


@dataclass(frozen=True)
class TrialAccount:
    """One trial.

    Attributes:
        trial: Its id.
        ended: The row of the fault table.
        detail: What happened, for people.
        reward: What it adds to its group's statistics; ``None`` for nothing.
        rows: Rows that train.
        calls: Answered model calls.
        sampled: Tokens sampled over all calls.
        trainable: Of these, tokens that train.
        tool_parse_faults: Calls in which a tool call could not be parsed.
        truncated: Calls that the token limit ended.
        tool_calls: Calls with a tool call.
        route_positions: Positions of its rows that have a route, recorded or not.
        routes_recorded: Of these, positions whose route an engine call recorded.
        tries: How many times it was run.
        seconds: Wall-clock, whole and of the agent's, the engine's and the grading's part.
        roles: Sampled tokens by what the calls were for.
    """

    trial: str
    ended: Ended
    detail: str
    reward: Reward | None
    rows: int = 0
    calls: int = 0
    sampled: int = 0
    trainable: int = 0
    tool_parse_faults: int = 0
    truncated: int = 0
    tool_calls: int = 0
    route_positions: int = 0
    routes_recorded: int = 0
    tries: int = 1
    seconds: dict[str, float] = field(default_factory=dict)
    roles: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, record: TrialRecord) -> Self:
        """The account of a finished trial."""
        taken = record.accounting
        trajectory = record.sampled()
        trained = (
            [s for s in trajectory.segments if s.loss_mask.any()] if trajectory and record.outcome.is_trained else []
        )
        routed = [segment for segment in trained if segment.routes is not None]
        roles: Counter[str] = Counter()
        for call in trajectory.generations if trajectory else ():
            roles[call.role] += len(call.token_ids)
        seconds = record.seconds
        return cls(
            trial=record.spec.id,
            ended=record.outcome.ended,
            detail=record.outcome.detail[:_DETAIL_CHARS],
            reward=record.outcome.group_reward,
            rows=len(trained),
            calls=taken.calls,
            sampled=taken.sampled_tokens,
            trainable=taken.trainable_tokens,
            tool_parse_faults=taken.tool_parse_faults,
            truncated=taken.truncated,
            tool_calls=taken.tool_calls,
            route_positions=sum(len(segment.token_ids) - 1 for segment in routed),
            routes_recorded=sum(segment.routes_recorded for segment in routed),
            tries=record.tries,
            seconds={
                "setup": seconds.setup,
                "harness": seconds.harness,
                "engine": seconds.engine.total,
                "grading": seconds.grading,
                "trial": seconds.total,
            },
            roles=dict(roles),
        )

    def packed(self) -> dict[str, Any]:
        """As plain values, for the queue."""
        return asdict(self) | {"ended": self.ended.value}

    @classmethod
    def unpack(cls, packed: dict[str, Any]) -> Self:
        """What `packed` made of it."""
        return cls(**packed | {"ended": Ended(packed["ended"])})
