"""Who brought about the way a trial ended: from evidence to a row of the fault table.

Invariant: evidence is split by who can produce it. `AgentEvidence` is all that an agent can produce, `HostEvidence`
only what no agent can, and what the specification decides is in neither. Once the policy has been asked, no
`AgentEvidence` whatever leads to a masked reward; that takes a `HostFailure`.

That other trials were hit at the same time is no evidence here: the same policy plays all of them, and their clocks
agree, so agents could arrange it. What hits many trials is told by the evidence of each: a signal from outside, a
daemon or an engine that does not answer, a host that is short of something.
"""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from lego_rl.gateway.trajectory import BudgetHit
from lego_rl.rollout.faults import FAULT_TABLE, Ended, Rewarded, Row
from lego_rl.rollout.spec import Grading
from lego_rl.sandbox.limits import LimitHits
from lego_rl.sandbox.verdict import GradingEnd

type LastAnswer = Literal["whole", "cut", "malformed"]
"""What the harness ended on: the newest answer of the main conversation. ``cut``: by the token limit."""


class Reached(StrEnum):
    """How far a trial had come, as the host saw it. There is no way back, and an agent exists in the last one only.

    An agent is what the policy's answers make of a sandbox that began from nothing, so before the policy was asked
    nothing in it is anybody's choice but the harness's and the task's. A further try, and one in a resumed run, begins
    in the first one again, in another sandbox and behind another address.
    """

    NOTHING = "nothing"
    """The harness was not started."""
    STARTED = "started"
    """It was, and no request of it that could be read has come to the gateway."""
    ASKED = "asked"
    """One has: the policy was asked, whether or not it answered and whoever waited for it."""


class HostFailure(StrEnum):
    """What the host saw fail by itself. No member can be brought about from inside a sandbox, nor from all of them."""

    TASK = "task"
    """The task's own files, which lie on the host."""
    SANDBOX_START = "sandbox_start"
    SEAL = "seal"
    SETUP = "setup"
    ENGINE = "engine"
    """The engine said so."""
    ENGINE_SILENT = "engine_silent"
    """A call got no answer, and after the session's end the engine took no step for anybody: no load does that."""
    CAPTURE = "capture"
    GATEWAY = "gateway"
    """The listener's socket, whose descriptor only the host has."""
    SANDBOX_KILLED = "sandbox_killed"
    RUNTIME = "runtime"
    GRADING_START = "grading_start"
    DISK = "disk"
    """The host had run out of it, with all given back that sandboxes hold; the next two likewise."""
    MEMORY = "memory"
    HANDLES = "handles"


@dataclass(frozen=True)
class AgentEvidence:
    """Everything about a trial that an agent can bring about, once there is one.

    Attributes:
        exit_code: The harness's exit code, 128 + n for signal n; ``None`` where it did not end by itself.
        timed_out: Whether the agent phase reached its wall-clock limit.
        budget_hit: The gateway's budget that ended the session, if one did.
        last_answer: What the harness ended on.
        hits: Which of its limits the sandbox ran into.
        snapshot: Whether the file tree could be read out.
        too_large: Whether a part of the change is left out of the patch for its size.
        reward: The verdict's reward, where there is a verdict.
        grading: How grading ended, where it began.
        unforeseen: Whether Lego-RL's own code or Harbor's raised something that nobody foresaw: a bug, which the
            agent's own words or files may bring out.
    """

    exit_code: int | None = None
    timed_out: bool = False
    budget_hit: BudgetHit | None = None
    last_answer: LastAnswer = "whole"
    hits: LimitHits = field(default_factory=LimitHits)
    snapshot: bool = False
    too_large: bool = False
    reward: Literal[0, 1] | None = None
    grading: GradingEnd | None = None
    unforeseen: bool = False


@dataclass(frozen=True)
class HostEvidence:
    """What the host observed, and no agent can bring about.

    Attributes:
        reached: How far the trial had come.
        failure: What failed on the host's side.
        found: What the host saw of it, in one line; empty where the failure's own error says it.
    """

    reached: Reached
    failure: HostFailure | None = None
    found: str = ""


_FAILURES: Mapping[HostFailure, Ended] = {
    HostFailure.TASK: Ended.TASK_UNUSABLE,
    HostFailure.SANDBOX_START: Ended.SANDBOX_START,
    HostFailure.SEAL: Ended.SEAL_FAILED,
    HostFailure.SETUP: Ended.SETUP_FAILED,
    HostFailure.ENGINE: Ended.ENGINE_FAILED,
    HostFailure.ENGINE_SILENT: Ended.ENGINE_SILENT,
    HostFailure.CAPTURE: Ended.CAPTURE_FAILED,
    HostFailure.GATEWAY: Ended.GATEWAY_LOST,
    HostFailure.SANDBOX_KILLED: Ended.SANDBOX_KILLED,
    HostFailure.RUNTIME: Ended.RUNTIME_LOST,
    HostFailure.GRADING_START: Ended.GRADING_START,
    HostFailure.DISK: Ended.HOST_DISK_FULL,
    HostFailure.MEMORY: Ended.HOST_OUT_OF_MEMORY,
    HostFailure.HANDLES: Ended.HOST_OUT_OF_HANDLES,
}

_SIGNALS = range(128 + 1, 128 + signal.NSIG)
"""Exit codes of a process that a signal ended."""

_BUDGETS: Mapping[BudgetHit, Ended] = {
    "turns": Ended.TURN_BUDGET,
    "context": Ended.CONTEXT_BUDGET,
    "wall_clock": Ended.WALL_CLOCK_BUDGET,
    "attempts": Ended.ATTEMPT_BUDGET,
}

_GRADING: Mapping[GradingEnd, Ended] = {
    "not_applied": Ended.PATCH_NOT_APPLIED,
    "timed_out": Ended.VERIFIER_TIMEOUT,
    "died": Ended.VERIFIER_CRASHED,
    "no_report": Ended.NO_VERDICT,
    "invalid_reward": Ended.NO_VERDICT,
}


def classify(host: HostEvidence, agent: AgentEvidence, grading: Grading) -> Row:
    """The row that a trial ended in. Total: every combination has one.

    Args:
        host: What no agent can bring about.
        agent: What one can.
        grading: Whether the specification wants the change graded.
    """
    return FAULT_TABLE[_ended(host, agent, grading)]


def reward_of(row: Row, agent: AgentEvidence, grading: Grading) -> Literal[0, 1] | None:
    """The reward that a row gives; ``None`` for a masked trial and for one that is not to be graded."""
    if row.rewarded is Rewarded.NOTHING or grading is Grading.NONE:
        return None
    if row.rewarded is Rewarded.ZERO or agent.reward is None:
        return 0
    return agent.reward


def unrecordable(row: Row) -> Row:
    """The row of a trial whose record cannot be kept: a masked one stays so, for what the host observed still holds."""
    return row if row.is_masked else FAULT_TABLE[Ended.UNRECORDABLE]


def _ended(host: HostEvidence, agent: AgentEvidence, grading: Grading) -> Ended:
    if host.failure is not None:
        return _FAILURES[host.failure]
    match host.reached:
        case Reached.NOTHING:
            return Ended.UNATTRIBUTED_BEFORE
        case Reached.STARTED:
            return Ended.UNATTRIBUTED_BEFORE if agent.unforeseen else Ended.HARNESS_SILENT
        case Reached.ASKED:
            if agent.unforeseen:
                return Ended.UNATTRIBUTED_AFTER
            left_ungraded = _left_ungraded(agent) if grading is Grading.FRESH else None
            return left_ungraded or _agent_ended(agent)


def _left_ungraded(agent: AgentEvidence) -> Ended | None:
    """Why the change has no verdict that says anything of it, if it has none."""
    if agent.grading is not None and agent.grading in _GRADING:
        return _GRADING[agent.grading]
    if agent.reward is not None:
        return None
    return Ended.VERIFIER_CRASHED if agent.snapshot else Ended.NO_SNAPSHOT


def _agent_ended(agent: AgentEvidence) -> Ended:
    stopped = agent.exit_code != 0 and not agent.timed_out and agent.budget_hit is None
    if stopped and (limit := _limit_hit(agent.hits)) is not None:
        return limit
    if agent.too_large:
        return Ended.PATCH_TOO_LARGE
    if agent.budget_hit is not None:
        return _BUDGETS[agent.budget_hit]
    if agent.timed_out:
        return Ended.AGENT_TIMEOUT
    if agent.exit_code is None:
        return Ended.SANDBOX_LOST
    if agent.exit_code in _SIGNALS:
        return Ended.HARNESS_KILLED
    if agent.last_answer != "whole":
        return Ended.OUTPUT_BUDGET if agent.last_answer == "cut" else Ended.MALFORMED_CALL
    return Ended.FINISHED if agent.exit_code == 0 else Ended.HARNESS_ERROR


def _limit_hit(hits: LimitHits) -> Ended | None:
    if hits.disk:
        return Ended.OUT_OF_DISK
    if hits.memory:
        return Ended.OUT_OF_MEMORY
    if hits.processes:
        return Ended.TOO_MANY_PROCESSES
    return Ended.LIMITS_UNMEASURED if hits.unmeasured else None
