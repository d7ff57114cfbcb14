"""From what a trial left behind to the two sides of its evidence: what an agent can bring about, and what it cannot."""

from collections.abc import Mapping
from dataclasses import dataclass

from harbor.trial.errors import VerifierTimeoutError

from lego_rl.engine.protocol import EngineError
from lego_rl.errors import CaptureError, TaskError, UnservedTaskError
from lego_rl.gateway.transcript import Captured
from lego_rl.rollout.agent import LiveTrial
from lego_rl.rollout.attribution import AgentEvidence, HostEvidence, HostFailure, LastAnswer, Reached
from lego_rl.rollout.faults import Ended, Row
from lego_rl.rollout.harbor_trial import Failure, Grades
from lego_rl.rollout.shortage import Shortage
from lego_rl.sandbox.grading import GradingStartError
from lego_rl.sandbox.limits import LimitHits
from lego_rl.sandbox.loss import LossCause, RuntimeLostError, SandboxKilledError
from lego_rl.sandbox.seal import SealError
from lego_rl.sandbox.verdict import GradingEnd, Verdict

DETAIL_CHARS = 400

_LOSSES = {LossCause.KILLED: HostFailure.SANDBOX_KILLED, LossCause.RUNTIME: HostFailure.RUNTIME}
_SHORTAGES = {"disk": HostFailure.DISK, "memory": HostFailure.MEMORY, "handles": HostFailure.HANDLES}
_BEFORE: Mapping[type[Exception], HostFailure] = {
    TaskError: HostFailure.TASK,
    UnservedTaskError: HostFailure.TASK,
    SealError: HostFailure.SEAL,
}
"""What kinds of failures are before the agent begins, wherever they are raised."""
_AFTERWARDS: Mapping[type[Exception], HostFailure] = {
    TaskError: HostFailure.TASK,
    GradingStartError: HostFailure.GRADING_START,
    SandboxKilledError: HostFailure.SANDBOX_KILLED,
    RuntimeLostError: HostFailure.RUNTIME,
}
"""The same from then on, whether its sandbox is killed, its change is read or graded. No other kind is the host's: it
may be the doing of the agent's file tree, or of the tested code."""


@dataclass(frozen=True)
class Inspection:
    """What the host was asked when a trial had gone wrong, its sandbox and its session being closed.

    Attributes:
        shortage: What the host had run out of and may be why the trial ended as it did (`may_be_short`), if anything.
        engine_silent: Whether the engine did nothing for anybody afterwards either.
    """

    shortage: Shortage | None = None
    engine_silent: bool = False


def agent_evidence(live: LiveTrial, grades: Grades, failure: Failure | None) -> AgentEvidence:
    """What the agent did, or could have done."""
    done = live.completed
    ended_by_itself = done is not None and not done.timed_out and not done.died
    verdict, patch = grades.verdict, grades.patch
    return AgentEvidence(
        exit_code=done.returncode if done is not None and ended_by_itself else None,
        timed_out=done is not None and done.timed_out,
        budget_hit=live.captured.accounting.budget_hit if live.captured is not None else None,
        last_answer=_last_answer(live.captured),
        hits=grades.limit_hits or LimitHits(),
        snapshot=patch is not None,
        too_large=patch is not None and patch.too_large,
        reward=verdict.reward if verdict is not None else None,
        grading=_grading_end(verdict, failure),
        unforeseen=_unforeseen(live, _before_the_verdict(grades, failure)),
    )


def host_evidence(live: LiveTrial, grades: Grades, failure: Failure | None, inspection: Inspection) -> HostEvidence:
    """What the host saw fail by itself.

    Args:
        live: The trial's live objects.
        grades: What the verifier wrote.
        failure: The exception that the trial ended with.
        inspection: What the host was asked afterwards.
    """
    found = _host_failure(live, grades, failure, inspection)
    return HostEvidence(reached(live), *(found or (None, "")))


def detail_of(row: Row, host: HostEvidence, live: LiveTrial, grades: Grades, failure: Failure | None) -> str:
    """One line for people."""
    parts = [row.meaning]
    if row.ended in _WITH_EXIT_CODE and live.completed is not None:
        parts.append(f"exit code {live.completed.returncode}")
    if live.capture_error is not None:
        parts.append(str(live.capture_error))
    if host.found:
        parts.append(host.found)
    if live.session.failure is not None and live.capture_error is None:
        parts.append(f"{type(live.session.failure).__name__}: {live.session.failure}")
    if failure is not None:
        parts.append(f"{failure.kind}: {failure.message}")
    parts += _limits_hit(grades)
    return one_line(": ".join(parts))


def one_line(text: str) -> str:
    """A text as `Outcome.detail` holds it: on one line, of characters that can be written down, and not too long."""
    return " ".join(text.split()).encode("utf-8", errors="backslashreplace").decode()[:DETAIL_CHARS]


def may_be_short(live: LiveTrial, grades: Grades, failure: Failure | None) -> bool:
    """Whether a shortage of the host, if there is one, could be why the trial ended as it did."""
    unfinished = grades.verdict is not None and grades.verdict.ended in ("not_applied", "died", "no_report")
    failed = _before_the_verdict(grades, failure) is not None or live.session.failure is not None
    return unfinished or failed or _limited(live, grades)


_WITH_EXIT_CODE = {
    Ended.HARNESS_ERROR,
    Ended.HARNESS_KILLED,
    Ended.HARNESS_SILENT,
    Ended.OUT_OF_MEMORY,
    Ended.TOO_MANY_PROCESSES,
}


def _grading_end(verdict: Verdict | None, failure: Failure | None) -> GradingEnd | None:
    """How grading ended; Harbor's own limit is far beyond that of the tests, and as much the tested code's doing."""
    if verdict is not None:
        return verdict.ended
    return "timed_out" if _is_late(failure) else None


def _is_late(failure: Failure | None) -> bool:
    return failure is not None and failure.is_a(VerifierTimeoutError)


def _last_answer(captured: Captured | None) -> LastAnswer:
    main = [] if captured is None else [call for call in captured.calls if call.role == "main"]
    if not main or main[-1].fate != "delivered":
        return "whole"
    if main[-1].finish_reason == "length":
        return "cut"
    return "whole" if main[-1].parsed else "malformed"


def _before_the_verdict(grades: Grades, failure: Failure | None) -> Failure | None:
    """The failure, if it is why there is no verdict; slow tests are the agent's doing."""
    return None if _is_late(failure) or grades.verdict is not None else failure


def _unforeseen(live: LiveTrial, failure: Failure | None) -> bool:
    """Whether something failed that nobody foresaw: in the gateway, or of what is why there is no verdict."""
    in_gateway = live.session.failure is not None and not isinstance(live.session.failure, EngineError | CaptureError)
    return in_gateway or (failure is not None and not failure.is_foreseen)


def reached(live: LiveTrial) -> Reached:
    """How far a trial came."""
    if not live.began:
        return Reached.NOTHING
    return Reached.ASKED if live.session.requests else Reached.STARTED


def _limited(live: LiveTrial, grades: Grades) -> bool:
    """Whether the harness did not survive its work in a sandbox that was killed for memory or could not be measured:
    on a host that is short of memory both happen to sandboxes that kept to their limits."""
    hits = grades.limit_hits
    stopped = live.completed is not None and not live.completed.timed_out and live.completed.returncode != 0
    return stopped and hits is not None and (hits.memory > 0 or hits.unmeasured)


def _limits_hit(grades: Grades) -> list[str]:
    if grades.limit_hits is None:
        return []
    hits = vars(grades.limit_hits)
    names = [name for name in ("memory", "processes", "disk") if hits[name]]
    found = [f"it ran into its limit of {', '.join(names)}"] if names else []
    return [*found, "its limits could not be measured"] if hits["unmeasured"] else found


def _host_failure(
    live: LiveTrial, grades: Grades, failure: Failure | None, inspection: Inspection
) -> tuple[HostFailure, str] | None:
    """What failed on the host's side, and what was seen of it."""
    if not live.began:
        before = _before_the_agent(live, failure)
        if before in (HostFailure.SANDBOX_START, HostFailure.SETUP) and inspection.shortage is not None:
            return _of(inspection.shortage)
        return None if before is None else (before, "")
    return _observed(live, inspection) or _of(inspection.shortage) or _raised(_before_the_verdict(grades, failure))


def _before_the_agent(live: LiveTrial, failure: Failure | None) -> HostFailure | None:
    if failure is None or not failure.is_foreseen:
        return None
    return _named(failure, _BEFORE) or (HostFailure.SETUP if live.sandbox_started else HostFailure.SANDBOX_START)


def _named(failure: Failure, kinds: Mapping[type[Exception], HostFailure]) -> HostFailure | None:
    return next((found for kind, found in kinds.items() if failure.is_a(kind)), None)


def _observed(live: LiveTrial, inspection: Inspection) -> tuple[HostFailure, str] | None:
    """What the host saw fail while the agent was at work, or directly after: decisive, whatever the verdict."""
    if live.capture_error is not None:
        return HostFailure.CAPTURE, ""
    if isinstance(live.session.failure, EngineError):
        return HostFailure.ENGINE, ""
    if live.gateway_lost is not None:
        return HostFailure.GATEWAY, f"{live.gateway_lost}"
    loss = None if live.completed is None else live.completed.loss
    if loss is not None:
        return _LOSSES[loss.cause], loss.found
    return (HostFailure.ENGINE_SILENT, "") if inspection.engine_silent else None


def _of(shortage: Shortage | None) -> tuple[HostFailure, str] | None:
    return None if shortage is None else (_SHORTAGES[shortage.of], shortage.found)


def _raised(failure: Failure | None) -> tuple[HostFailure, str] | None:
    """What an exception says. Whatever is not named may be the doing of the file tree that the agent left, or of the
    tested code, or a bug that the agent's own words bring out: none of these masks anything."""
    named = None if failure is None else _named(failure, _AFTERWARDS)
    return None if named is None else (named, "")
