"""What a trial left behind, sorted into evidence: by where it failed and as what, never by what it says."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
from evidence_kit import (
    ANSWER,
    FULL,
    GRADED,
    LOSSES,
    NO_MEMORY,
    NOTHING_FOUND,
    PATCH,
    SILENT,
    TEMPLATE,
    at_fault,
    down,
    ended,
    failure,
    told,
    worked,
)
from harbor.trial.errors import VerifierTimeoutError
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.engine.protocol import EngineError, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.errors import CaptureError, SandboxError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call import Request
from lego_rl.gateway.refusals import ContextOverflow
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.harness import registry
from lego_rl.harness.base import HarnessBundle
from lego_rl.messages import Message
from lego_rl.rollout.agent import LiveTrial
from lego_rl.rollout.attribution import classify
from lego_rl.rollout.evidence import (
    DETAIL_CHARS,
    Inspection,
    agent_evidence,
    detail_of,
    host_evidence,
    may_be_short,
)
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.harbor_trial import Failure, Grades, UnreadableGradesError
from lego_rl.rollout.shortage import Shortage
from lego_rl.rollout.spec import Grading
from lego_rl.rollout.trial import grades_of
from lego_rl.sandbox.codec import patch_to_json, verdict_to_json
from lego_rl.sandbox.grading import GradingStartError
from lego_rl.sandbox.limits import LimitHits
from lego_rl.sandbox.loss import Loss, LossCause
from lego_rl.sandbox.sandbox import Completed
from lego_rl.sandbox.verdict import Change, GradingEnd, Patch, Verdict


def test_a_failure_after_the_verdict_changes_nothing() -> None:
    for kind in (SandboxError, KeyError, OSError):
        assert ended(worked(), GRADED, failure(kind)) == (Ended.FINISHED, 1)


def test_an_engine_that_failed_last_is_the_infrastructures_whatever_the_verdict() -> None:
    done = worked(script=down, completed=Completed(1, "", ""))
    assert isinstance(done.session.failure, EngineError)
    assert ended(done, Grades(Patch(), Verdict(0)), None) == (Ended.ENGINE_FAILED, None)


def test_an_answer_that_nobody_foresaw_masks_nothing_for_the_agent_may_have_brought_it_out() -> None:
    done = worked(script=at_fault, completed=Completed(1, "", ""))
    assert isinstance(done.session.failure, KeyError)
    assert ended(done, GRADED, None) == (Ended.UNATTRIBUTED_AFTER, 1)
    assert ended(done, PATCH, failure(SandboxError)) == (Ended.UNATTRIBUTED_AFTER, 0)
    assert "KeyError: 'a bug'" in told(done, GRADED, None)
    assert may_be_short(done, GRADED, None)
    few = Inspection(Shortage("handles", "this process has 1024 of at most 1024 files open"))
    assert ended(done, GRADED, None, few) == (Ended.HOST_OUT_OF_HANDLES, None)


def test_an_engine_whose_answers_contradict_themselves_has_failed() -> None:
    done = worked()
    done.captured, done.capture_error = None, CaptureError("one row is missing")
    assert ended(done, GRADED, None) == (Ended.CAPTURE_FAILED, None)


def never(prompt: Sequence[int], sampling: Sampling) -> Reply:
    """What an engine that hangs comes to: the call is never answered."""
    raise asyncio.CancelledError


def test_a_call_without_an_answer_is_the_engines_only_where_it_does_not_answer_a_probe_either() -> None:
    done = worked(script=never, completed=Completed(1, "", ""))
    assert done.session.unanswered
    assert ended(done, GRADED, None) == (Ended.HARNESS_ERROR, 1)
    assert ended(done, GRADED, None, SILENT) == (Ended.ENGINE_SILENT, None)
    assert not worked().session.unanswered


def test_a_listener_that_was_lost_is_the_infrastructures() -> None:
    done = worked(completed=Completed(1, "", ""))
    done.gateway_lost = OSError("no socket")
    assert ended(done, GRADED, None) == (Ended.GATEWAY_LOST, None)
    assert "no socket" in told(done, GRADED, None)


@pytest.mark.parametrize("cause", LossCause)
def test_who_took_a_sandbox_away_is_told_by_the_hosts_evidence_alone(cause: LossCause) -> None:
    done = worked(completed=Completed(137, "", "", died=True, loss=Loss(cause, "the host saw it")))
    for grades in (GRADED, Grades(Patch(), Verdict(0), LimitHits(memory=3, disk=True))):
        assert ended(done, grades, None) == (LOSSES[cause], None)
        assert "the host saw it" in told(done, grades, None)


def test_how_the_harness_ended_is_read_from_the_host_alone() -> None:
    ends = {
        Completed(0, "", ""): Ended.FINISHED,
        Completed(1, "", ""): Ended.HARNESS_ERROR,
        Completed(139, "", ""): Ended.HARNESS_KILLED,
        Completed(137, "", "", timed_out=True): Ended.AGENT_TIMEOUT,
        Completed(137, "", "", died=True): Ended.SANDBOX_LOST,
    }
    for completed, row in ends.items():
        assert ended(worked(completed=completed), GRADED, None) == (row, 1)


@given(
    kind=st.text(max_size=12) | st.sampled_from(["SandboxError", "OSError", "KeyError", "VerifierTimeoutError"]),
    message=st.text(max_size=1000),
    grades=st.sampled_from([Grades(), PATCH, GRADED, Grades(Patch(), Verdict(0), LimitHits(3, unmeasured=True))]),
)
def test_no_failure_after_the_start_masks_a_trial_unless_the_grading_sandbox_could_not_be_built(
    kind: str, message: str, grades: Grades
) -> None:
    problem = Failure(kind, message, "")
    agent = agent_evidence(DONE, grades, problem)
    host = host_evidence(DONE, grades, problem, NOTHING_FOUND)
    row = classify(host, agent, Grading.FRESH)
    assert not row.is_masked
    detail = detail_of(row, host, DONE, grades, problem)
    assert detail.startswith(row.meaning)
    assert len(detail) <= DETAIL_CHARS
    assert "\n" not in detail
    detail.encode()


DONE = worked()


KILLED = worked(completed=Completed(137, "", "", died=True))
UNMEASURED = Grades(Patch(), Verdict(0), LimitHits(unmeasured=True))


def test_a_sandbox_that_could_not_be_measured_is_graded_unless_the_host_has_run_out() -> None:
    assert ended(KILLED, UNMEASURED, None) == (Ended.LIMITS_UNMEASURED, 0)
    assert may_be_short(KILLED, UNMEASURED, None)
    assert ended(KILLED, UNMEASURED, None, NO_MEMORY) == (Ended.HOST_OUT_OF_MEMORY, None)
    assert told(KILLED, UNMEASURED, None).endswith("its limits could not be measured")


def test_a_kill_for_memory_is_the_policys_unless_the_host_has_none_left_without_the_trial() -> None:
    grades = Grades(Patch(), Verdict(0), LimitHits(memory=1))
    for completed in (Completed(137, "", "", died=True), Completed(137, "", "")):
        done = worked(completed=completed)
        assert may_be_short(done, grades, None)
        assert ended(done, grades, None) == (Ended.OUT_OF_MEMORY, 0)
        assert ended(done, grades, None, NO_MEMORY) == (Ended.HOST_OUT_OF_MEMORY, None)


def test_a_shortage_is_no_reason_where_the_harness_had_ended_or_hit_its_limit() -> None:
    assert not may_be_short(worked(), UNMEASURED, None)
    assert ended(worked(), UNMEASURED, None) == (Ended.FINISHED, 0)
    full = Grades(Patch(), Verdict(0), LimitHits(disk=True))
    assert not may_be_short(KILLED, full, None)
    assert ended(KILLED, full, None) == (Ended.OUT_OF_DISK, 0)


def test_the_detail_names_the_limits_that_were_hit() -> None:
    grades = Grades(Patch(), Verdict(0), LimitHits(memory=2, disk=True))
    assert told(DONE, grades, None).endswith("it ran into its limit of memory, disk")


def test_a_change_of_which_a_part_is_left_out_for_its_size_is_told_apart() -> None:
    assert ended(worked(), Grades(Patch(too_large=True), Verdict(1)), None) == (Ended.PATCH_TOO_LARGE, 1)
    assert ended(worked(), Grades(Patch(dropped={".git": "git directory"}), Verdict(1)), None) == (Ended.FINISHED, 1)


ENDS_OF_GRADING: dict[GradingEnd, Ended] = {
    "completed": Ended.FINISHED,
    "not_applied": Ended.PATCH_NOT_APPLIED,
    "timed_out": Ended.VERIFIER_TIMEOUT,
    "died": Ended.VERIFIER_CRASHED,
    "no_report": Ended.NO_VERDICT,
    "invalid_reward": Ended.NO_VERDICT,
}


@pytest.mark.parametrize("end", get_args(GradingEnd.__value__))
def test_how_grading_ended_decides_before_how_the_agent_did(end: GradingEnd) -> None:
    assert ended(worked(), Grades(Patch(), Verdict(0, ended=end)), None) == (ENDS_OF_GRADING[end], 0)


CONTENT = {
    "patch.json": patch_to_json(Patch((Change("a.py", "file", b"x"),))),
    "verdict.json": verdict_to_json(Verdict(1, {"t": "passed"})),
    "limits.json": '{"hits": {"memory": 2}}',
}


@pytest.mark.parametrize("name", sorted(CONTENT))
@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", "[" * 100_000, "\udcff"])
@pytest.mark.parametrize("before", [None, failure("OSError")])
def test_a_file_of_the_verifier_that_cannot_be_read_is_nobodys_doing(
    tmp_path: Path, name: str, text: str, before: Failure | None
) -> None:
    (tmp_path / "verifier").mkdir()
    for file, content in (CONTENT | {name: text}).items():
        (tmp_path / "verifier" / file).write_bytes(content.encode("utf-8", "surrogateescape"))
    grades, problem = grades_of(tmp_path, before)
    assert grades == Grades()
    assert problem is not None
    assert ended(worked(), grades, problem) == (Ended.UNATTRIBUTED_AFTER, 0)
    assert problem.message.startswith("OSError: something; " if before else "the verifier's files")


def test_what_the_verifier_wrote_is_read(tmp_path: Path) -> None:
    assert grades_of(tmp_path, failure("OSError")) == (Grades(), failure("OSError"))
    (tmp_path / "verifier").mkdir()
    for file, content in CONTENT.items():
        (tmp_path / "verifier" / file).write_text(content)
    grades, problem = grades_of(tmp_path, None)
    assert (grades.verdict, grades.limit_hits, problem) == (Verdict(1, {"t": "passed"}), LimitHits(memory=2), None)


@pytest.mark.parametrize("kind", [OSError, SandboxError, GradingStartError, UnreadableGradesError])
@pytest.mark.parametrize("grades", [Grades(), PATCH])
def test_a_failure_on_a_host_that_has_run_out_is_the_infrastructures(kind: type[Exception], grades: Grades) -> None:
    assert ended(worked(), grades, failure(kind), FULL) == (Ended.HOST_DISK_FULL, None)
    assert "the disk is full" in told(DONE, grades, failure(kind), FULL)


def test_a_shortage_takes_nothing_from_a_trial_that_it_did_not_hurt() -> None:
    for grades, error, found in (
        (GRADED, failure("OSError"), (Ended.FINISHED, 1)),
        (PATCH, failure(VerifierTimeoutError), (Ended.VERIFIER_TIMEOUT, 0)),
    ):
        assert not may_be_short(worked(), grades, error), "so nobody looks for one"
        assert ended(worked(), grades, error) == found


def test_an_error_of_a_full_disk_is_no_evidence_of_one() -> None:
    full = Failure("OSError", "[Errno 28] No space left on device", "trace")
    assert ended(worked(), Grades(), full) == (Ended.NO_SNAPSHOT, 0)


@pytest.mark.parametrize(("prompts", "row"), [((9, 1_000, 9), Ended.FINISHED), ((9, 1_000), Ended.CONTEXT_BUDGET)])
def test_a_budget_counts_only_where_it_ended_the_session(prompts: tuple[int, ...], row: Ended) -> None:
    gateway = Gateway(ScriptedEngine(lambda prompt, sampling: ANSWER), TEMPLATE, tool_call_parser("qwen3_coder"))
    session = gateway.open(Budget(context_tokens=500), temperature=1.0)
    bundle = HarnessBundle("claude-code", "1", "", Path("/nowhere"), 0, "")
    done = LiveTrial(gateway, session, registry.make("claude-code"), bundle, "policy", began=True)
    done.completed = Completed(0, "", "")

    async def ask(words: int) -> None:
        exchange = await session.admit(Request((Message("user", "mend " * words),), ()))
        await exchange.answer()

    async def overflow_and_perhaps_compact() -> None:
        for words in prompts:
            if words < 500:
                await ask(words)
            else:
                with pytest.raises(ContextOverflow):
                    await ask(words)
        await done.close()

    asyncio.run(overflow_and_perhaps_compact())
    assert done.session.requests == len(prompts)
    assert ended(done, GRADED, None) == (row, 1)
    assert ("context budget" in told(done, GRADED, None)) == (row is Ended.CONTEXT_BUDGET)
