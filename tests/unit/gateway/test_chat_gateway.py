"""Sessions that a chat backend answers: in every wire format, with the budgets and faults of any other."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from gateway_kit import BASH, START, user
from hypothesis import given, settings
from hypothesis import strategies as st
from served import ChatServed, chat_served
from wire import Wire
from wires import every_form, every_wire, streamed

from lego_rl.engine.chat_protocol import ChatReply, ChatSampling, PromptRefusedError, PromptTooLongError
from lego_rl.engine.protocol import EngineError
from lego_rl.errors import RunError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call_log import read_calls
from lego_rl.gateway.refusals import FAREWELL
from lego_rl.gateway.store import load_segments
from lego_rl.gateway.transcript import Transcript
from lego_rl.gateway.transcript_store import CHAT_CALLS_FILE, read_transcript, write_transcript
from lego_rl.messages import Message, Tool, ToolCall

LS = Message("assistant", "Look.", (ToolCall("abc", "bash", {"command": "ls"}),), reasoning="Hm.")
DONE = Message("assistant", "Done.")


@dataclass
class Told:
    """A backend that says what it is told, or raises it."""

    left: list[Message | Exception]
    asked: list[tuple[tuple[Message, ...], ChatSampling]] = field(default_factory=list)
    prompt_tokens: int | None = 100
    answer_tokens: int | None = 7
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def answer(self, messages: Sequence[Message], tools: Sequence[Tool], sampling: ChatSampling) -> ChatReply:
        self.asked.append((tuple(messages), sampling))
        self.arrived.release()
        await self.gate.wait()
        said = self.left.pop(0)
        if isinstance(said, Exception):
            raise said
        return ChatReply(
            f"c{len(self.asked)}",
            said,
            "stop",
            prompt_tokens=self.prompt_tokens,
            answer_tokens=self.answer_tokens,
            well_formed=all("_raw" not in call.arguments for call in said.tool_calls),
        )

    async def progressed(self) -> None:
        return


@asynccontextmanager
async def told(
    *said: Message | Exception, budget: Budget | None = None, log: Path | None = None, **changes: int | None
) -> AsyncIterator[tuple[ChatServed, Told]]:
    backend = Told(list(said), **changes)  # type: ignore[arg-type]
    backend.gate.set()
    async with chat_served(backend, budget, log=log) as at:
        yield at, backend


@every_form
async def test_a_conversation_is_answered_and_written_down(wire: Wire, tmp_path: Path) -> None:
    async with told(LS, DONE, log=tmp_path / "calls.log") as (at, backend):
        first = await at.ask(wire, START)
        assert (first.content, first.tool_calls) == ("Look.", LS.tool_calls)
        result = Message("tool", "a.py", tool_call_id="abc")
        assert (await at.ask(wire, [*START, first, result])).content == "Done."
        transcript = await at.close()
    assert [call.fate for call in transcript.calls] == ["delivered", "delivered"]
    assert [call.parent for call in transcript.calls] == [None, 0]
    assert [call.calls_tools for call in transcript.calls] == [True, False]
    (said,) = transcript.conversations
    assert [message.role for message in said][-3:] == ["assistant", "tool", "assistant"]
    assert transcript.tools == (BASH,)
    account = transcript.accounting
    assert (account.sampled_tokens, account.delivered_tokens, account.trainable_tokens) == (14, 14, 0)
    assert account.excluded == {"chat_backend": 14}
    assert [len(messages) for messages, _ in backend.asked] == [len(START), len(START) + 2]
    logged = list(read_calls(tmp_path / "calls.log"))
    assert [call.answer.content for call in logged] == ["Look.", "Done."]
    assert all(not len(call.token_ids) for call in logged)


async def test_a_transcript_is_kept_and_holds_nothing_to_train_on(tmp_path: Path) -> None:
    async with told(LS) as (at, _):
        await at.ask(every_wire_of("anthropic"), START)
        transcript = await at.close()
    write_transcript(transcript, tmp_path, harness="h", version="1", session_id="t")
    assert read_transcript(tmp_path) == transcript
    with pytest.raises(RunError):
        load_segments(tmp_path)
    assert not hasattr(transcript, "segments")
    (tmp_path / CHAT_CALLS_FILE).write_text('{"format": 1, "calls": [{}]}')
    with pytest.raises(RunError, match=CHAT_CALLS_FILE):
        read_transcript(tmp_path)


def every_wire_of(name: str) -> Wire:
    from wires import WIRES

    return WIRES[name]


@every_wire
async def test_what_the_endpoint_cannot_hold_is_the_context_budget(wire: Wire) -> None:
    async with told(PromptTooLongError("too long"), PromptTooLongError("too long")) as (at, _):
        response = await at.post(wire, wire.body(START, ()))
        assert response.status == 400
        assert "too long" in await response.text()
        late = await at.post(wire, streamed(wire))
        assert "too long" in await late.text()
        transcript = await at.close()
    assert transcript.accounting.budget_hit == "context"
    assert transcript.accounting.refused == {"context": 2}
    assert at.session.failure is None


@every_wire
async def test_an_endpoint_that_is_down_is_an_engine_that_is_down(wire: Wire) -> None:
    async with told(EngineError("down"), DONE) as (at, _):
        response = await at.post(wire, wire.body(START, ()))
        assert response.status in {503, 529}
        assert response.headers["retry-after"] == "1"
        assert isinstance(at.session.failure, EngineError)
        await at.ask(wire, START)
        assert at.session.failure is None


@every_wire
async def test_a_refused_conversation_is_no_fault_of_the_endpoint(wire: Wire) -> None:
    async with told(PromptRefusedError("not this")) as (at, _):
        response = await at.post(wire, wire.body(START, ()))
        assert response.status == 400
        assert at.session.failure is None
        transcript = await at.close()
    assert transcript.accounting.refused == {"prompt": 1}


async def test_the_budget_is_the_sessions() -> None:
    wire = every_wire_of("openai-chat")
    budget = Budget(turns=1, context_tokens=130, output_tokens=50)
    async with told(DONE, budget=budget) as (at, backend):
        first = await at.ask(wire, START)
        assert (await at.ask(wire, [*START, first, user("more")])).content == FAREWELL
        transcript = await at.close()
    assert len(backend.asked) == 1
    assert transcript.accounting.budget_hit == "turns"


async def test_the_context_is_counted_as_the_endpoint_counts_it() -> None:
    wire = every_wire_of("openai-chat")
    async with told(DONE, DONE, budget=Budget(context_tokens=150, output_tokens=60), prompt_tokens=120) as (
        at,
        backend,
    ):
        first = await at.ask(wire, START, ())
        response = await at.post(wire, wire.body([*START, first, user("x" * 200)], ()))
        assert response.status == 400, "120 prompt tokens, 7 answered, about 50 more"
        transcript = await at.close()
    assert backend.asked[0][1].max_tokens == 60
    assert transcript.accounting.budget_hit == "context"


async def test_a_malformed_call_is_counted_and_kept() -> None:
    wire = every_wire_of("openai-chat")
    broken = Message("assistant", "", (ToolCall("", "bash", {"_raw": "{"}),))
    async with told(broken) as (at, _):
        answer = await at.ask(wire, START)
        assert answer.tool_calls[0].id == "call_000001"
        transcript = await at.close()
    assert transcript.accounting.tool_parse_faults == 1


async def test_a_client_that_is_gone_hangs_up_on_the_endpoint_and_a_retry_supersedes() -> None:
    wire = every_wire_of("openai-chat")
    async with told(DONE) as (at, backend):
        backend.gate.clear()
        first = asyncio.create_task(at.ask(wire, START))
        await backend.arrived.acquire()
        again = asyncio.create_task(at.ask(wire, START))
        await backend.arrived.acquire()
        backend.gate.set()
        assert (await first).content == (await again).content == "Done."
        transcript = await at.close()
    assert transcript.accounting.calls == 1
    assert transcript.accounting.refused == {"superseded": 1}


@given(ids=st.lists(st.sampled_from(["", "a", "b", "call_000001", "x" * 99, "\n"]), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_every_tool_call_of_a_session_has_an_id_of_its_own(ids: list[str]) -> None:
    said = Message("assistant", "", tuple(ToolCall(each, "bash", {}) for each in ids))

    async def go() -> Transcript:
        async with told(said, replace(said, content="again")) as (at, _):
            for text in ("one", "two"):
                await at.ask(every_wire_of("openai-chat"), [user(text)])
            return await at.close()

    transcript = asyncio.run(go())
    given_ids = [call.id for said in transcript.conversations for message in said for call in message.tool_calls]
    assert len(set(given_ids)) == len(given_ids) == 2 * len(ids)
    assert all(json.dumps(each) and 0 < len(each) <= 64 for each in given_ids)
