"""Routing replay (R3): the trainer's forward pass takes the experts that the engine chose.

Invariant: where a route was recorded, the recorded experts run, weighed by the *current* router's probabilities of them
(renormalised where the model does so), so the router is still trained. Where none was recorded (padding, and the last
token of a segment, which predicts nothing) the router's own choice stands. Replaying its own choice changes nothing.

Source: Rollout Routing Replay (arXiv 2510.11370). Suffixes: N positions in the order in which the routers see them
(batch-major), E layers with a router in the order of the network, K experts a token, X experts of a layer.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.qwen3_5_moe.modeling_qwen3_5_moe import Qwen3_5MoeTopKRouter
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeTopKRouter

from lego_rl.errors import CaptureError, ConfigError
from lego_rl.gateway.trajectory import Segment


@dataclass
class ReplayedPass:
    """One forward pass under replay.

    Attributes:
        experts_NEK: The recorded experts.
        recorded_N: Bool; where a record exists.
        matched_N: How many of a position's recorded experts the routers would have chosen themselves, given the same
            inputs: 0 to E × K, 0 without a record. Complete when the pass is over.
    """

    experts_NEK: Tensor
    recorded_N: Tensor
    matched_N: Tensor


type Router = Qwen3MoeTopKRouter | Qwen3_5MoeTopKRouter
"""A module that answers ``(logits, weights, experts)``: of all experts, of the chosen ones, and which they are."""


def routers(module: nn.Module) -> list[Router]:
    """The routers of a model, in the order of its layers.

    Raises:
        ConfigError: The model has none that can be replayed.
    """
    found = [child for child in module.modules() if isinstance(child, Qwen3MoeTopKRouter | Qwen3_5MoeTopKRouter)]
    if not found:
        raise ConfigError(
            f"{type(module).__name__} has no router whose choices could be replayed",
            "set train.routing to own, or train a Qwen3-MoE or a Qwen3.5-MoE",
        )
    return found


def check_routes(segments: Sequence[Segment], module: nn.Module) -> None:
    """Refuse segments that cannot be replayed in `module`.

    Raises:
        CaptureError: Routes are missing, incomplete (`Segment.route_coverage` below 1), of another shape than the
            model's routers, or name an expert that does not exist.
    """
    gates = routers(module)
    fix = "set train.routing to own, or let the engine record the routes of every position"
    for segment in segments:
        if segment.routes is None:
            raise CaptureError("a segment has no routes to replay", fix)
        expected = (len(segment.token_ids) - 1, len(gates), gates[0].top_k)
        if segment.routes.shape != expected:
            raise CaptureError(f"routes of shape {segment.routes.shape} where the model needs {expected}", fix)
        if segment.route_coverage != 1.0:
            raise CaptureError(f"routes cover only {segment.route_coverage:.4f} of a segment's positions", fix)
        if segment.routes.size and int(segment.routes.max()) >= gates[0].num_experts:
            raise CaptureError(f"a route names expert {segment.routes.max()} of {gates[0].num_experts}", fix)


@contextmanager
def replay(module: nn.Module, experts_NEK: Tensor, recorded_N: Tensor) -> Iterator[ReplayedPass]:
    """Within this context, one forward pass of `module` over N positions takes the recorded experts.

    Args:
        module: A model with `routers`.
        experts_NEK: Integer expert ids; anything where `recorded_N` is false.
        recorded_N: Bool; where a record exists.

    Yields:
        The pass, which fills in how far the routers agree.

    Raises:
        CaptureError: The pass had another number of positions or layers.
    """
    gates = routers(module)
    if experts_NEK.shape[1] != len(gates):
        raise CaptureError(
            f"routes of {experts_NEK.shape[1]} layers for a model with {len(gates)} routers",
            "train the policy that the engine served: both have as many layers with experts",
        )
    replayed = ReplayedPass(experts_NEK.long(), recorded_N, torch.zeros_like(recorded_N, dtype=torch.long))
    with ExitStack() as hooks:
        for layer, gate in enumerate(gates):
            hooks.enter_context(gate.register_forward_hook(_hook(replayed, layer)))
        yield replayed


def _hook(replayed: ReplayedPass, layer: int) -> Any:
    def route(gate: Any, _args: Any, output: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        logits_NX, _own_weights_NK, own_NK = output
        recorded_N = replayed.recorded_N
        if len(own_NK) != len(recorded_N):
            raise CaptureError(
                f"routes of {len(recorded_N)} positions for a pass over {len(own_NK)}",
                "give the routes of exactly the positions of the pass, padding included",
            )
        experts_NK = torch.where(recorded_N.unsqueeze(-1), replayed.experts_NEK[:, layer], own_NK)
        weight_NK = logits_NX.softmax(dim=-1, dtype=torch.float32).gather(-1, experts_NK)
        if isinstance(gate, Qwen3_5MoeTopKRouter) or gate.norm_topk_prob:  # a Qwen3.5 always renormalises
            weight_NK = weight_NK / weight_NK.sum(-1, keepdim=True)
        matched_N = (experts_NK.unsqueeze(-1) == own_NK.unsqueeze(-2)).any(-1).sum(-1)
        replayed.matched_N += torch.where(recorded_N, matched_N, 0)
        return logits_NX, weight_NK.to(logits_NX.dtype), experts_NK

    return route
