"""Tiny policies with random weights, and the one-shot `transformers` forward that everything is compared with."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeTopKRouter

from lego_rl.engine.embedded import EmbeddedEngine, EngineStats
from lego_rl.engine.embedded.geometry import Geometry
from lego_rl.engine.embedded.weights import Weights

VOCAB = 300
CPU = torch.device("cpu")
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": True,
}
EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "norm_topk_prob": True,
}


@dataclass(frozen=True)
class Reference:
    """A policy and its one-shot forward."""

    module: PreTrainedModel

    @property
    def geometry(self) -> Geometry:
        return Geometry.from_config(self.module.config)

    def weights(self, dtype: torch.dtype = torch.float32) -> Weights:
        return Weights.from_state_dict(self.module.state_dict(), self.geometry, dtype, CPU)

    def logits(self, token_ids: list[int]) -> torch.Tensor:
        """``[L, vocab]`` float32."""
        with torch.no_grad():
            logits: torch.Tensor = self.module(torch.tensor([token_ids])).logits[0].float()
        return logits

    def logprobs(
        self, prompt: tuple[int, ...], sampled: tuple[int, ...], temperature: float = 1.0
    ) -> NDArray[np.float32]:
        """``[T]`` log-probs of the sampled tokens."""
        logits = self.logits([*prompt, *sampled[:-1]])[len(prompt) - 1 :]
        chosen = torch.log_softmax(logits / (temperature or 1.0), -1).gather(-1, torch.tensor(sampled)[:, None])
        return chosen[:, 0].numpy()

    def routes(self, token_ids: list[int]) -> NDArray[np.uint8]:
        """``[L, layers, top_k]`` what the routers chose."""
        chosen: list[torch.Tensor] = []
        hooks = [
            router.register_forward_hook(lambda _module, _args, output: chosen.append(output[2]))
            for router in self.module.modules()
            if isinstance(router, Qwen3MoeTopKRouter)
        ]
        self.logits(token_ids)
        for hook in hooks:
            hook.remove()
        return torch.stack(chosen, 1).to(torch.uint8).numpy()


def random_module(config: Qwen3Config | Qwen3MoeConfig, seed: int) -> PreTrainedModel:
    """Random weights, large enough that routers and tokens have clear preferences."""
    torch.manual_seed(seed)
    kind = Qwen3MoeForCausalLM if isinstance(config, Qwen3MoeConfig) else Qwen3ForCausalLM
    module: PreTrainedModel = kind(config).eval()
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if "norm" in name:
                weight.uniform_(0.5, 1.5)
            else:
                weight.normal_(0.0, 0.15)
    return module


def tokens(count: int, seed: int = 0) -> tuple[int, ...]:
    """Random token ids."""
    return tuple(np.random.default_rng(seed).integers(0, VOCAB, count).tolist())


async def until(engine: EmbeddedEngine, reached: Callable[[EngineStats], bool]) -> None:
    """Wait until the engine's counters have reached something."""
    while not reached(engine.stats()):  # noqa: ASYNC110 - the engine is another thread, which sets no event
        await asyncio.sleep(0)
