"""Engines that fail for now, for good, or contradict themselves."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from anthropic_wire import AnthropicWire
from capture_oracle import check_laws
from gateway_kit import CALL, ROUTES, START, Tape, spell, tape, user
from served import served
from wire import Wire
from wires import WIRES, every_wire, streamed

from lego_rl.engine.protocol import EngineError, Sample, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.errors import CaptureError, ConfigError
from lego_rl.gateway.trajectory import Accounting


def failing(*errors: Exception) -> Tape:
    left = list(errors)

    def script(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
        if left:
            raise left.pop(0)
        return Reply(spell("Done."))

    return Tape(ScriptedEngine(script, routes=ROUTES, version=7))


@pytest.mark.parametrize(("wire", "status"), list(zip(WIRES.values(), (529, 503, 503), strict=True)), ids=WIRES)
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
        events = (await response.read()).decode()
        assert '"message": "node down"' in events.split("data: ")[-1]


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
        assert (accounting.calls, accounting.tool_parse_faults) == (1, 0)
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
