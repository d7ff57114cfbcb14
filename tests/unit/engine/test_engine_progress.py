"""Signs of life: what load, new weights and waiting calls cannot keep back, and a step that never ends does."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable

import pytest
from engine_kit import Reference, tokens, until

from lego_rl.engine.audit import AuditedEngine
from lego_rl.engine.audit_log import MemoryAuditLog
from lego_rl.engine.embedded import stepper
from lego_rl.engine.embedded.engine import EmbeddedEngine
from lego_rl.engine.embedded.stepper import EngineOptions, Stepper
from lego_rl.engine.protocol import EngineError, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine

LONG = Sampling(temperature=1.0, max_tokens=400, stop_token_ids=(), seed=0)
SMALL = EngineOptions(max_running=2, prefill_tokens=32, cache_tokens=0)


@pytest.fixture
async def engine(moe: Reference) -> AsyncIterator[EmbeddedEngine]:
    with EmbeddedEngine(moe.weights(), options=SMALL) as made:
        yield made


@contextlib.asynccontextmanager
async def asked_for_much(engine: EmbeddedEngine, calls: int = 40) -> AsyncIterator[list[asyncio.Task[object]]]:
    """Far more long calls than the engine has places for."""
    asked = [asyncio.create_task(engine.generate(tokens(100, seed), LONG)) for seed in range(calls)]
    await until(engine, lambda stats: stats.running == SMALL.max_running and stats.waiting > calls // 2)
    try:
        yield [*asked]
    finally:
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def test_a_loaded_engine_shows_life_after_one_step_however_much_waits(engine: EmbeddedEngine) -> None:
    audited = AuditedEngine(engine, MemoryAuditLog())
    async with asked_for_much(engine) as asked:
        for _ in range(5):
            before = engine.stats().steps
            await asyncio.wait_for(audited.progressed(), 30)
            assert engine.stats().steps > before
        assert not any(each.done() for each in asked), "a call of its own would still be waiting"
        assert engine.stats().waiting > 20


async def test_an_idle_engine_shows_life_at_once_and_takes_no_step_for_it(engine: EmbeddedEngine) -> None:
    for _ in range(3):
        await asyncio.wait_for(engine.progressed(), 30)
    assert engine.stats().steps == engine.stats().sampled_tokens == 0


async def test_new_weights_are_no_silence(engine: EmbeddedEngine, other_moe: Reference) -> None:
    async with asked_for_much(engine):
        for version in range(1, 4):
            loading = asyncio.create_task(engine.load_weights(other_moe.module.state_dict(), version))
            await asyncio.wait_for(engine.progressed(), 30)
            await loading


async def test_an_engine_whose_step_does_not_end_shows_no_life_until_it_does(
    engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, may_end, forward = threading.Event(), threading.Event(), stepper.forward

    def endless(*arguments: object) -> object:
        inside.set()
        may_end.wait(60)
        return forward(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(stepper, "forward", endless)
    call = asyncio.create_task(engine.generate(tokens(8), LONG))
    await asyncio.to_thread(inside.wait, 30)
    call.cancel()  # as a session that is closed does: nobody waits any more, and still the thread is in the step
    sign = asyncio.create_task(engine.progressed())
    await asyncio.wait({sign}, timeout=0.3)
    assert not sign.done()
    may_end.set()
    await asyncio.wait_for(sign, 30)


async def test_an_engine_that_takes_steps_in_which_nothing_happens_shows_no_life(
    engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stepper.Schedule, "plan", lambda self: [])
    call = asyncio.create_task(engine.generate(tokens(8), LONG))
    await until(engine, lambda stats: stats.running == 1)
    sign = asyncio.create_task(engine.progressed())
    await asyncio.wait({sign}, timeout=0.3)
    assert not sign.done()
    call.cancel()
    await asyncio.wait_for(sign, 30)


@pytest.mark.parametrize("asked_before", [False, True])
async def test_an_engine_that_has_failed_says_so(
    engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch, asked_before: bool
) -> None:
    may_fail = threading.Event()

    def broken(self: Stepper) -> bool:
        may_fail.wait(60)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Stepper, "step", broken)
    call = asyncio.create_task(engine.generate(tokens(8), LONG))
    await asyncio.sleep(0)
    sign = asyncio.create_task(engine.progressed())
    await asyncio.sleep(0.05 if asked_before else 0)
    may_fail.set()
    for each in (call, sign):
        with pytest.raises(EngineError, match="out of memory"):
            await each
    with pytest.raises(EngineError, match="out of memory"):
        await engine.progressed()


async def test_a_closed_engine_says_so(moe: Reference) -> None:
    engine = EmbeddedEngine(moe.weights(), options=SMALL)
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        await engine.progressed()


async def waits(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize("script", [waits, lambda prompt, sampling: Reply([1])])
async def test_a_scripted_engine_never_hangs_whatever_its_script_waits_for(script: Callable[..., Reply]) -> None:
    engine = ScriptedEngine(script)
    call = asyncio.create_task(engine.generate((1,), LONG))
    await asyncio.sleep(0)
    await asyncio.wait_for(engine.progressed(), 5)
    call.cancel()
