"""Grouped-query attention over sequences of different lengths, each at its exact length.

Invariant: a token attends to its own sequence's positions up to itself, and nothing is padded, so a sequence's
attention does not depend on its neighbours.

The views into every layer's state are taken once a step, for all layers together: at a few million parameters slicing
costs as much as computing.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from lego_rl.engine.embedded.geometry import Geometry
from lego_rl.engine.embedded.kv import KvBuffer


class Lane:
    """One sequence in a step: its positions ``[start, end)`` are fed.

    Attributes:
        kv: The sequence's state, with room for `end` positions.
        start: First position fed.
        end: One past the last.
        targets: For each layer ``[n, 2 kv_heads, head_dim]``, where keys and values of the fed tokens belong.
        keys: For each layer ``[1, kv_heads, end, head_dim]``.
        values: The same of the values.
        mask: ``[group * n, end]`` additive causal mask; ``None`` for a single token, which sees everything.
    """

    def __init__(self, geometry: Geometry, kv: KvBuffer, count: int) -> None:
        self.kv, self.start, self.end = kv, kv.length, kv.length + count
        kv.reserve(self.end)
        storage = kv.storage
        self.targets = storage.narrow(2, self.start, count).transpose(1, 2).unbind(0)
        state = storage.narrow(2, 0, self.end).unsqueeze(1)
        self.keys = state.narrow(2, 0, geometry.kv_heads).unbind(0)
        self.values = state.narrow(2, geometry.kv_heads, geometry.kv_heads).unbind(0)
        self.mask: Tensor | None = None
        if count > 1:
            mask = storage.new_full((count, self.end), -torch.inf).triu_(self.start + 1)
            self.mask = mask.repeat(geometry.heads // geometry.kv_heads, 1)

    @property
    def count(self) -> int:
        """Tokens fed."""
        return self.end - self.start


def attend(geometry: Geometry, lanes: Sequence[Lane], layer: int, qkv: Tensor) -> Tensor:
    """Append keys and values to every lane's state, and mix values.

    The query heads that share a key head are laid along the query axis, so that keys are read once a group.

    Args:
        geometry: Shape of the policy.
        lanes: The sequences, in the order of the rows.
        layer: Number of the layer.
        qkv: ``[T, heads + 2 kv_heads, head_dim]`` queries, keys and values of all lanes' tokens.

    Returns:
        ``[T, heads * head_dim]``.
    """
    g, group = geometry, geometry.heads // geometry.kv_heads
    counts = [lane.count for lane in lanes]
    queries = qkv[:, : g.heads].view(-1, g.kv_heads, group, g.head_dim).split_with_sizes(counts)
    fresh = qkv[:, g.heads :].split_with_sizes(counts)
    mixed: list[Tensor] = []
    for lane, query, state in zip(lanes, queries, fresh, strict=True):
        lane.targets[layer].copy_(state)
        keys, values = lane.keys[layer], lane.values[layer]
        if lane.mask is None:
            mixed.append(F.scaled_dot_product_attention(query, keys, values))
            continue
        rows = query.permute(1, 2, 0, 3).reshape(1, g.kv_heads, group * lane.count, g.head_dim)
        attended = F.scaled_dot_product_attention(rows, keys, values, attn_mask=lane.mask)
        mixed.append(attended.view(g.kv_heads, group, lane.count, g.head_dim).permute(2, 0, 1, 3))
    return torch.cat(mixed).view(-1, g.heads * g.head_dim)
