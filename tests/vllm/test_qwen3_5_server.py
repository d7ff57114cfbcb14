"""A real server of a hybrid policy: routes of all its layers, also after a hit of the cache, and pushed weights."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from vllm_kit import VISION, Server, compared, random_hybrid_policy, random_prompts, said, sample, serving

from lego_rl.engine.embedded.policy import load_policy
from lego_rl.engine.vllm.engine import VllmEngine
from lego_rl.train.served import ServedPolicy, checkpoint_names

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore::UserWarning")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hybrid")
    with serving(random_hybrid_policy(folder / "policy"), "bfloat16", folder / "log", paths=VISION) as made:
        yield made


def test_replay_and_pushed_weights_hold_for_a_hybrid_policy(server: Server, tmp_path: Path) -> None:
    module = load_policy(server.policy, torch.bfloat16).to(torch.float32)  # its weights are the server's
    prompts = random_prompts(8, 100, 1700)
    with VllmEngine([server.url]) as engine:
        samples = sample(engine, prompts, 200)
        (long,) = random_prompts(1, 1400, 1700)
        first, again = (sample(engine, [long], 4)[0] for _ in range(2))
        served = ServedPolicy(engine, checkpoint_names(server.policy), tmp_path / "weights")
        assert served.weights_digest() == served.digest_of(module.state_dict())
        own, replayed = (compared(module, samples, routing) for routing in ("own", "replay"))
        torch.manual_seed(1)
        with torch.no_grad():
            for weight in module.parameters():
                weight.add_(0.02 * torch.randn_like(weight))
        module = module.to(torch.bfloat16).to(torch.float32)
        asyncio.run(served.load_weights(module.state_dict(), 1))
        pushed = compared(module, sample(engine, prompts, 200), "replay", version=1)
    said("bfloat16 Qwen3.5-MoE, own routing", own)
    said("bfloat16 Qwen3.5-MoE, routes replayed", replayed)
    said("bfloat16 Qwen3.5-MoE, after our reload", pushed)
    assert replayed.pearson_logprobs > own.pearson_logprobs
    assert min(replayed.pearson_logprobs, pushed.pearson_logprobs) >= 0.999
    assert first.routes is not None
    assert again.routes is not None
    assert np.array_equal(first.routes[:1400], again.routes[:1400])
