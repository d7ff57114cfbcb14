"""What a trial left behind, sorted into evidence: by where it failed and as what, never by what it says."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.engine.protocol import EngineError, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.errors import CaptureError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call import Request
from lego_rl.gateway.refusals import ContextOverflow
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.harness import registry
from lego_rl.harness.base import HarnessBundle
from lego_rl.messages import Message
from lego_rl.rollout.agent import LiveTrial
from lego_rl.rollout.evidence import DETAIL_CHARS, conduct_of, detail_of, host_evidence, may_be_short
from lego_rl.rollout.faults import Ended, Treatment, classify, reward_of
from lego_rl.rollout.harbor_trial import Failure, Grades
from lego_rl.rollout.spec import Grading
from lego_rl.rollout.trial import grades_of
from lego_rl.sandbox.codec import patch_to_json, verdict_to_json
from lego_rl.sandbox.limits import LimitHits
from lego_rl.sandbox.sandbox import Completed
from lego_rl.sandbox.verdict import Change, Patch, Verdict

POLICY = Path(__file__).parents[3] / "src" / "lego_rl" / "policies" / "demo"
TEMPLATE = ChatTemplate.load(POLICY)
ANSWER = Reply([TEMPLATE.end_of_turn])
PATCH = Grades(patch=Patch())
GRADED = Grades(Patch(), Verdict(1))


def down(prompt: Sequence[int], sampling: Sampling) -> Reply:
    raise EngineError("down")


def work(
    *,
    began: bool = True,
    sandbox_started: bool = True,
    completed: Completed | None = None,
    script: Callable[..., Reply],
) -> LiveTrial:
    """A trial's work after one request."""
    gateway = Gateway(ScriptedEngine(script), TEMPLATE, tool_call_parser("qwen3_coder"))
    session = gateway.open(Budget(), temperature=1.0)
    made = LiveTrial(
        gateway=gateway,
        session=session,
        harness=registry.make("claude-code"),
        bundle=HarnessBundle("claude-code", "1", "", Path("/nowhere"), 0, ""),
        model="policy",
        sandbox_started=sandbox_started,
        began=began,
        completed=completed,
    )

    async def one_request() -> None:
        exchange = await session.admit(Request((Message("user", "hello"),), ()))
        await asyncio.gather(exchange.answer(), return_exceptions=True)
        await made.close()

    if began:
        asyncio.run(one_request())
    return made


def at_fault(prompt: Sequence[int], sampling: Sampling) -> Reply:
    raise KeyError("a bug")


def worked(**changes: object) -> LiveTrial:
    arguments = {"completed": Completed(0, "", ""), "script": lambda prompt, sampling: ANSWER} | changes
    return work(**arguments)  # type: ignore[arg-type]


def ended(
    done: LiveTrial, grades: Grades, failure: Failure | None, shortage: str | None = None
) -> tuple[Ended, int | None]:
    conduct = conduct_of(done, grades, failure, Grading.FRESH)
    row = classify(host_evidence(done, grades, failure, shortage), conduct)
    return row.ended, reward_of(row, conduct)


def failure(kind: str) -> Failure:
    return Failure(kind, "something", "trace")


@pytest.mark.parametrize("kind", ["SandboxError", "TaskError", "EnvironmentStartTimeoutError", "PermissionError"])
def test_what_fails_before_the_sandbox_stands_is_its_start(kind: str) -> None:
    assert ended(worked(began=False, sandbox_started=False), Grades(), failure(kind)) == (Ended.SANDBOX_START, None)


@pytest.mark.parametrize("kind", ["SandboxError", "TransferError", "AgentSetupTimeoutError", "OSError"])
def test_what_fails_before_the_harness_is_started_is_its_set_up(kind: str) -> None:
    assert ended(worked(began=False), Grades(), failure(kind)) == (Ended.SETUP_FAILED, None)


@pytest.mark.parametrize("kind", ["KeyError", "ValueError", "SomethingOfHarbors", "object", "Exception"])
def test_what_nobody_foresaw_is_unattributed(kind: str) -> None:
    assert ended(worked(began=False), Grades(), failure(kind)) == (Ended.UNATTRIBUTED_BEFORE, None)
    assert ended(worked(), Grades(), failure(kind)) == (Ended.UNATTRIBUTED_AFTER, 0)
    assert ended(worked(), PATCH, failure(kind)) == (Ended.UNATTRIBUTED_AFTER, 0)


def test_a_harness_that_was_never_started_without_any_failure_is_unattributed() -> None:
    assert ended(worked(began=False), Grades(), None) == (Ended.UNATTRIBUTED_BEFORE, None)


@pytest.mark.parametrize("kind", ["SandboxError", "OSError", "RunError"])
def test_a_file_tree_that_cannot_be_read_out_is_the_policys(kind: str) -> None:
    assert ended(worked(), Grades(), failure(kind)) == (Ended.NO_SNAPSHOT, 0)


def test_of_grading_only_a_sandbox_that_could_not_be_built_is_ours() -> None:
    assert ended(worked(), PATCH, failure("GradingStartError")) == (Ended.GRADING_START, None)
    assert ended(worked(), PATCH, failure("SandboxError")) == (Ended.UNGRADABLE, 0)
    assert ended(worked(), PATCH, failure("VerifierTimeoutError")) == (Ended.GRADING_TIMEOUT, 0)


def test_a_failure_after_the_verdict_changes_nothing() -> None:
    for kind in ("SandboxError", "KeyError", "OSError"):
        assert ended(worked(), GRADED, failure(kind)) == (Ended.FINISHED, 1)


def test_an_engine_that_failed_last_is_the_infrastructures_whatever_the_verdict() -> None:
    done = worked(script=down, completed=Completed(1, "", ""))
    assert isinstance(done.session.failure, EngineError)
    assert ended(done, Grades(Patch(), Verdict(0)), None) == (Ended.ENGINE_FAILED, None)


def test_an_answer_that_nobody_foresaw_masks_nothing_for_the_agent_may_have_brought_it_out() -> None:
    done = worked(script=at_fault, completed=Completed(1, "", ""))
    assert isinstance(done.session.failure, KeyError)
    assert ended(done, GRADED, None) == (Ended.UNATTRIBUTED_AFTER, 1)
    assert ended(done, PATCH, failure("SandboxError")) == (Ended.UNATTRIBUTED_AFTER, 0)
    host = host_evidence(done, GRADED, None, None)
    row = classify(host, conduct_of(done, GRADED, None, Grading.FRESH))
    assert "KeyError: 'a bug'" in detail_of(row, host, done, GRADED, None)
    assert may_be_short(done, GRADED, None)
    assert ended(done, GRADED, None, "this process has 1024 of at most 1024 files open") == (Ended.HOST_SHORTAGE, None)


def test_an_engine_whose_answers_contradict_themselves_has_failed() -> None:
    done = worked()
    done.trajectory, done.capture_error = None, CaptureError("one row is missing")
    assert ended(done, GRADED, None) == (Ended.ENGINE_FAILED, None)


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
    conduct = conduct_of(DONE, grades, problem, Grading.FRESH)
    host = host_evidence(DONE, grades, problem, None)
    row = classify(host, conduct)
    assert row.treatment is not Treatment.MASKED
    detail = detail_of(row, host, DONE, grades, problem)
    assert detail.startswith(row.meaning)
    assert len(detail) <= DETAIL_CHARS
    assert "\n" not in detail
    detail.encode()


DONE = worked()


KILLED = worked(completed=Completed(137, "", "", died=True))
UNMEASURED = Grades(Patch(), Verdict(0), LimitHits(unmeasured=True))


def test_a_sandbox_that_could_not_be_measured_is_graded_unless_the_host_has_run_out() -> None:
    assert ended(KILLED, UNMEASURED, None) == (Ended.SANDBOX_LOST, 0)
    assert may_be_short(KILLED, UNMEASURED, None)
    assert ended(KILLED, UNMEASURED, None, "no memory") == (Ended.HOST_SHORTAGE, None)
    host = host_evidence(KILLED, UNMEASURED, None, None)
    row = classify(host, conduct_of(KILLED, UNMEASURED, None, Grading.FRESH))
    assert detail_of(row, host, KILLED, UNMEASURED, None).endswith("its limits could not be measured")


def test_a_shortage_is_no_reason_where_the_harness_had_ended_or_hit_its_limit() -> None:
    assert not may_be_short(worked(), UNMEASURED, None)
    assert ended(worked(), UNMEASURED, None, "no memory") == (Ended.FINISHED, 0)
    full = Grades(Patch(), Verdict(0), LimitHits(disk=True))
    assert not may_be_short(KILLED, full, None)
    assert ended(KILLED, full, None, "no memory") == (Ended.SANDBOX_LOST, 0)


def test_the_detail_names_the_limits_that_were_hit() -> None:
    grades = Grades(Patch(), Verdict(0), LimitHits(memory=2, disk=True))
    host = host_evidence(DONE, grades, None, None)
    row = classify(host, conduct_of(DONE, grades, None, Grading.FRESH))
    assert detail_of(row, host, DONE, grades, None).endswith("it ran into its limit of memory, disk")


CONTENT = {
    "patch.json": patch_to_json(Patch((Change("a.py", "file", b"x"),))),
    "verdict.json": verdict_to_json(Verdict(1, {"t": "passed"})),
    "limits.json": '{"hits": {"memory": 2}}',
}


@pytest.mark.parametrize("name", sorted(CONTENT))
@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", "[" * 100_000, "\udcff"])
@pytest.mark.parametrize("before", [None, failure("OSError")])
def test_a_file_of_the_verifier_that_cannot_be_read_is_nobodys_conduct(
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


@pytest.mark.parametrize("kind", ["OSError", "SandboxError", "GradingStartError", "UnreadableGradesError"])
@pytest.mark.parametrize("grades", [Grades(), PATCH])
def test_a_failure_on_a_host_that_has_run_out_is_the_infrastructures(kind: str, grades: Grades) -> None:
    assert ended(worked(), grades, failure(kind), "the disk is full") == (Ended.HOST_SHORTAGE, None)
    host = host_evidence(DONE, grades, failure(kind), "the disk is full")
    row = classify(host, conduct_of(DONE, grades, failure(kind), Grading.FRESH))
    assert "the disk is full" in detail_of(row, host, DONE, grades, failure(kind))


def test_a_shortage_takes_nothing_from_a_trial_that_it_did_not_hurt() -> None:
    assert ended(worked(), GRADED, failure("OSError"), "the disk is full") == (Ended.FINISHED, 1)
    assert ended(worked(), PATCH, failure("VerifierTimeoutError"), "no memory") == (Ended.GRADING_TIMEOUT, 0)


def test_an_error_of_a_full_disk_is_no_evidence_of_one() -> None:
    full = Failure("OSError", "[Errno 28] No space left on device", "trace")
    assert ended(worked(), Grades(), full) == (Ended.NO_SNAPSHOT, 0)


@pytest.mark.parametrize(("prompts", "row"), [((9, 1_000, 9), Ended.FINISHED), ((9, 1_000), Ended.BUDGET_EXHAUSTED)])
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
    host = host_evidence(done, GRADED, None, None)
    detail = detail_of(classify(host, conduct_of(done, GRADED, None, Grading.FRESH)), host, done, GRADED, None)
    assert ("context" in detail) == (row is Ended.BUDGET_EXHAUSTED)
