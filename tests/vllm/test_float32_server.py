"""A real server in float32: its samples are the trainer's to rounding, whatever was cached and whenever weights came.

The last test breaks the server's weights as a stock reload does; it mends them again.
"""

import asyncio
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from vllm_kit import Server, compared, random_prompts, said, sample

from lego_rl.engine.embedded.policy import load_policy
from lego_rl.engine.protocol import Sampling
from lego_rl.engine.vllm.engine import VllmEngine
from lego_rl.engine.vllm.progress import Activity
from lego_rl.train.served import ServedPolicy, checkpoint_names, folder_digest

pytestmark = pytest.mark.timeout(600)
VOCABULARY = 1700


@pytest.fixture
def engine(float32: Server) -> Iterator[VllmEngine]:
    with VllmEngine([float32.url]) as made:
        made.load_now(float32.policy, 0)
        yield made


@pytest.fixture
def served(engine: VllmEngine, float32: Server, tmp_path: Path) -> ServedPolicy:
    return ServedPolicy(engine, checkpoint_names(float32.policy), tmp_path / "weights")


def moved(policy: Path, by: float) -> torch.nn.Module:
    """The policy after what an update might have done to it."""
    torch.manual_seed(1)
    module = load_policy(policy, torch.float32)
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(by * torch.randn_like(weight))
    return module


def test_a_server_serves_the_folder_it_was_started_with(float32: Server) -> None:
    with VllmEngine([float32.url]) as engine:
        assert engine.served.digest == folder_digest(float32.policy, "float32")
        assert engine.served.routed


def test_samples_are_the_trainers_to_rounding(engine: VllmEngine, float32: Server) -> None:
    samples = sample(engine, random_prompts(8, 100, VOCABULARY), 200)
    report = compared(load_policy(float32.policy, torch.float32), samples, "replay")
    said("float32, tiny Qwen3-MoE", report)
    assert report.tokens == 1600
    assert report.pearson_logprobs >= 0.999999
    assert report.mean_abs < 1e-5


def test_routes_are_complete_and_the_same_after_a_hit_of_the_prefix_cache(engine: VllmEngine) -> None:
    (prompt,) = random_prompts(1, 400, VOCABULARY)
    first, again = (sample(engine, [prompt], 4)[0] for _ in range(2))
    assert first.routes is not None
    assert again.routes is not None
    assert len(first.routes) == len(again.routes) == len(prompt) + 3
    assert np.array_equal(first.routes[: len(prompt)], again.routes[: len(prompt)])
    assert len({row.tobytes() for row in first.routes}) > 50


def test_routes_begin_where_they_are_asked_for(engine: VllmEngine) -> None:
    (prompt,) = random_prompts(1, 300, VOCABULARY)
    (whole,) = sample(engine, [prompt], 4)
    rest = asyncio.run(engine.generate(prompt, Sampling(1.0, 4, ()), routes_from=299))
    assert rest.routes is not None
    assert whole.routes is not None
    assert len(rest.routes) == 4
    assert np.array_equal(rest.routes[0], whole.routes[299])


def test_a_call_ends_with_the_stop_token_it_is_told(engine: VllmEngine) -> None:
    (prompt,) = random_prompts(1, 50, VOCABULARY)
    stops = tuple(range(0, 1792, 4))
    found = asyncio.run(engine.generate(prompt, Sampling(1.0, 500, stops)))
    assert found.finish_reason == "stop"
    assert found.token_ids[-1] in stops
    assert not set(found.token_ids[:-1]) & set(stops)


def test_pushed_weights_are_what_the_next_call_samples_from(
    engine: VllmEngine, served: ServedPolicy, float32: Server
) -> None:
    module = moved(float32.policy, 0.02)
    asyncio.run(served.load_weights(module.state_dict(), 1))
    assert served.weights_digest() == served.digest_of(module.state_dict())
    samples = sample(engine, random_prompts(4, 100, VOCABULARY), 200)
    assert {span.version for one in samples for span in one.weight_versions} == {1}
    report = compared(module, samples, "replay", version=1)
    said("float32 after our reload", report)
    assert report.pearson_logprobs >= 0.999999


def test_a_call_that_weights_overtake_says_which_token_is_whose(
    engine: VllmEngine, served: ServedPolicy, float32: Server
) -> None:
    modules = {0: load_policy(float32.policy, torch.float32), 1: moved(float32.policy, 0.02)}
    (prompt,) = random_prompts(1, 100, VOCABULARY)

    async def overtaken() -> tuple[int, ...]:
        call = asyncio.ensure_future(engine.generate(prompt, Sampling(1.0, 1500, ())))
        begun = (await activity(engine)).steps
        await until(engine, lambda now: now.steps > begun + 20)
        await served.load_weights(modules[1].state_dict(), 1)
        found.append(await call)
        return tuple(span.version for span in found[0].weight_versions)

    found: list = []
    assert asyncio.run(overtaken()) == (0, 1)
    (one,) = found
    for before, after in pairwise(one.weight_versions):
        assert before.end == after.start
    # Whose log-probs they are is told by the trainer without replay: routes were chosen anew under the later weights.
    for span in one.weight_versions:
        logps = own_logprobs(modules[span.version], [*one.prompt_ids, *one.token_ids])
        at = slice(len(prompt) + span.start, len(prompt) + span.end)
        assert np.abs(logps[at] - one.logprobs[span.start : span.end]).max() < 1e-3, span


def own_logprobs(module: torch.nn.Module, ids: list[int]) -> np.ndarray:
    with torch.no_grad():
        logits = module(torch.tensor([ids])).logits.float()
    every = logits.log_softmax(-1)[0, :-1].gather(-1, torch.tensor(ids[1:])[:, None])[:, 0]
    return np.concatenate([[0.0], every.numpy()])


async def activity(engine: VllmEngine) -> Activity:
    (replica,) = engine._replicas
    return Activity.parse(await engine._thread.run(replica.get("/metrics")))


async def until(engine: VllmEngine, reached: Callable[[Activity], bool]) -> None:
    while not reached(await activity(engine)):  # noqa: ASYNC110  (the server has no event to wait for)
        await asyncio.sleep(0.05)


def test_a_cancelled_call_leaves_the_batch(engine: VllmEngine) -> None:
    (prompt,) = random_prompts(1, 100, VOCABULARY)

    async def cancelled() -> None:
        call = asyncio.ensure_future(engine.generate(prompt, Sampling(1.0, 8000, ())))
        await until(engine, lambda now: now.unfinished > 0)
        await engine.progressed()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(engine, lambda now: now.unfinished == 0)

    asyncio.run(cancelled())


def test_a_stock_reload_goes_silently_wrong_and_ours_mends_it(
    engine: VllmEngine, served: ServedPolicy, float32: Server
) -> None:
    (replica,) = engine._replicas
    stock = {"method": "reload_weights", "kwargs": {"weights_path": str(float32.policy)}}
    engine._thread.call(replica.post("/collective_rpc", stock))
    engine._thread.call(replica.post("/reset_prefix_cache", {}))
    module = load_policy(float32.policy, torch.float32)
    broken = compared(module, sample(engine, random_prompts(4, 100, VOCABULARY), 100), "replay")
    said("float32 after a stock reload of the very same weights", broken)
    asyncio.run(served.load_weights(module.state_dict(), 1))
    mended = compared(module, sample(engine, random_prompts(4, 100, VOCABULARY), 100), "replay", version=1)
    said("and after ours", mended)
    assert broken.pearson_logprobs < 0.9
    assert mended.pearson_logprobs >= 0.999999
