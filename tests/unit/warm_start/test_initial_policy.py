"""The built-in circuit is there before any training."""

from importlib.resources import files
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, PretrainedConfig

from warm_start.initial import initial_policy

DEMO = Path(str(files("lego_rl.policies") / "demo"))


@pytest.fixture(scope="module")
def config() -> PretrainedConfig:
    return AutoConfig.from_pretrained(DEMO)


def test_two_of_three_first_heads_look_at_the_previous_token(config: PretrainedConfig) -> None:
    policy = initial_policy(config, seed=3)
    policy.set_attn_implementation("eager")
    ids = torch.randint(0, config.vocab_size, (2, 64), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        attention_BhTT = policy(input_ids=ids, output_attentions=True).attentions[0]
    previous_h = attention_BhTT.diagonal(offset=-1, dim1=-2, dim2=-1).mean((0, 2))
    looks = [bool(share > 0.5) for share in previous_h]
    assert looks == [True, True, False] * 2


def test_weights_follow_from_the_seed_alone(config: PretrainedConfig) -> None:
    torch.manual_seed(1)
    first = initial_policy(config, seed=3).state_dict()
    torch.manual_seed(2)
    again, other = initial_policy(config, seed=3).state_dict(), initial_policy(config, seed=4).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["lm_head.weight"], other["lm_head.weight"])
