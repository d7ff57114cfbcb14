"""Tiny mixtures of experts of two families, and segments that they sampled, with routes, as an engine records them."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import BPE
from torch import Tensor
from transformers import PreTrainedTokenizerFast, Qwen3_5MoeConfig, Qwen3_5MoeForConditionalGeneration

from lego_rl.gateway.trajectory import Segment
from lego_rl.train.replay import replay

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "train"))

from tiny_moe import VOCAB, moe, prompts, rollout

ADVANTAGES = (1.0, -1.0, 0.5, -0.5)


def qwen3_5(seed: int = 0) -> Any:
    """A hybrid of linear and full attention with experts and a vision tower, as the published recipes' policy."""
    text = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "num_hidden_layers": 4,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 64,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "partial_rotary_factor": 0.25,
            "mrope_section": [3, 3, 2],
            "mrope_interleaved": True,
        },
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "max_position_embeddings": 512,
        "initializer_range": 0.25,
        "pad_token_id": 0,
    }
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 32}
    config = Qwen3_5MoeConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=False, initializer_range=0.25, pad_token_id=0
    )
    torch.manual_seed(seed)
    return Qwen3_5MoeForConditionalGeneration._from_config(config, attn_implementation="sdpa").eval()


FAMILIES = {"qwen3_moe": moe, "qwen3_5_moe": qwen3_5}


def write_policy(module: Any, folder: Path) -> Path:
    """A policy directory that verl takes: with a tokenizer of its vocabulary and a chat template."""
    module.save_pretrained(folder)
    if module.config.model_type == "qwen3_5_moe":  # published with one tensor for all experts of a layer
        save_file(module.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    vocabulary = {chr(0x100 + number): number for number in range(VOCAB)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(BPE(vocab=vocabulary, merges=[])), eos_token=chr(0x101), pad_token=chr(0x100)
    )
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    return folder


def write_segments(module: Any, file: Path) -> list[Segment]:
    """Sample one conversation a prompt and write what verl's rows are made of."""
    segments = [rollout(module, prompt, 100 + n) for n, prompt in enumerate(prompts(len(ADVANTAGES)))]
    arrays: dict[str, Any] = {"segments": len(segments)}
    for number, segment in enumerate(segments):
        arrays[f"ids-{number}"] = segment.token_ids
        arrays[f"mask-{number}"] = segment.loss_mask
        arrays[f"routes-{number}"] = segment.routes
        arrays[f"advantage-{number}"] = ADVANTAGES[number]
    np.savez(file, **arrays)
    return segments


@torch.no_grad()
def logprobs(module: Any, segment: Segment, *, replayed: bool) -> Tensor:
    """Of every token but the first, computed alone and outside verl."""
    ids = torch.from_numpy(segment.token_ids).long()
    if replayed:
        assert segment.routes is not None
        routes = torch.from_numpy(segment.routes).long()
        routes = torch.cat([routes, routes[-1:]])
        recorded = torch.arange(len(ids)) < len(ids) - 1
        with replay(module, routes, recorded):
            logits = module(ids[None]).logits[0]
    else:
        logits = module(ids[None]).logits[0]
    found: Tensor = logits[:-1].float().log_softmax(-1).gather(-1, ids[1:, None])[:, 0]
    return found


def largest(gaps: Sequence[Tensor]) -> float:
    """Largest absolute number."""
    return max(float(gap.abs().max()) for gap in gaps)
