"""What became of a trial: its reward, which row of the fault table it ended in, and where the seconds went."""

from dataclasses import dataclass, field, replace
from typing import Literal

from lego_rl.errors import RunError
from lego_rl.gateway.trajectory import Accounting, Trajectory
from lego_rl.gateway.transcript import Transcript
from lego_rl.rollout.attribution import unrecordable
from lego_rl.rollout.faults import FAULT_TABLE, Ended, Rewarded, Row
from lego_rl.rollout.spec import TrialSpec
from lego_rl.sandbox.limits import LimitHits, LimitReport
from lego_rl.sandbox.verdict import Patch, Verdict

type Reward = Literal[0, 1]
"""A graded trial's reward. ``None`` in its place means that there is none: masked, or not to be graded."""


@dataclass(frozen=True)
class Outcome:
    """How a trial ended, and what its row of the fault table makes of it: everyone who trains, compares or counts asks
    the properties here.

    Attributes:
        reward: 0 or 1; ``None`` where the trial counts for nothing (an infrastructure fault, or nothing to be graded).
        ended: The row of the fault table.
        verdict: What the task's tests say, where the change was graded.
        detail: One line for people: what happened, in this trial's own figures.

    Raises:
        ValueError: The row gives no such reward.
    """

    reward: Reward | None
    ended: Ended
    verdict: Verdict | None
    detail: str

    def __post_init__(self) -> None:
        most = {Rewarded.NOTHING: None, Rewarded.ZERO: 0, Rewarded.VERDICT: 1}[self.row.rewarded]
        if self.reward is not None and (most is None or self.reward > most):
            raise ValueError(f"a trial that ended in {self.ended} has no reward of {self.reward}")

    @property
    def row(self) -> Row:
        """The row of the fault table."""
        return FAULT_TABLE[self.ended]

    @property
    def is_trained(self) -> bool:
        """Whether the trial's tokens may be trained on."""
        return self.row.trained

    @property
    def group_reward(self) -> Reward | None:
        """What the trial adds to its group's statistics; ``None`` for nothing."""
        return self.reward if self.row.in_group else None

    @property
    def counted_reward(self) -> Reward | None:
        """What the trial adds to a solve rate; ``None`` where it is not in the denominator."""
        return self.reward if self.row.in_denominator else None


@dataclass(frozen=True)
class EngineSeconds:
    """Engine time of all calls of a trial, summed; calls that share a batch each count the whole step.

    Attributes:
        queued: Waiting for a place in the batch.
        prefill: Computing prompts.
        decode: Sampling tokens.
    """

    queued: float = 0.0
    prefill: float = 0.0
    decode: float = 0.0

    @property
    def total(self) -> float:
        """Seconds from a call to its answer."""
        return self.queued + self.prefill + self.decode


@dataclass(frozen=True)
class PhaseSeconds:
    """Wall-clock seconds of a trial by phase.

    Attributes:
        setup: Sandbox start, seal check, listener.
        agent: The harness at work, its model calls included.
        grading: Snapshot, diff, fresh sandbox, tests.
        total: From the start of the trial to its record; the phases and the bookkeeping between them.
        engine: Engine time within `agent`.
    """

    setup: float = 0.0
    agent: float = 0.0
    grading: float = 0.0
    total: float = 0.0
    engine: EngineSeconds = field(default_factory=EngineSeconds)

    @property
    def harness(self) -> float:
        """The agent phase without the engine: the harness itself, its tools and the gateway; never below 0, for
        concurrent calls of one session overlap."""
        return max(0.0, self.agent - self.engine.total)


@dataclass(frozen=True)
class TrialRecord:
    """Everything a finished trial leaves behind.

    Attributes:
        spec: What was run.
        outcome: How it ended.
        trajectory: What the gateway wrote down; ``None`` where no session came to be.
        seconds: Where the time went.
        accounting: Token counts; the trajectory's, or zeros without one.
        patch: The agent's change, where the trial came to a snapshot.
        logs: Name → text for people: the tails of the harness's output and the like. Nothing is ever decided by them.
        harness_version: Exact version of the harness that was run.
        harness_hash: SHA-256 of its bundle.
        tries: How many times the trial was run, this one included.
        limits: What enforced the sandbox's limits; ``None`` where no sandbox came to stand.
        limit_hits: Which of them the sandbox ran into; ``None`` where the trial did not come to its snapshot.
        transcript: What the gateway wrote down in place of a trajectory where a chat backend answered: nobody can train
            on such a trial.
    """

    spec: TrialSpec
    outcome: Outcome
    trajectory: Trajectory | None
    seconds: PhaseSeconds
    accounting: Accounting = field(default_factory=Accounting)
    patch: Patch | None = None
    logs: dict[str, str] = field(default_factory=dict)
    harness_version: str = ""
    harness_hash: str = ""
    tries: int = 1
    limits: LimitReport | None = None
    limit_hits: LimitHits | None = None
    transcript: Transcript | None = None

    def sampled(self) -> Trajectory | None:
        """What trains, if anything does: what an engine sampled. Whoever trains asks this.

        Raises:
            RunError: A chat backend answered: nobody knows the tokens that it sampled.
        """
        if self.transcript is not None:
            raise RunError(
                f"trial {self.spec.id} is of a chat backend, which gives no tokens to train on",
                "train on trials of an engine (engine.kind); those of a chat backend are for evaluation",
            )
        return self.trajectory

    def without_content(self, problem: str) -> "TrialRecord":
        """What is kept where an agent's words or files make the record impossible to write: nothing that it chose.

        Args:
            problem: Why it cannot be written, for people.
        """
        row = unrecordable(self.outcome.row)
        kept = Outcome(
            reward=None if self.outcome.reward is None else 0,
            ended=row.ended,
            verdict=None,
            detail=row.meaning,
        )
        return replace(self, outcome=kept, trajectory=None, transcript=None, patch=None, logs={"error.txt": problem})
