"""Weights of experts, from one tensor each, as checkpoints and verl's engines have them, to one of a layer."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from lego_rl.errors import ConfigError

_EXPERT = re.compile(r"(?P<layer>.+\.mlp\.experts)\.(?P<number>\d+)\.(?P<part>gate|up|down)_proj\.weight")


def fuse_experts(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict whose experts are fused as transformers' modules have them.

    Args:
        weights: By name; experts that are fused already stay as they are.

    Returns:
        With ``experts.gate_up_proj`` ``[E, 2 I, hidden]``, gate rows first, and ``experts.down_proj``
        ``[E, hidden, I]``.

    Raises:
        ConfigError: A part of an expert is missing.
    """
    fused: dict[str, Tensor] = {}
    parts: dict[str, dict[tuple[str, int], Tensor]] = {}
    for name, weight in weights.items():
        if found := _EXPERT.fullmatch(name):
            parts.setdefault(found["layer"], {})[found["part"], int(found["number"])] = weight
        else:
            fused[name] = weight
    for layer, own in parts.items():
        numbers = range(max(number for _, number in own) + 1)
        if len(own) != 3 * len(numbers):
            raise ConfigError(f"{layer} lacks a part of one of its {len(numbers)} experts", "send all weights at once")
        gate_up = [torch.cat([own["gate", n], own["up", n]]) for n in numbers]
        fused[f"{layer}.gate_up_proj"] = torch.stack(gate_up)
        fused[f"{layer}.down_proj"] = torch.stack([own["down", n] for n in numbers])
    return fused
