"""The load-balancing loss against its definition."""

import pytest
import torch
from tiny_moe import EXPERTS, TOP_K, VOCAB, moe

from lego_rl.train.balance import router_load
from lego_rl.train.replay import routers


def test_it_is_the_switch_transformers_loss_averaged_over_layers() -> None:
    policy = moe()
    ids = torch.randint(0, VOCAB, (3, 20), generator=torch.Generator().manual_seed(1))
    with router_load(policy) as load:
        logits = policy(input_ids=ids, output_router_logits=True).router_logits
    expected = []
    for layer in logits:
        probability = layer.reshape(-1, EXPERTS).softmax(-1)
        chosen = torch.zeros_like(probability).scatter(1, probability.topk(TOP_K).indices, 1.0)
        expected.append(EXPERTS * (chosen.mean(0) / TOP_K * probability.mean(0)).sum())
    assert float(load.loss().detach()) == pytest.approx(float(torch.stack(expected).detach().mean()), rel=1e-5)


def test_it_is_one_for_routers_without_a_preference_and_moves_the_others() -> None:
    policy = moe()
    ids = torch.arange(40)[None]
    with router_load(policy) as load:
        policy(input_ids=ids)
    load.loss().backward()
    assert all(gate.weight.grad is not None and gate.weight.grad.abs().sum() > 0 for gate in routers(policy))
    with torch.no_grad():
        for gate in routers(policy):
            gate.weight.zero_()
    with router_load(policy) as load:
        policy(input_ids=ids)
    assert float(load.loss().detach()) == pytest.approx(1.0)
