"""From what a trial left behind to the two sides of its evidence: what an agent can bring about, and what it cannot."""

from lego_rl.engine.protocol import EngineError
from lego_rl.rollout.agent import LiveTrial
from lego_rl.rollout.faults import Conduct, Ended, HostEvidence, HostFailure, Row
from lego_rl.rollout.harbor_trial import Failure, Grades
from lego_rl.rollout.spec import Grading
from lego_rl.sandbox.grading import GradingStartError

DETAIL_CHARS = 400


def conduct_of(live: LiveTrial, grades: Grades, failure: Failure | None, grading: Grading) -> Conduct:
    """What the agent did, or could have done."""
    done = live.completed
    ended_by_itself = done is not None and not done.timed_out and not done.died
    return Conduct(
        exit_code=done.returncode if done is not None and ended_by_itself else None,
        timed_out=done is not None and done.timed_out,
        budget_hit=live.trajectory.accounting.budget_hit if live.trajectory is not None else None,
        snapshot=grades.patch is not None,
        reward=grades.verdict.reward if grades.verdict is not None else None,
        grading_timed_out=failure is not None and failure.kind == "VerifierTimeoutError",
        to_grade=grading is Grading.FRESH,
    )


def host_evidence(live: LiveTrial, grades: Grades, failure: Failure | None, shortage: str | None) -> HostEvidence:
    """What the host saw fail by itself.

    Args:
        live: The trial's live objects.
        grades: What the verifier wrote.
        failure: The exception that the trial ended with.
        shortage: What the host has run out of (`host_shortage`), if anything.
    """
    return HostEvidence(
        began=live.began,
        requests=live.session.requests,
        failure=_host_failure(live, grades, failure, shortage),
        shortage=shortage or "",
    )


def detail_of(row: Row, host: HostEvidence, live: LiveTrial, grades: Grades, failure: Failure | None) -> str:
    """One line for people."""
    parts = [row.meaning]
    if row.ended is Ended.BUDGET_EXHAUSTED and live.trajectory is not None:
        parts.append(f"{live.trajectory.accounting.budget_hit}")
    if row.ended in (Ended.HARNESS_ERROR, Ended.HARNESS_KILLED, Ended.HARNESS_SILENT) and live.completed is not None:
        parts.append(f"exit code {live.completed.returncode}")
    if live.capture_error is not None:
        parts.append(str(live.capture_error))
    if row.ended is Ended.HOST_SHORTAGE:
        parts.append(host.shortage)
    if live.session.failure is not None and live.capture_error is None:
        parts.append(f"{type(live.session.failure).__name__}: {live.session.failure}")
    if failure is not None:
        parts.append(f"{failure.kind}: {failure.message}")
    parts += _limits_hit(grades)
    line = " ".join(": ".join(parts).split())
    return line.encode("utf-8", errors="backslashreplace").decode()[:DETAIL_CHARS]


def may_be_short(live: LiveTrial, grades: Grades, failure: Failure | None) -> bool:
    """Whether a shortage of the host, if there is one, could be why the trial ended as it did."""
    return (
        _before_the_verdict(grades, failure) is not None or live.session.failure is not None or _unwatched(live, grades)
    )


def _before_the_verdict(grades: Grades, failure: Failure | None) -> Failure | None:
    """The failure, if it is why there is no verdict; slow tests are the agent's doing."""
    late = failure is not None and failure.kind == "VerifierTimeoutError"
    return None if late or grades.verdict is not None else failure


def _unwatched(live: LiveTrial, grades: Grades) -> bool:
    """Whether the harness was killed at work because the host could not measure its sandbox."""
    died = live.completed is not None and live.completed.died
    return died and grades.limit_hits is not None and grades.limit_hits.unmeasured


def _limits_hit(grades: Grades) -> list[str]:
    if grades.limit_hits is None:
        return []
    hits = vars(grades.limit_hits)
    names = [name for name in ("memory", "processes", "disk") if hits[name]]
    found = [f"it ran into its limit of {', '.join(names)}"] if names else []
    return [*found, "its limits could not be measured"] if hits["unmeasured"] else found


def _host_failure(live: LiveTrial, grades: Grades, failure: Failure | None, shortage: str | None) -> HostFailure | None:
    if not live.began:
        if failure is None or not failure.is_foreseen:
            return HostFailure.INTERNAL
        return HostFailure.SETUP if live.sandbox_started else HostFailure.SANDBOX_START
    asked = live.session.failure
    if live.capture_error is not None or isinstance(asked, EngineError):
        return HostFailure.ENGINE
    failure = _before_the_verdict(grades, failure)
    if shortage is not None and may_be_short(live, grades, failure):
        return HostFailure.SHORTAGE
    # An answer that nobody foresaw may be a bug that the agent's own words bring out: it masks nothing.
    if asked is not None or (failure is not None and not failure.is_foreseen):
        return HostFailure.INTERNAL
    # Whatever else fails from here on may be the doing of the file tree that the agent left, or of the tested code.
    return HostFailure.GRADING_START if failure is not None and failure.kind == GradingStartError.__name__ else None
