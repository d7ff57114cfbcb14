"""From what a trial left behind to its record: how it ended, what it is worth, and where its time went."""

import time

from harbor.models.trial.result import TrialResult

from lego_rl.gateway.trajectory import Accounting
from lego_rl.gateway.transcript import Captured
from lego_rl.rollout.agent import LiveTrial
from lego_rl.rollout.attribution import AgentEvidence, HostEvidence, classify, reward_of
from lego_rl.rollout.evidence import Inspection, agent_evidence, detail_of, host_evidence, one_line, reached
from lego_rl.rollout.harbor_trial import Failure, Grades, seconds_of
from lego_rl.rollout.outcome import EngineSeconds, Outcome, PhaseSeconds, TrialRecord
from lego_rl.rollout.spec import TrialSpec


def unforeseen_record(spec: TrialSpec, live: LiveTrial, failure: Failure, total: float) -> TrialRecord:
    """The record of a trial of which what it left behind cannot be told."""
    agent = AgentEvidence(unforeseen=True)
    row = classify(HostEvidence(reached(live)), agent, spec.grading)
    return TrialRecord(
        spec=spec,
        outcome=Outcome(
            reward=reward_of(row, agent, spec.grading),
            ended=row.ended,
            verdict=None,
            detail=one_line(f"{row.meaning}: {failure.kind}: {failure.message}"),
        ),
        trajectory=None,
        seconds=PhaseSeconds(total=total),
        logs={"error.txt": failure.trace},
        harness_version=live.bundle.version,
        harness_hash=live.bundle.hash,
    )


def record_of(
    spec: TrialSpec,
    live: LiveTrial,
    result: TrialResult | None,
    grades: Grades,
    failure: Failure | None,
    inspection: Inspection,
    started: float,
) -> TrialRecord:
    """The record of a trial.

    Args:
        spec: What was run.
        live: Its live objects.
        result: Harbor's own, where there is one.
        grades: What the verifier wrote.
        failure: The exception that it ended with.
        inspection: What the host was asked afterwards.
        started: When it began, by `time.perf_counter`.
    """
    agent = agent_evidence(live, grades, failure)
    host = host_evidence(live, grades, failure, inspection)
    row = classify(host, agent, spec.grading)
    reward = reward_of(row, agent, spec.grading)
    logs = live.logs()
    if failure is not None:
        logs["error.txt"] = failure.trace
    return TrialRecord(
        spec=spec,
        outcome=Outcome(
            reward=reward,
            ended=row.ended,
            verdict=grades.verdict if reward is not None else None,
            detail=detail_of(row, host, live, grades, failure),
        ),
        trajectory=live.trajectory,
        seconds=_seconds(result, live.captured, time.perf_counter() - started),
        accounting=live.captured.accounting if live.captured is not None else Accounting(),
        patch=grades.patch,
        logs=logs,
        harness_version=live.bundle.version,
        harness_hash=live.bundle.hash,
        limits=live.limits,
        limit_hits=grades.limit_hits,
        transcript=live.transcript,
    )


def _seconds(result: TrialResult | None, captured: Captured | None, total: float) -> PhaseSeconds:
    timings = [call.timings for call in captured.calls] if captured is not None else []
    engine = EngineSeconds(
        queued=sum(each.queued for each in timings),
        prefill=sum(each.prefill for each in timings),
        decode=sum(each.decode for each in timings),
    )
    if result is None:
        return PhaseSeconds(total=total, engine=engine)
    return PhaseSeconds(
        setup=seconds_of(result.environment_setup) + seconds_of(result.agent_setup),
        agent=seconds_of(result.agent_execution),
        grading=seconds_of(result.verifier),
        total=total,
        engine=engine,
    )
