"""The fault table: every way a trial can end, who is at fault, and what that does to the reward.

Invariant: a policy can never choose a fault instead of a 0. Evidence is split by who can bring it about: `Conduct` is
all that an agent can produce, `HostEvidence` only what the host itself observed. Once the agent has begun, no `Conduct`
whatever leads to a masked reward; that takes a `HostFailure`. The loss, the group statistics, every denominator and
the retries read this one table.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from lego_rl.errors import RunError

MAX_UNATTRIBUTED = 0.05
"""Largest share of a batch's trials that may end without anyone known to be at fault."""


class Fault(StrEnum):
    """Who is at fault for the way a trial ended."""

    NONE = "none"
    POLICY = "policy"
    INFRASTRUCTURE = "infrastructure"
    UNKNOWN = "unknown"


class Treatment(StrEnum):
    """What a row does to the reward."""

    GRADED = "graded"
    """The verdict's reward; 0 where there is no verdict."""
    ZERO = "zero"
    """0: the agent's doing left nothing to grade."""
    MASKED = "masked"
    """No reward: out of the loss, the group statistics and every denominator."""


class Ended(StrEnum):
    """How a trial ended: the rows of the table."""

    FINISHED = "finished"
    BUDGET_EXHAUSTED = "budget_exhausted"
    AGENT_TIMEOUT = "agent_timeout"
    HARNESS_ERROR = "harness_error"
    HARNESS_KILLED = "harness_killed"
    SANDBOX_LOST = "sandbox_lost"
    NO_SNAPSHOT = "no_snapshot"
    UNGRADABLE = "ungradable"
    GRADING_TIMEOUT = "grading_timeout"
    UNRECORDABLE = "unrecordable"
    SANDBOX_START = "sandbox_start"
    SETUP_FAILED = "setup_failed"
    HARNESS_SILENT = "harness_silent"
    ENGINE_FAILED = "engine_failed"
    GRADING_START = "grading_start"
    HOST_SHORTAGE = "host_shortage"
    CANCELLED = "cancelled"
    UNATTRIBUTED_BEFORE = "unattributed_before"
    UNATTRIBUTED_AFTER = "unattributed_after"


class HostFailure(StrEnum):
    """What the host saw fail by itself. No member can be brought about from inside a sandbox."""

    SANDBOX_START = "sandbox_start"
    SETUP = "setup"
    ENGINE = "engine"
    GRADING_START = "grading_start"
    SHORTAGE = "shortage"
    """The host had run out of disk, memory or file handles, with the trial's own share given back."""
    INTERNAL = "internal"
    """Lego-RL's own code or Harbor's raised something that no other member names."""


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        ended: Its name.
        fault: Who is at fault.
        treatment: What it does to the reward.
        retry: Whether the trial is run again.
        meaning: What happened, for people.
    """

    ended: Ended
    fault: Fault
    treatment: Treatment
    retry: bool
    meaning: str


def _policy(ended: Ended, treatment: Treatment, meaning: str) -> Row:
    return Row(ended, Fault.POLICY, treatment, retry=False, meaning=meaning)


def _infrastructure(ended: Ended, meaning: str) -> Row:
    return Row(ended, Fault.INFRASTRUCTURE, Treatment.MASKED, retry=True, meaning=meaning)


FAULT_TABLE: Mapping[Ended, Row] = {
    row.ended: row
    for row in (
        Row(Ended.FINISHED, Fault.NONE, Treatment.GRADED, retry=False, meaning="the harness ended by itself"),
        _policy(Ended.BUDGET_EXHAUSTED, Treatment.GRADED, "the gateway ended the session at a budget"),
        _policy(Ended.AGENT_TIMEOUT, Treatment.GRADED, "the agent phase reached its wall-clock limit"),
        _policy(Ended.HARNESS_ERROR, Treatment.GRADED, "the harness ended with an error"),
        _policy(Ended.HARNESS_KILLED, Treatment.GRADED, "the harness was killed inside its sandbox, as a limit does"),
        _policy(Ended.SANDBOX_LOST, Treatment.GRADED, "the sandbox broke while the agent was at work"),
        _policy(Ended.NO_SNAPSHOT, Treatment.ZERO, "the agent left a file tree that cannot be read out"),
        _policy(Ended.UNGRADABLE, Treatment.ZERO, "the agent's change could not be brought to a verdict"),
        _policy(Ended.GRADING_TIMEOUT, Treatment.ZERO, "grading the agent's change reached its wall-clock limit"),
        _policy(Ended.UNRECORDABLE, Treatment.ZERO, "what the agent sent or left cannot be written down and read back"),
        _infrastructure(Ended.SANDBOX_START, "the sandbox could not be started, or was not sealed"),
        _infrastructure(Ended.SETUP_FAILED, "the harness could not be set up in the sandbox"),
        _infrastructure(Ended.HARNESS_SILENT, "the harness never called the model"),
        _infrastructure(Ended.ENGINE_FAILED, "the engine failed to answer"),
        _infrastructure(Ended.GRADING_START, "the grading sandbox could not be started"),
        _infrastructure(Ended.HOST_SHORTAGE, "the host had run out of disk, memory or file handles"),
        Row(Ended.CANCELLED, Fault.NONE, Treatment.MASKED, retry=False, meaning="the run was stopped"),
        Row(
            Ended.UNATTRIBUTED_BEFORE,
            Fault.UNKNOWN,
            Treatment.MASKED,
            retry=True,
            meaning="an unexpected error before the agent began",
        ),
        Row(
            Ended.UNATTRIBUTED_AFTER,
            Fault.UNKNOWN,
            Treatment.GRADED,
            retry=False,
            meaning="an unexpected error after the agent began",
        ),
    )
}
"""The table. Retried are the rows that mask, except where the user stopped the run."""


@dataclass(frozen=True)
class Conduct:
    """Everything about a trial that an agent can bring about.

    Attributes:
        exit_code: The harness's exit code, 128 + n for signal n; ``None`` where it did not end by itself.
        timed_out: Whether the agent phase reached its wall-clock limit.
        budget_hit: The gateway's budget that ended the session, if one did.
        snapshot: Whether the file tree could be read out.
        reward: The verdict's reward, where there is a verdict.
        grading_timed_out: Whether grading reached its wall-clock limit.
        to_grade: Whether the trial is to be graded at all (the specification's choice, not the agent's).
    """

    exit_code: int | None = None
    timed_out: bool = False
    budget_hit: str | None = None
    snapshot: bool = False
    reward: Literal[0, 1] | None = None
    grading_timed_out: bool = False
    to_grade: bool = True


@dataclass(frozen=True)
class HostEvidence:
    """What the host observed, which nothing inside a sandbox can bring about.

    Attributes:
        began: Whether the harness was started.
        requests: Model requests that reached the gateway. Without one the policy has decided nothing.
        failure: What failed on the host's side.
        shortage: What the host had run out of, in one line; empty where it had enough.
    """

    began: bool
    requests: int
    failure: HostFailure | None = None
    shortage: str = ""


_FAILURES: Mapping[HostFailure, Ended] = {
    HostFailure.SANDBOX_START: Ended.SANDBOX_START,
    HostFailure.SETUP: Ended.SETUP_FAILED,
    HostFailure.ENGINE: Ended.ENGINE_FAILED,
    HostFailure.GRADING_START: Ended.GRADING_START,
    HostFailure.SHORTAGE: Ended.HOST_SHORTAGE,
}


def classify(host: HostEvidence, conduct: Conduct) -> Row:
    """The row that a trial ended in. Total: every combination has one."""
    return FAULT_TABLE[_ended(host, conduct)]


def reward_of(row: Row, conduct: Conduct) -> Literal[0, 1] | None:
    """The reward that a row gives; ``None`` for a masked trial and for one that is not to be graded."""
    if row.treatment is Treatment.MASKED or not conduct.to_grade:
        return None
    if row.treatment is Treatment.ZERO or conduct.reward is None:
        return 0
    return conduct.reward


def unrecordable(row: Row) -> Row:
    """The row of a trial whose record cannot be kept: a masked one stays so, for what the host observed still holds."""
    return row if row.treatment is Treatment.MASKED else FAULT_TABLE[Ended.UNRECORDABLE]


def _ended(host: HostEvidence, conduct: Conduct) -> Ended:
    if host.failure is HostFailure.INTERNAL:
        return Ended.UNATTRIBUTED_AFTER if host.began else Ended.UNATTRIBUTED_BEFORE
    if host.failure is not None:
        return _FAILURES[host.failure]
    if not host.began:
        return Ended.UNATTRIBUTED_BEFORE
    if host.requests == 0:
        return Ended.HARNESS_SILENT
    return _left_ungraded(conduct) or _agent_ended(conduct)


def _left_ungraded(conduct: Conduct) -> Ended | None:
    if not conduct.to_grade or conduct.reward is not None:
        return None
    if not conduct.snapshot:
        return Ended.NO_SNAPSHOT
    return Ended.GRADING_TIMEOUT if conduct.grading_timed_out else Ended.UNGRADABLE


def _agent_ended(conduct: Conduct) -> Ended:
    if conduct.budget_hit is not None:
        return Ended.BUDGET_EXHAUSTED
    if conduct.timed_out:
        return Ended.AGENT_TIMEOUT
    if conduct.exit_code is None:
        return Ended.SANDBOX_LOST
    if conduct.exit_code == 0:
        return Ended.FINISHED
    return Ended.HARNESS_KILLED if conduct.exit_code > 128 else Ended.HARNESS_ERROR


def is_unattributed(ended: Ended) -> bool:
    """Whether nobody is known to be at fault for how a trial ended."""
    return FAULT_TABLE[ended].fault is Fault.UNKNOWN


def too_many_unattributed(unattributed: int, trials: int) -> bool:
    """Whether more of a batch's trials than can be borne ended without anyone known to be at fault."""
    return unattributed > MAX_UNATTRIBUTED * trials


def check_batch(outcomes: Iterable[tuple[Ended, str]]) -> None:
    """Stop a run whose faults nobody can explain, or that measures nothing any more.

    Args:
        outcomes: Row and detail of every trial of a batch (a training step or an evaluation).

    Raises:
        RunError: More than `MAX_UNATTRIBUTED` of the batch is unattributed, or an infrastructure fault took all of it.
    """
    ended = list(outcomes)
    unknown = [detail for row, detail in ended if is_unattributed(row)]
    if too_many_unattributed(len(unknown), len(ended)):
        raise RunError(
            f"{len(unknown)} of {len(ended)} trials ended in a way that nobody is known to be at fault for: "
            f"{_most_common(unknown)}",
            "this is a bug in Lego-RL or in Harbor; the logs of the trials are in the run directory. "
            "Once it is mended, --resume runs them again",
        )
    masked = [detail for row, detail in ended if FAULT_TABLE[row].fault is Fault.INFRASTRUCTURE]
    if ended and len(masked) == len(ended):
        raise RunError(
            f"infrastructure faults took all {len(ended)} trials: {_most_common(masked)}",
            "mend what the message names and continue the run with --resume",
        )


def _most_common(details: list[str]) -> str:
    return Counter(details).most_common(1)[0][0]
