"""The fault table: every way a trial can end, who is at fault, and what that does to the loss and to every count.

Invariant: a policy can never choose a fault instead of a 0, so every row of a policy counts everywhere. The loss reads
`Row.trained`, the group statistics `Row.in_group`, every denominator `Row.in_denominator` and the retries
`Row.retries`; nobody decides any of these in another way. Which row a trial ended in is told by `rollout.attribution`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MOST_TRIES = 9
"""Tries that faults, and as many that a bug, may take of one trial, however often its run is resumed; its last record
stands then."""


class Fault(StrEnum):
    """Who is at fault for the way a trial ended."""

    NONE = "none"
    POLICY = "policy"
    INFRASTRUCTURE = "infrastructure"
    UNKNOWN = "unknown"


class Rewarded(StrEnum):
    """Where the reward of a row comes from."""

    VERDICT = "verdict"
    """From the task's tests; 0 where there is no verdict."""
    ZERO = "zero"
    """0: what the agent did left nothing to grade, or nothing that could be graded in time."""
    NOTHING = "nothing"
    """There is none."""


class Ended(StrEnum):
    """How a trial ended: the rows of the table."""

    FINISHED = "finished"
    TURN_BUDGET = "turn_budget"
    CONTEXT_BUDGET = "context_budget"
    WALL_CLOCK_BUDGET = "wall_clock_budget"
    ATTEMPT_BUDGET = "attempt_budget"
    OUTPUT_BUDGET = "output_budget"
    MALFORMED_CALL = "malformed_call"
    AGENT_TIMEOUT = "agent_timeout"
    HARNESS_ERROR = "harness_error"
    HARNESS_KILLED = "harness_killed"
    OUT_OF_MEMORY = "out_of_memory"
    OUT_OF_DISK = "out_of_disk"
    TOO_MANY_PROCESSES = "too_many_processes"
    LIMITS_UNMEASURED = "limits_unmeasured"
    SANDBOX_LOST = "sandbox_lost"
    PATCH_TOO_LARGE = "patch_too_large"
    NO_SNAPSHOT = "no_snapshot"
    PATCH_NOT_APPLIED = "patch_not_applied"
    VERIFIER_TIMEOUT = "verifier_timeout"
    VERIFIER_CRASHED = "verifier_crashed"
    NO_VERDICT = "no_verdict"
    UNRECORDABLE = "unrecordable"
    TASK_UNUSABLE = "task_unusable"
    SANDBOX_START = "sandbox_start"
    SEAL_FAILED = "seal_failed"
    SETUP_FAILED = "setup_failed"
    HARNESS_SILENT = "harness_silent"
    ENGINE_FAILED = "engine_failed"
    ENGINE_SILENT = "engine_silent"
    CAPTURE_FAILED = "capture_failed"
    GATEWAY_LOST = "gateway_lost"
    SANDBOX_KILLED = "sandbox_killed"
    RUNTIME_LOST = "runtime_lost"
    GRADING_START = "grading_start"
    HOST_DISK_FULL = "host_disk_full"
    HOST_OUT_OF_MEMORY = "host_out_of_memory"
    HOST_OUT_OF_HANDLES = "host_out_of_handles"
    CANCELLED = "cancelled"
    UNATTRIBUTED_BEFORE = "unattributed_before"
    UNATTRIBUTED_AFTER = "unattributed_after"


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        ended: Its name.
        fault: Who is at fault.
        rewarded: Where the reward comes from.
        trained: Whether the trial's tokens may be trained on; those of a trial that has none never are.
        in_group: Whether its reward is part of its group's mean and standard deviation.
        in_denominator: Whether it counts in the denominator of a solve rate, in training, evaluation and report.
        retries: How many further tries the trial gets after it, at most.
        meaning: What happened, for people.
    """

    ended: Ended
    fault: Fault
    rewarded: Rewarded
    trained: bool
    in_group: bool
    in_denominator: bool
    retries: int
    meaning: str

    @property
    def is_masked(self) -> bool:
        """Whether the trial counts for nothing at all."""
        return not (self.trained or self.in_group or self.in_denominator)


def _counts(ended: Ended, fault: Fault, rewarded: Rewarded, meaning: str) -> Row:
    return Row(ended, fault, rewarded, trained=True, in_group=True, in_denominator=True, retries=0, meaning=meaning)


def _graded(ended: Ended, meaning: str) -> Row:
    return _counts(ended, Fault.POLICY, Rewarded.VERDICT, meaning)


def _zero(ended: Ended, meaning: str) -> Row:
    return _counts(ended, Fault.POLICY, Rewarded.ZERO, meaning)


def _masked(ended: Ended, meaning: str, *, fault: Fault = Fault.INFRASTRUCTURE, retries: int = 2) -> Row:
    return Row(
        ended,
        fault,
        Rewarded.NOTHING,
        trained=False,
        in_group=False,
        in_denominator=False,
        retries=retries,
        meaning=meaning,
    )


FAULT_TABLE: Mapping[Ended, Row] = {
    row.ended: row
    for row in (
        _counts(Ended.FINISHED, Fault.NONE, Rewarded.VERDICT, "the harness ended by itself"),
        _graded(Ended.TURN_BUDGET, "the gateway ended the session: all turns were used up"),
        _graded(Ended.CONTEXT_BUDGET, "the conversation outgrew the context budget"),
        _graded(Ended.WALL_CLOCK_BUDGET, "the gateway ended the session: its time was up"),
        _graded(Ended.ATTEMPT_BUDGET, "the gateway ended the session: too many model calls for its turns were begun"),
        _graded(Ended.OUTPUT_BUDGET, "the harness ended on an answer that the output budget had cut off"),
        _graded(Ended.MALFORMED_CALL, "the harness ended on an answer whose tool call could not be read"),
        _graded(Ended.AGENT_TIMEOUT, "the agent phase reached its wall-clock limit and was killed"),
        _graded(Ended.HARNESS_ERROR, "the harness ended with an error"),
        _graded(Ended.HARNESS_KILLED, "the harness was killed inside its sandbox"),
        _graded(Ended.OUT_OF_MEMORY, "the trial ran into its own limit of memory"),
        _graded(Ended.OUT_OF_DISK, "the trial ran into its own limit of disk"),
        _graded(Ended.TOO_MANY_PROCESSES, "the trial ran into its own limit of processes"),
        _graded(Ended.LIMITS_UNMEASURED, "the sandbox was killed because its limits could not be measured"),
        _graded(Ended.SANDBOX_LOST, "the sandbox broke while the agent was at work"),
        _graded(Ended.PATCH_TOO_LARGE, "the agent's change is larger than a patch may be: the rest of it was graded"),
        _zero(Ended.NO_SNAPSHOT, "the agent left a file tree that cannot be read out"),
        _zero(Ended.PATCH_NOT_APPLIED, "the agent's change cannot be written into the grading sandbox"),
        _zero(Ended.VERIFIER_TIMEOUT, "the tests of the agent's change reached their wall-clock limit"),
        _zero(Ended.VERIFIER_CRASHED, "the grading sandbox did not survive the tests of the agent's change"),
        _zero(Ended.NO_VERDICT, "the tests of the agent's change left no report"),
        _zero(Ended.UNRECORDABLE, "what the agent sent or left cannot be written down and read back"),
        _masked(Ended.TASK_UNUSABLE, "the task itself cannot be used", retries=1),
        _masked(Ended.SANDBOX_START, "the sandbox could not be started"),
        _masked(Ended.SEAL_FAILED, "the sandbox has a hole", retries=1),
        _masked(Ended.SETUP_FAILED, "the harness could not be set up in the sandbox"),
        _masked(Ended.HARNESS_SILENT, "the harness never called the model"),
        _masked(Ended.ENGINE_FAILED, "the engine failed to answer"),
        _masked(Ended.ENGINE_SILENT, "the engine did not answer, and then did nothing for anybody"),
        _masked(Ended.CAPTURE_FAILED, "the engine's answers contradict themselves", retries=1),
        _masked(Ended.GATEWAY_LOST, "the gateway's listener was lost"),
        _masked(Ended.SANDBOX_KILLED, "somebody outside killed the sandbox"),
        _masked(Ended.RUNTIME_LOST, "what runs the sandbox was lost: its daemon or its node"),
        _masked(Ended.GRADING_START, "the grading sandbox could not be started"),
        _masked(Ended.HOST_DISK_FULL, "the host had run out of disk"),
        _masked(Ended.HOST_OUT_OF_MEMORY, "the host had run out of memory"),
        _masked(Ended.HOST_OUT_OF_HANDLES, "the host had run out of file handles"),
        _masked(Ended.CANCELLED, "the run was stopped", fault=Fault.NONE, retries=0),
        _masked(
            Ended.UNATTRIBUTED_BEFORE, "an unexpected error before the policy was asked", fault=Fault.UNKNOWN, retries=1
        ),
        _counts(
            Ended.UNATTRIBUTED_AFTER, Fault.UNKNOWN, Rewarded.VERDICT, "an unexpected error after the policy was asked"
        ),
    )
}
"""The table."""
