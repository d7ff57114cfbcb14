"""One lean forward for everything an engine does: prefill, a chunk of one, and ragged batched decode.

Invariant: the maths is that of `transformers`' Qwen3 and Qwen3-MoE modules (RMS norm, per-head query and key norm,
rotary embedding, grouped-query attention, softmax router with top-k). What differs is the order of sums, and in
bfloat16 where some are rounded: in float32 the logits agree to about 1e-6 whatever else is in the batch.

Tokens of all sequences are one flat ``[T]`` axis: projections and experts see one matrix, and only attention looks at
sequences one by one, each at its exact length, so nothing is padded. At a few million parameters the cost of a step is
the number of operator calls, which is why projections that share an input are fused and all experts are one product.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from lego_rl.engine.embedded.attention import Lane, attend
from lego_rl.engine.embedded.geometry import Geometry
from lego_rl.engine.embedded.kv import KvBuffer
from lego_rl.engine.embedded.weights import ExpertMlp, Weights

_ALL_EXPERTS_MAX_TOKENS = {torch.float32: 24, torch.bfloat16: 256}
"""Up to here every expert computes every token in one product; beyond, tokens are sorted by expert. The two cost the
same about here for 8 experts on a CPU, where small bfloat16 products are slow."""


@dataclass(frozen=True)
class Span:
    """The next tokens of one sequence.

    Attributes:
        token_ids: What to feed at positions ``[kv.length, kv.length + len(token_ids))``.
        kv: The sequence's state; the forward appends to it.
        wants_logits: Whether a token is to be sampled after the last of `token_ids`.
    """

    token_ids: Sequence[int]
    kv: KvBuffer
    wants_logits: bool


class Rotary:
    """Cosines and sines of the rotary embedding (Su et al. 2021) for every position of the context.

    `sin` carries the sign of the rotation: ``rotate(x) = x * cos + roll(x, head_dim / 2) * sin``.
    """

    def __init__(self, geometry: Geometry, dtype: torch.dtype, device: torch.device) -> None:
        exponents = torch.arange(0, geometry.head_dim, 2, dtype=torch.int64).float() / geometry.head_dim
        angles = torch.outer(torch.arange(geometry.context).float(), 1.0 / geometry.rope_theta**exponents)
        self.cos = torch.cat([angles.cos(), angles.cos()], -1).unsqueeze(1).to(device, dtype)
        self.sin = torch.cat([-angles.sin(), angles.sin()], -1).unsqueeze(1).to(device, dtype)


def forward(weights: Weights, rotary: Rotary, spans: Sequence[Span]) -> Tensor:
    """Feed the next tokens of some sequences and append to their states.

    Args:
        weights: The policy.
        rotary: Tables of its rotary embedding.
        spans: At least one; each of another sequence.

    Returns:
        ``[S, vocab]`` float32 logits after the last token of each span that wants them, in their order.
    """
    g, device = weights.geometry, weights.device
    token_ids = torch.tensor([token for span in spans for token in span.token_ids], device=device)
    lanes = [Lane(g, span.kv, len(span.token_ids)) for span in spans]
    positions = torch.tensor([at for lane in lanes for at in range(lane.start, lane.end)], device=device)
    rotation = rotary.cos[positions], rotary.sin[positions]
    hidden = F.embedding(token_ids, weights.embedding)
    routes: list[Tensor] = []
    for number, layer in enumerate(weights.layers):
        hidden = _attention(weights, number, hidden, rotation, lanes)
        normed = F.rms_norm(hidden, (g.hidden,), layer.post_norm, g.eps)
        if isinstance(layer.mlp, ExpertMlp):
            gates, chosen = _route(g, layer.mlp, normed)
            routes.append(chosen)
            hidden = _experts(layer.mlp, hidden, normed, gates, chosen)
        else:
            gate, up = F.linear(normed, layer.mlp.gate_up).chunk(2, -1)
            hidden = torch.addmm(hidden, F.silu(gate).mul_(up), layer.mlp.down.t())
    _append(lanes, routes)
    ends = itertools.accumulate(lane.count for lane in lanes)
    last = [end - 1 for end, span in zip(ends, spans, strict=True) if span.wants_logits]
    normed = F.rms_norm(hidden[last], (g.hidden,), weights.norm, g.eps)
    return F.linear(normed, weights.head).float()


def _attention(
    weights: Weights, number: int, hidden: Tensor, rotation: tuple[Tensor, Tensor], lanes: list[Lane]
) -> Tensor:
    """Causal grouped-query attention with its residual: ``[T, hidden] -> [T, hidden]``."""
    g, layer = weights.geometry, weights.layers[number]
    cos, sin = rotation
    normed = F.rms_norm(hidden, (g.hidden,), layer.input_norm, g.eps)
    qkv = F.linear(normed, layer.qkv).view(-1, g.heads + 2 * g.kv_heads, g.head_dim)
    rotated = qkv[:, : g.heads + g.kv_heads]
    unit = F.rms_norm(rotated, (g.head_dim,), None, g.eps).mul_(layer.qk_norm)
    torch.addcmul(unit * cos, unit.roll(g.head_dim // 2, -1), sin, out=rotated)
    return torch.addmm(hidden, attend(g, lanes, number, qkv), layer.out.t())


def _route(g: Geometry, mlp: ExpertMlp, normed: Tensor) -> tuple[Tensor, Tensor]:
    """Gate values ``[T, top_k]`` in the compute dtype and experts ``[T, top_k]`` int64, most probable first."""
    probabilities = torch.softmax(F.linear(normed, mlp.router), -1, dtype=torch.float32)
    gates, chosen = probabilities.topk(g.top_k, -1)
    if g.normalise_top_k:
        gates = gates / gates.sum(-1, keepdim=True)
    return gates.to(normed.dtype), chosen


def _experts(mlp: ExpertMlp, hidden: Tensor, normed: Tensor, gates: Tensor, chosen: Tensor) -> Tensor:
    """The mixture with its residual: ``[T, hidden] -> [T, hidden]``."""
    if len(normed) <= _ALL_EXPERTS_MAX_TOKENS[normed.dtype]:
        return _all_experts(mlp, hidden, normed, gates, chosen)
    return _sorted_experts(mlp, hidden, normed, gates, chosen)


def _all_experts(mlp: ExpertMlp, hidden: Tensor, normed: Tensor, gates: Tensor, chosen: Tensor) -> Tensor:
    """Every expert on every token, those not chosen with gate 0: two products, whatever the number of experts."""
    experts, inner, _ = mlp.down.shape
    gate_per_expert = normed.new_zeros((len(normed), experts)).scatter_(1, chosen, gates)
    gate, up = F.linear(normed, mlp.gate_up.flatten(0, 1)).view(-1, experts, 2, inner).unbind(2)
    active = F.silu(gate).mul_(up).mul_(gate_per_expert.unsqueeze(-1))
    return torch.addmm(hidden, active.flatten(1), mlp.down.flatten(0, 1))


def _sorted_experts(mlp: ExpertMlp, hidden: Tensor, normed: Tensor, gates: Tensor, chosen: Tensor) -> Tensor:
    """Each expert on its own tokens only."""
    order = chosen.flatten().argsort(stable=True)
    token = order // chosen.shape[1]
    counts = chosen.flatten().bincount(minlength=len(mlp.router)).tolist()
    outputs = []
    for expert, rows in enumerate(torch.split(normed[token], counts)):
        gate, up = F.linear(rows, mlp.gate_up[expert]).chunk(2, -1)
        outputs.append(F.silu(gate).mul_(up) @ mlp.down[expert])
    return hidden.index_add(0, token, torch.cat(outputs).mul_(gates.flatten()[order].unsqueeze(-1)))


def _append(lanes: Sequence[Lane], routes: list[Tensor]) -> None:
    """Note the routes of the fed tokens, and that their positions are computed."""
    rows = torch.stack(routes, 1).to(torch.uint8).cpu().numpy() if routes else None
    row = 0
    for lane in lanes:
        if rows is not None:
            lane.kv.routes[lane.start : lane.end] = rows[row : row + lane.count]
        lane.kv.length = lane.end
        row += lane.count
