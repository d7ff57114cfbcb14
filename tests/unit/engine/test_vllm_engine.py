"""`Engine` over HTTP, beside a server that says what it is told. Real ones are asked by ``make test-vllm``."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_vllm import TOKENS, FakeVllm, npy

from lego_rl.engine.protocol import EngineError, Sampling, WeightSpan
from lego_rl.engine.vllm import engine as module
from lego_rl.engine.vllm.engine import VllmEngine, VllmOptions
from lego_rl.engine.vllm.routing import BLOCK
from lego_rl.errors import ConfigError

SAMPLING = Sampling(1.0, 10, (13,), seed=5)
PROMPT = (1, 2, 3, 4)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_FIRST", 0.0)


@asynccontextmanager
async def engine(*servers: FakeVllm, options: VllmOptions | None = None) -> AsyncIterator[VllmEngine]:
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(server.running()) for server in servers]
        made = await asyncio.to_thread(VllmEngine, urls, options=options)
        try:
            yield made
        finally:
            await asyncio.to_thread(made.close)


async def test_a_sample_is_what_the_server_drew() -> None:
    server = FakeVllm()
    async with engine(server) as made:
        sample = await made.generate(PROMPT, SAMPLING)
    assert sample.token_ids == TOKENS
    assert sample.prompt_ids is PROMPT
    assert sample.finish_reason == "stop"
    assert sample.logprobs.tolist() == np.array([-1.1, -1.2, -1.3], np.float32).tolist()
    assert sample.weight_versions == (WeightSpan(0, 0, 3),)
    assert sample.routes is not None
    assert sample.routes.shape == (6, 2, 2)
    assert sample.routes.dtype == np.uint8


async def test_nothing_but_the_callers_sampling_shapes_the_distribution() -> None:
    server = FakeVllm()
    async with engine(server) as made:
        await made.generate(PROMPT, SAMPLING)
    asked: dict[str, Any] = server.bodies[0]["sampling_params"]
    assert asked["temperature"] == 1.0
    assert asked["stop_token_ids"] == [13]
    assert asked["ignore_eos"] is True
    assert (asked["top_p"], asked["top_k"], asked["min_p"], asked["repetition_penalty"]) == (1.0, 0, 0.0, 1.0)
    assert asked["seed"] == 5
    assert not {"tools", "tool_choice", "structured_outputs"} & {*asked, *server.bodies[0]}


async def test_on_cpus_no_seed_is_sent_and_routes_are_fetched() -> None:
    server = FakeVllm(platform="cpu")
    async with engine(server) as made:
        sample = await made.generate(PROMPT, SAMPLING, routes_from=2)
    assert "seed" not in server.bodies[0]["sampling_params"]
    assert sample.routes is not None
    assert (sample.routes_from, len(sample.routes)) == (2, 4)


async def test_a_dense_policy_has_no_routes() -> None:
    async with engine(FakeVllm(routed=False)) as made:
        sample = await made.generate(PROMPT, SAMPLING, routes_from=2)
    assert sample.routes is None
    assert sample.routes_from == 0


@pytest.mark.parametrize(
    "answer",
    [
        {"routed_experts": None},
        {"routed_experts": npy(3)},
        {"routed_experts": "no base64"},
        {"logprobs": None},
        {"logprobs": {"content": [{"token_id": 7, "logprob": -1.0}] * 3}},
        {"logprobs": {"content": [{"token_id": each, "logprob": -9999.0} for each in TOKENS]}},
        {"weight_versions": None},
        {"weight_versions": [{"version": "default", "start": 0, "end": 3}]},
        {"finish_reason": "abort"},
        {"token_ids": []},
    ],
    ids=repr,
)
async def test_an_answer_that_lacks_something_is_a_fault_and_nothing_is_filled_in(answer: dict[str, Any]) -> None:
    server = FakeVllm(answer=answer)
    async with engine(server, options=VllmOptions(tries=2)) as made:
        with pytest.raises(EngineError):
            await made.generate(PROMPT, SAMPLING)
    assert len(server.bodies) == 2


async def test_a_failing_server_is_tried_again_as_another_call() -> None:
    server = FakeVllm(failures=[500, 503])
    async with engine(server) as made:
        sample = await made.generate(PROMPT, SAMPLING)
    calls = [body["request_id"] for body in server.bodies]
    assert len(set(calls)) == 3
    assert sample.call_id == calls[-1]


async def test_tries_are_bounded() -> None:
    server = FakeVllm(failures=[500] * 9)
    async with engine(server, options=VllmOptions(tries=3)) as made:
        with pytest.raises(EngineError, match="500"):
            await made.generate(PROMPT, SAMPLING)
    assert len(server.bodies) == 3


async def test_what_a_server_refuses_is_not_tried_again() -> None:
    server = FakeVllm(failures=[400])
    async with engine(server) as made:
        with pytest.raises(ConfigError, match="400"):
            await made.generate(PROMPT, SAMPLING)
        with pytest.raises(ConfigError, match="context of 100"):
            await made.generate(PROMPT, Sampling(1.0, 97, ()))
    assert len(server.bodies) == 1


async def test_another_server_takes_over() -> None:
    broken, well = FakeVllm(failures=[500] * 9), FakeVllm()
    async with engine(broken, well) as made:
        for _ in range(3):
            assert (await made.generate(PROMPT, SAMPLING)).token_ids == TOKENS
    assert len(well.bodies) == 3


async def test_a_session_stays_where_its_prefix_is_cached() -> None:
    servers = [FakeVllm(), FakeVllm()]
    async with engine(*servers) as made:
        made._served = made.served.__class__(**{**made.served.__dict__, "context": 100_000})
        sessions = [[n, *range(5 * BLOCK)] for n in range(6)]
        homes = []
        for turn in range(3):
            for number, session in enumerate(sessions):
                before = [len(server.bodies) for server in servers]
                await made.generate(session + [turn] * BLOCK * turn, SAMPLING)
                home = [len(server.bodies) for server in servers].index(max_change(servers, before))
                homes.append((number, home))
    assert len(set(homes)) == len(sessions), "a session moved"


def max_change(servers: Sequence[FakeVllm], before: Sequence[int]) -> int:
    """How many calls the server has had that was asked last."""
    return next(len(s.bodies) for s, count in zip(servers, before, strict=True) if len(s.bodies) > count)


async def test_cancelling_a_call_aborts_it() -> None:
    server = FakeVllm(hangs=True)
    async with engine(server) as made:
        call = asyncio.ensure_future(made.generate(PROMPT, SAMPLING))
        await server.asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await server.aborted.wait()
    assert server.events[-1] == f"['generate-tokens-{server.bodies[0]['request_id']}']"


async def test_new_weights_reach_every_server_between_pause_and_resume() -> None:
    servers = [FakeVllm(), FakeVllm()]
    async with engine(*servers) as made:
        assert await made.load(Path("weights"), 7) == "d1"
        assert made.weight_version == 7
        sample = await made.generate(PROMPT, SAMPLING)
    assert sample.weight_versions == (WeightSpan(7, 0, 3),)
    for server in servers:
        reset = "reset_prefix_cache reset_running_requests=true"
        assert server.events[1:] == ["pause mode=keep", "load", "update_weight_version", reset, "resume"]


async def test_no_call_starts_while_the_engine_is_paused() -> None:
    server = FakeVllm()
    async with engine(server) as made:
        await made.pause()
        call = asyncio.ensure_future(made.generate(PROMPT, SAMPLING))
        await made.progressed()
        assert not server.bodies
        await made.resume()
        await call
    assert len(server.bodies) == 1


async def test_progress_is_a_step_of_a_server_that_has_any_to_take() -> None:
    idle, busy = FakeVllm(), FakeVllm(unfinished=2)
    async with engine(idle, busy) as made:
        await made.progressed()
    assert idle.steps == 0
    assert busy.steps == 2


async def test_servers_of_different_policies_are_refused() -> None:
    with pytest.raises(ConfigError, match="serves another policy"):
        async with engine(FakeVllm(), FakeVllm(digest="other")):
            pass


async def test_a_server_that_is_not_there_is_an_engine_error() -> None:
    async with FakeVllm().running() as url:
        pass
    with pytest.raises(EngineError, match="does not answer"):
        await asyncio.to_thread(VllmEngine, [url])


async def test_after_a_push_that_failed_nobody_samples_from_who_knows_what() -> None:
    one, other = FakeVllm(), FakeVllm(loaded="d2")
    async with engine(one, other) as made:
        with pytest.raises(EngineError, match="different weights"):
            await made.load(Path("weights"), 1)
        with pytest.raises(EngineError, match="unknown which weights"):
            await made.generate(PROMPT, SAMPLING)
        with pytest.raises(EngineError, match="unknown which weights"):
            await made.progressed()
    assert not one.bodies
