"""VeOmni's engine on the CPU: its registration with verl, and Qwen3.5's linear attention in plain torch.

VeOmni's own kernels of gated delta-net layers need a GPU. Its registry takes others; these compute what they do, one
sequence of a packed batch after the other.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.models.qwen3_5_moe.modeling_qwen3_5_moe import torch_chunk_gated_delta_rule
from veomni.ops.kernel_registry import KERNEL_REGISTRY, HardwareRequirement, KernelSpec
from verl.workers.engine import EngineRegistry
from verl.workers.engine.veomni.transformer_impl import VeOmniEngineWithLMHead

KERNEL = "lego_torch"
"""Name of both kernels in VeOmni's registry and in verl's configuration."""


def causal_conv1d(
    *, x: Tensor, weight: Tensor, bias: Tensor | None, activation: str, cu_seqlens: Tensor | None, **_: Any
) -> tuple[Tensor, None]:
    """A depthwise convolution over time that sees no later position, and no other sequence.

    Args:
        x: ``[1, N, D]``, sequences after each other.
        weight: ``[D, K]``.
        bias: ``[D]``.
        activation: ``silu``; nothing else is asked for.
        cu_seqlens: First position of each sequence, and N; ``None`` for one sequence.
    """
    assert activation == "silu", activation
    parts = []
    for start, end in _sequences(x.shape[1], cu_seqlens):
        padded_1DN = F.pad(x[:, start:end].transpose(1, 2), (weight.shape[-1] - 1, 0))
        parts.append(F.silu(F.conv1d(padded_1DN, weight.unsqueeze(1), bias, groups=weight.shape[0])).transpose(1, 2))
    return torch.cat(parts, dim=1), None


def chunk_gated_delta_rule(
    query: Tensor, key: Tensor, value: Tensor, *, g: Tensor, beta: Tensor, cu_seqlens: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """The gated delta rule as transformers computes it.

    Args:
        query: ``[1, N, heads, D]``, sequences after each other; `key` and `value` likewise.
        key: See `query`.
        value: See `query`.
        g: ``[1, N, heads]``, logarithms of decay.
        beta: ``[1, N, heads]``, how much is written.
        cu_seqlens: As for `causal_conv1d`.
        options: transformers' own.
    """
    rule: Any = torch_chunk_gated_delta_rule
    parts = [
        rule(*(each[:, start:end] for each in (query, key, value, g, beta)), **options)[0]
        for start, end in _sequences(query.shape[1], cu_seqlens)
    ]
    return torch.cat(parts, dim=1), None


def _sequences(positions: int, cu_seqlens: Tensor | None) -> Iterator[tuple[int, int]]:
    bounds = [0, positions] if cu_seqlens is None else [int(bound) for bound in cu_seqlens]
    yield from itertools.pairwise(bounds)


def register() -> None:
    """Tell verl and VeOmni."""
    EngineRegistry.register(model_type="language_model", backend="veomni", device="cpu")(VeOmniEngineWithLMHead)
    for operator, kernel in (("causal_conv1d", causal_conv1d), ("chunk_gated_delta_rule", chunk_gated_delta_rule)):
        KERNEL_REGISTRY.register(
            KernelSpec(
                name=KERNEL,
                op_name=operator,
                variant="standard",
                factory=lambda kernel=kernel: kernel,
                hardware=HardwareRequirement(device_type="any"),
                description="plain torch, one sequence after the other",
            )
        )
