"""The scripted engine keeps the protocol whatever its script says."""

import asyncio

import numpy as np
import pytest

from lego_rl.engine.protocol import EngineError, Sampling, WeightSpan
from lego_rl.engine.scripted import Reply, ScriptedEngine, SyntheticRoutes

SAMPLING = Sampling(temperature=1.0, max_tokens=4, stop_token_ids=(9,))
SHAPE = SyntheticRoutes(layers=3, top_k=2, experts=8)


def echo(prompt: tuple[int, ...], _sampling: Sampling) -> Reply:
    return Reply(prompt)


async def test_a_reply_ends_at_the_limit_or_after_a_stop_token() -> None:
    engine = ScriptedEngine(echo)
    long = await engine.generate([1, 2, 3, 4, 5, 6], SAMPLING)
    stopped = await engine.generate([1, 9, 2], SAMPLING)
    at_limit = await engine.generate([1, 2, 3, 9, 5], SAMPLING)
    assert (long.token_ids, long.finish_reason) == ((1, 2, 3, 4), "length")
    assert (stopped.token_ids, stopped.finish_reason) == ((1, 9), "stop")
    assert (at_limit.token_ids, at_limit.finish_reason) == ((1, 2, 3, 9), "stop")
    assert len({long.call_id, stopped.call_id, at_limit.call_id}) == 3


async def test_what_the_script_leaves_out_is_told_apart_and_repeatable() -> None:
    runs = []
    for _ in range(2):
        engine = ScriptedEngine(echo, routes=SHAPE, version=3)
        runs.append([await engine.generate([5, 6, 7], SAMPLING) for _ in range(2)])
    (first, second), (again, _) = runs
    assert first.weight_versions == (WeightSpan(3, 0, 3),)
    assert len({*first.logprobs.tolist(), *second.logprobs.tolist()}) == 6
    assert (first.logprobs < 0).all()
    np.testing.assert_array_equal(first.logprobs, again.logprobs)
    assert first.routes is not None
    assert first.routes.shape == (5, 3, 2)
    assert (first.routes[..., 0] != first.routes[..., 1]).all()


async def test_routes_of_a_position_do_not_depend_on_the_call() -> None:
    """As with a policy: the same tokens route the same way, so rows can be merged over calls."""
    engine = ScriptedEngine(echo, routes=SHAPE)
    short = await engine.generate([5, 6], SAMPLING)
    longer = await engine.generate([5, 6, *short.token_ids, 1], SAMPLING, routes_from=2)
    assert short.routes is not None
    assert longer.routes is not None
    assert (longer.routes_from, len(longer.routes)) == (2, 6)
    np.testing.assert_array_equal(short.routes[2:], longer.routes[:1])


async def test_a_coroutine_may_decide_everything() -> None:
    routes = np.arange(4, dtype=np.uint8).reshape(4, 1, 1)

    async def script(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
        await asyncio.sleep(0)
        return Reply([7, 8, 9, 1], [-0.5, -0.25, -0.125, -1.0], routes)

    sample = await ScriptedEngine(script).generate([1, 2], SAMPLING)
    assert sample.token_ids == (7, 8, 9)
    assert sample.logprobs.tolist() == [-0.5, -0.25, -0.125]
    np.testing.assert_array_equal(sample.routes, routes)


async def test_silence_is_a_fault_of_the_engine() -> None:
    with pytest.raises(EngineError, match="said nothing"):
        await ScriptedEngine(echo).generate([], SAMPLING)
