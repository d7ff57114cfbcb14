"""From what a trial left behind to the two sides of its evidence: what an agent can bring about, and what it cannot."""

from lego_rl.rollout.agent import Work
from lego_rl.rollout.faults import Conduct, Ended, HostEvidence, HostFailure, Row
from lego_rl.rollout.harbor_trial import Failure, Grades
from lego_rl.rollout.spec import Grading
from lego_rl.sandbox.grading import GradingStartError

DETAIL_CHARS = 400


def conduct_of(work: Work, grades: Grades, failure: Failure | None, grading: Grading) -> Conduct:
    """What the agent did, or could have done."""
    done = work.completed
    ended_by_itself = done is not None and not done.timed_out and not done.died
    return Conduct(
        exit_code=done.returncode if done is not None and ended_by_itself else None,
        timed_out=done is not None and done.timed_out,
        budget_hit=work.trajectory.accounting.budget_hit if work.trajectory is not None else None,
        snapshot=grades.patch is not None,
        reward=grades.verdict.reward if grades.verdict is not None else None,
        grading_timed_out=failure is not None and failure.kind == "VerifierTimeoutError",
        to_grade=grading is Grading.FRESH,
    )


def host_evidence(work: Work, grades: Grades, failure: Failure | None, shortage: str | None) -> HostEvidence:
    """What the host saw fail by itself.

    Args:
        work: The trial's live objects.
        grades: What the verifier wrote.
        failure: The exception that the trial ended with.
        shortage: What the host has run out of (`host_shortage`), if anything.
    """
    return HostEvidence(
        began=work.began,
        requests=work.session.requests,
        failure=_host_failure(work, grades, failure, shortage),
        shortage=shortage or "",
    )


def detail_of(row: Row, host: HostEvidence, work: Work, grades: Grades, failure: Failure | None) -> str:
    """One line for people."""
    parts = [row.meaning]
    if row.ended is Ended.BUDGET_EXHAUSTED and work.trajectory is not None:
        parts.append(f"{work.trajectory.accounting.budget_hit}")
    if row.ended in (Ended.HARNESS_ERROR, Ended.HARNESS_KILLED, Ended.HARNESS_SILENT) and work.completed is not None:
        parts.append(f"exit code {work.completed.returncode}")
    if work.capture_error is not None:
        parts.append(str(work.capture_error))
    if row.ended is Ended.HOST_SHORTAGE:
        parts.append(host.shortage)
    if failure is not None:
        parts.append(f"{failure.kind}: {failure.message}")
    hits = [name for name, count in vars(grades.limit_hits).items() if count] if grades.limit_hits is not None else []
    if hits:
        parts.append(f"it ran into its limit of {', '.join(hits)}")
    line = " ".join(": ".join(parts).split())
    return line.encode("utf-8", errors="backslashreplace").decode()[:DETAIL_CHARS]


def _host_failure(work: Work, grades: Grades, failure: Failure | None, shortage: str | None) -> HostFailure | None:
    if not work.began:
        if failure is None or not failure.is_foreseen:
            return HostFailure.INTERNAL
        return HostFailure.SETUP if work.sandbox_started else HostFailure.SANDBOX_START
    if work.capture_error is not None or work.session.engine_failed:
        return HostFailure.ENGINE
    if failure is None or grades.verdict is not None or failure.kind == "VerifierTimeoutError":
        return None
    if shortage is not None:
        return HostFailure.SHORTAGE
    if not failure.is_foreseen:
        return HostFailure.INTERNAL
    # Whatever else fails from here on may be the doing of the file tree that the agent left, or of the tested code.
    return HostFailure.GRADING_START if failure.kind == GradingStartError.__name__ else None
