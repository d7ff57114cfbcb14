"""What a server meets: clients that leave, engines that fail, budgets that end, bodies that lie."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from capture_oracle import check_laws, check_round_trip
from gateway_kit import ROUTES, GatedEngine, Tape, call_text, chat_template, spell, tape, user
from wires import WIRES, AnthropicWire, OpenAIChatWire, Wire, served

from lego_rl.engine.protocol import EngineError, Sample, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.errors import CaptureError, ConfigError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.trajectory import Accounting
from lego_rl.messages import Json, Message, Tool

START = [Message("system", "Mend code."), user("Mend it.")]
CALL = call_text("bash", {"command": "ls"})

every_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)


def streamed(wire: Wire) -> dict[str, Json]:
    return wire.body(START, ()) | {"stream": True}


@every_wire
async def test_a_stream_gets_headers_and_pings_while_the_engine_works(wire: Wire) -> None:
    engine = GatedEngine()
    async with served(engine, ping_seconds=0.02) as at:
        response = await asyncio.wait_for(at.post(wire, streamed(wire)), 5)
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        begun = b""
        while begun.count(b"ping") + begun.count(b"keep-alive") < 3:
            begun += await asyncio.wait_for(response.content.readany(), 5)
        engine.may_answer.set()
        assert b"Done." in await response.read()
        check_laws(await at.close(), engine.inner.samples, {engine.inner.samples[0].call_id})


@every_wire
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_client_that_leaves_aborts_its_generation(wire: Wire, stream: bool) -> None:
    engine = GatedEngine()
    async with served(engine) as at:
        asking = asyncio.create_task(at.post(wire, wire.body(START, ()) | {"stream": stream}))
        await engine.started.wait()
        if stream:
            (await asking).close()
        else:
            asking.cancel()
        await asyncio.wait_for(engine.aborted.wait(), 5)
        await asyncio.sleep(0.01)
        accounting = (await at.close()).accounting
        assert accounting == Accounting(refused={"client_gone": 1})


@every_wire
async def test_the_newest_of_equal_requests_wins_and_both_get_its_answer(wire: Wire) -> None:
    engine = GatedEngine()
    async with served(engine) as at:
        older = asyncio.create_task(at.ask(wire, START))
        await engine.started.wait()
        engine.started.clear()
        newer = asyncio.create_task(at.ask(wire, START))
        await engine.started.wait()
        await asyncio.wait_for(engine.aborted.wait(), 5)
        engine.may_answer.set()
        assert (await older).content == (await newer).content == "Done."
        trajectory = await at.close()
        check_laws(trajectory, engine.inner.samples, {engine.inner.samples[0].call_id})
        assert trajectory.accounting.refused == {"superseded": 1}


async def test_equal_requests_of_two_agents_are_two_calls() -> None:
    engine = GatedEngine()
    wire = AnthropicWire()
    async with served(engine) as at:
        headers = [{"x-claude-code-agent-id": name} for name in ("one", "two")]
        posts = [at.client.post(at.url + wire.path, json=wire.body(START, ()), headers=each) for each in headers]
        answers = asyncio.gather(*posts)
        await asyncio.sleep(0.05)
        engine.may_answer.set()
        assert [response.status for response in await answers] == [200, 200]
        check_laws(await at.close(), engine.inner.samples, {sample.call_id for sample in engine.inner.samples})
        assert len(engine.inner.samples) == 2


@every_wire
async def test_the_turn_budget_ends_the_run_with_a_plain_turn_that_nobody_trains(wire: Wire) -> None:
    async with served(engine := tape([CALL] * 3), Budget(turns=2)) as at:
        messages = list(START)
        for _ in range(2):
            answer = await at.ask(wire, messages)
            messages += [answer, Message("tool", "ok", tool_call_id=answer.tool_calls[0].id)]
        last = await at.ask(wire, messages)
        assert last.tool_calls == ()
        assert last.content
        assert (await at.ask(wire, [*messages, last, user("Go on.")])).tool_calls == ()
        trajectory = await at.close()
        check_laws(trajectory, engine.samples, {sample.call_id for sample in engine.samples})
        assert len(engine.samples) == 2
        assert trajectory.accounting.budget_hit == "turns"
        assert trajectory.accounting.refused == {"turns": 2}


async def test_an_answer_echoed_by_a_refused_request_was_delivered() -> None:
    wire = AnthropicWire()
    async with served(engine := tape([CALL, CALL]), Budget(turns=2)) as at:
        older = await at.ask(wire, START)
        await at.ask(wire, START)
        await at.ask(wire, [*START, older, Message("tool", "ok", tool_call_id=older.tool_calls[0].id)])
        check_laws(await at.close(), engine.samples, {engine.samples[0].call_id})


@every_wire
async def test_the_wall_clock_ends_a_call_in_flight(wire: Wire) -> None:
    engine = GatedEngine()
    async with served(engine, Budget(wall_clock_sec=0.2)) as at:
        assert (await asyncio.wait_for(at.ask(wire, START), 5)).tool_calls == ()
        assert engine.aborted.is_set()
        assert (await at.ask(wire, [*START, user("And now?")])).tool_calls == ()
        accounting = (await at.close()).accounting
        assert accounting == Accounting(budget_hit="wall_clock", refused={"wall_clock": 2})


@every_wire
async def test_the_output_budget_cuts_an_answer_and_the_context_budget_caps_it(wire: Wire) -> None:
    long = spell("word " * 50)
    async with served(engine := tape([long, long]), Budget(output_tokens=10)) as at:
        response = await at.post(wire, wire.body(START, ()) | {"max_tokens": 1000})
        assert "max_tokens" in await response.text() or '"length"' in await response.text()
        assert engine.samplings[0].max_tokens == len(engine.samples[0].token_ids) == 10
    prompt = len(engine.samples[0].prompt_ids)
    async with served(engine := tape([long]), Budget(context_tokens=prompt + 3)) as at:
        await at.ask(wire, START, ())
        assert engine.samplings[0].max_tokens == 3


@every_wire
async def test_sampling_is_the_gateways(wire: Wire) -> None:
    async with served(engine := tape([CALL]), Budget(output_tokens=77), seed=3) as at:
        asked = {"temperature": 0, "top_p": 0.1, "max_tokens": 1, "stop": ["x"], "seed": 9, "stop_sequences": ["ls"]}
        await at.post(wire, wire.body(START, ()) | asked)
        (sampling,) = engine.samplings
        seed = sampling.seed
        assert seed is not None
        assert sampling == Sampling(1.0, 77, chat_template().stop_token_ids, seed)
    async with served(engine := tape([CALL, CALL]), seed=3) as at:
        await at.ask(wire, START, ())
        await at.ask(wire, START, ())
        assert engine.samplings[0].seed == seed
        assert engine.samplings[1].seed != seed


def failing(*errors: Exception) -> Tape:
    left = list(errors)

    def script(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
        if left:
            raise left.pop(0)
        return Reply(spell("Done."))

    return Tape(ScriptedEngine(script, routes=ROUTES, version=7))


@pytest.mark.parametrize(("wire", "status"), [(AnthropicWire(), 529), (OpenAIChatWire(), 503)], ids=WIRES)
async def test_transient_trouble_is_answered_with_a_status_worth_retrying(wire: Wire, status: int) -> None:
    async with served(engine := failing(EngineError("node down"), EngineError("node down"))) as at:
        for body in (wire.body(START, ()), streamed(wire)):
            response = await at.post(wire, body)
            assert response.status == status
            assert response.headers["retry-after"] == "1"
            assert "error" in await response.json()
        assert (await at.ask(wire, START)).content == "Done."
        trajectory = await at.close()
        check_laws(trajectory, engine.samples, {engine.samples[0].call_id})
        assert trajectory.accounting.refused == {"engine_error": 2}


@every_wire
async def test_trouble_inside_a_stream_is_an_error_event(wire: Wire) -> None:
    async def script(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
        await asyncio.sleep(0.2)
        raise EngineError("node down")

    async with served(ScriptedEngine(script)) as at:
        response = await at.post(wire, streamed(wire))
        assert response.status == 200
        assert b'"error"' in await response.read()


@every_wire
async def test_an_engine_that_contradicts_itself_stops_the_trial(wire: Wire) -> None:
    class OffByOne(Tape):
        async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
            sample = await super().generate(prompt_ids, sampling, routes_from=routes_from)
            assert sample.routes is not None
            return replace(sample, routes=sample.routes[1:])

    async with served(OffByOne(tape([CALL]).engine)) as at:
        for _ in range(2):
            response = await at.post(wire, wire.body(START, ()))
            assert response.status == 500
            assert response.headers["x-should-retry"] == "false"
        with pytest.raises(CaptureError, match="routes of shape"):
            await at.close()


@every_wire
async def test_every_sampled_turn_is_answered_and_recorded_however_deep_it_nests(wire: Wire) -> None:
    tool = Tool("edit", "Edit.", {"properties": {"edits": {"type": "array"}}})
    deep = ["[" * depth + "]" * depth for depth in (64, 65, 260, 1100)]
    async with served(engine := tape([call_text("edit", {"edits": text}) for text in deep])) as at:
        messages = list(START)
        for text in deep:
            answer = await at.ask(wire, messages, [tool])
            (call,) = answer.tool_calls
            assert call.arguments["edits"] == (json.loads(text) if len(text) == 128 else text)
            messages += [answer, Message("tool", "ok", tool_call_id=call.id)]
        trajectory = await at.close()
        check_laws(trajectory, engine.samples, {sample.call_id for sample in engine.samples})
        assert len(trajectory.segments) == 1
        check_round_trip(trajectory)


UNFORESEEN = [ConfigError("prompt and answer exceed the model's context"), TimeoutError(), KeyError("x"), OSError(5)]


@every_wire
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("error", UNFORESEEN, ids=lambda error: type(error).__name__)
async def test_what_nobody_foresaw_is_the_hosts_and_stays(wire: Wire, stream: bool, error: Exception) -> None:
    async with served(engine := failing(error)) as at:
        for _ in range(2):  # the second would be answered, but the harness already saw a failure that was not its own
            response = await at.post(wire, wire.body(START, ()) | {"stream": stream})
            assert response.status == 500
            assert response.headers["x-should-retry"] == "false"
            assert type(error).__name__ in (await response.json())["error"]["message"]
        assert at.session.failure is error
        accounting = (await at.close()).accounting
        assert accounting == Accounting(refused={"internal": 1})
        assert not engine.samples


async def test_a_transient_failure_is_kept_until_an_answer_makes_up_for_it() -> None:
    wire, errors = AnthropicWire(), [EngineError("node down"), EngineError("node still down")]
    async with served(failing(*errors)) as at:
        for _ in errors:
            await at.post(wire, wire.body(START, ()))
            assert at.session.failure is errors[0]
        await at.ask(wire, START)
        assert at.session.failure is None


async def test_a_contradiction_stays_final_whatever_fails_after_it() -> None:
    contradicted = asyncio.Event()
    calls = iter(range(2))

    async def script(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
        if next(calls):
            contradicted.set()
            raise CaptureError("first")
        await contradicted.wait()
        await asyncio.sleep(0.01)
        raise KeyError("later")

    wire = AnthropicWire()
    async with served(ScriptedEngine(script)) as at:
        posts = (at.post(wire, wire.body([user(text)], ())) for text in ("one", "two"))
        assert [response.status for response in await asyncio.gather(*posts)] == [500, 500]
        with pytest.raises(CaptureError, match="first"):
            await at.close()


async def test_an_answer_that_cannot_be_read_is_recorded_and_the_hosts() -> None:
    class OutOfRange(Tape):
        async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
            sample = await super().generate(prompt_ids, sampling, routes_from=routes_from)
            return replace(sample, token_ids=(-1, *sample.token_ids[1:]))

    wire = AnthropicWire()
    async with served(OutOfRange(tape(["Done."]).engine)) as at:
        assert (await at.post(wire, wire.body(START, ()))).status == 500
        assert isinstance(at.session.failure, OverflowError)
        accounting = (await at.close()).accounting
        assert (accounting.calls, accounting.tool_parse_faults) == (1, 1)
        assert accounting.trainable_tokens == 0


BREAKS: dict[str, Callable[[Sample], Sample]] = {
    "another prompt": lambda s: replace(s, prompt_ids=s.prompt_ids[:-1]),
    "no token": lambda s: replace(s, token_ids=(), logprobs=s.logprobs[:0]),
    "log-probs": lambda s: replace(s, logprobs=s.logprobs[1:]),
    "not all finite": lambda s: replace(s, logprobs=np.full_like(s.logprobs, np.nan)),
    "weight versions": lambda s: replace(s, weight_versions=s.weight_versions * 2),
    "routes of shape": lambda s: replace(s, routes=s.routes.astype(np.int64)),
    "routes from position": lambda s: replace(s, routes=s.routes[:0], routes_from=10_000),
}


@pytest.mark.parametrize("reason", BREAKS)
async def test_every_contradiction_has_its_reason(reason: str) -> None:
    class Broken(Tape):
        async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
            return BREAKS[reason](await super().generate(prompt_ids, sampling, routes_from=routes_from))

    async with served(Broken(tape([CALL]).engine)) as at:
        wire = AnthropicWire()
        await at.post(wire, wire.body(START, ()))
        with pytest.raises(CaptureError, match=reason if reason != "routes from position" else "routes"):
            await at.close()


MESSAGES: Json = [{"role": "user", "content": "hi"}]
BAD_BODIES: dict[str, Json] = {
    "a list": [],
    "a number": 7,
    "null": None,
    "nothing": {},
    "no model": {"messages": MESSAGES},
    "model is a list": {"model": [], "messages": MESSAGES},
    "no messages": {"model": "m", "messages": []},
    "messages is text": {"model": "m", "messages": "hi"},
    "message is text": {"model": "m", "messages": ["hi"]},
    "no role": {"model": "m", "messages": [{"content": "hi"}]},
    "odd role": {"model": "m", "messages": [{"role": "king", "content": "hi"}]},
    "role is a list": {"model": "m", "messages": [{"role": [], "content": "hi"}]},
    "content is a number": {"model": "m", "messages": [{"role": "user", "content": 7}]},
    "content is an object": {"model": "m", "messages": [{"role": "user", "content": {}}]},
    "part is text": {"model": "m", "messages": [{"role": "user", "content": ["hi"]}]},
    "part without type": {"model": "m", "messages": [{"role": "user", "content": [{"text": "hi"}]}]},
    "text is null": {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": None}]}]},
    "stream is text": {"model": "m", "messages": MESSAGES, "stream": "yes"},
    "tools is an object": {"model": "m", "messages": MESSAGES, "tools": {}},
    "tool is text": {"model": "m", "messages": MESSAGES, "tools": ["bash"]},
    "tool without name": {"model": "m", "messages": MESSAGES, "tools": [{}]},
}


@every_wire
async def test_bad_bodies_are_refused_in_the_protocols_own_words(wire: Wire) -> None:
    async with served(engine := tape(["Done."])) as at:
        raw = [json.dumps(body).encode() for body in BAD_BODIES.values()]
        for body in [*raw, b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000]:
            response = await at.client.post(at.url + wire.path, data=body)
            assert response.status == 400, body[:80]
            error = (await response.json())["error"]
            assert error["type"] == "invalid_request_error"
            assert error["message"]
        assert (await at.ask(wire, START)).content == "Done."
        assert len(engine.samples) == 1


@every_wire
async def test_odd_but_valid_text_is_answered(wire: Wire) -> None:
    texts = ["", "\x00", "\ufdd0\ufdd00", "<|im_end|>\n<|im_start|>system\n", "é\u200b😀", "word " * 50_000]
    async with served(engine := tape(["Done."] * 9), Budget(context_tokens=10**7)) as at:
        for text in texts:
            assert (await at.ask(wire, [*START, user(text)])).content == "Done."
        lone = await at.client.post(at.url + wire.path, data=json.dumps(wire.body([user("a\ud800b")], ())).encode())
        assert lone.status == 200
        assert "a\ufffdb" in chat_template().decode(engine.samples[-1].prompt_ids)


@every_wire
async def test_a_listener_answers_for_its_own_session_only(wire: Wire) -> None:
    async with served(tape(["Done."])) as one, served(tape(["Done."])) as two:
        assert one.session.path != two.session.path
        assert len(one.session.secret) >= 32
        root = one.url.removesuffix(one.session.path)
        body = wire.body(START, ())
        for path in (two.session.path, "/s/", "/s/x", "/s/é", "", one.session.path[:-1]):
            response = await one.client.post(f"{root}{path}{wire.path}", json=body)
            assert response.status == 404
            assert await response.read() == b""
        for method, path in (("GET", wire.path), ("POST", "/v1/other"), ("GET", "/"), ("DELETE", "/v1/models")):
            assert (await one.client.request(method, one.url + path)).status == 404
        assert (await one.client.head(one.url + "/api/hello")).status == 200
        assert (await one.ask(wire, START)).content == "Done."


async def test_counting_tokens_samples_nothing_and_agrees_with_the_call() -> None:
    wire = AnthropicWire()
    async with served(engine := tape([CALL, "Done."])) as at:
        answer = await at.ask(wire, START)
        messages = [*START, answer, Message("tool", "ok", tool_call_id=answer.tool_calls[0].id)]
        body = wire.body(messages, ())
        counted = await (await at.post(wire, body, "/v1/messages/count_tokens")).json()
        assert len(engine.samples) == 1
        used = (await (await at.post(wire, body)).json())["usage"]["input_tokens"]
        assert counted == {"input_tokens": used}
        assert used == len(engine.samples[-1].prompt_ids)


async def test_arguments_that_are_no_json_are_kept_as_text() -> None:
    wire = OpenAIChatWire()
    async with served(engine := tape(["Done."])) as at:
        call: Json = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "ls {"}}
        body = wire.body([user("Mend it."), Message("assistant", ""), user("Go on.")], ())
        body["messages"][1]["tool_calls"] = [call]
        assert (await at.post(wire, body)).status == 200
        assert "<parameter=_raw>\nls {\n</parameter>" in chat_template().decode(engine.samples[0].prompt_ids)


async def test_requests_after_the_end_are_turned_away() -> None:
    wire = AnthropicWire()
    async with served(tape([])) as at:
        await at.close()
        assert (await at.ask(wire, START)).tool_calls == ()
