"""A real server in bfloat16 beside the trainer in float32: replaying its routes brings the two closer."""

import pytest
import torch
from vllm_kit import Server, compared, random_prompts, said, sample

from lego_rl.engine.embedded.policy import load_policy
from lego_rl.engine.vllm.engine import VllmEngine

pytestmark = pytest.mark.timeout(600)


def test_replay_agrees_better_than_the_trainers_own_routing(bfloat16: Server) -> None:
    module = load_policy(bfloat16.policy, torch.bfloat16).to(torch.float32)  # its weights are the server's
    with VllmEngine([bfloat16.url]) as engine:
        assert engine.served.dtype == "bfloat16"
        samples = sample(engine, random_prompts(8, 100, 1700), 200)
    own, replayed = (compared(module, samples, routing) for routing in ("own", "replay"))
    said("bfloat16, own routing", own)
    said("bfloat16, routes replayed", replayed)
    assert replayed.pearson_logprobs > own.pearson_logprobs
    assert replayed.mean_abs < own.mean_abs
    assert replayed.pearson_logprobs >= 0.999
