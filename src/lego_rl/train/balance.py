"""The load-balancing loss of a mixture of experts, which keeps routers from starving experts.

Invariant: nothing about a forward pass changes; the loss is read off what the routers said in it. It is the smallest,
1, where every expert gets the same share of tokens and of probability.

Source: Switch Transformer (arXiv 2101.03961), equations 4 to 6, with top-k shares as Mixtral and Qwen3-MoE have them.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lego_rl.train.replay import routers


class RouterLoad:
    """What the routers of a model said during forward passes."""

    def __init__(self) -> None:
        self._per_router: list[Tensor] = []

    def hook(self, gate: Any, _args: Any, output: tuple[Tensor, Tensor, Tensor]) -> None:
        """Forward hook of a router: keeps the balance of one pass."""
        logits_NX, _, experts_NK = output
        experts = logits_NX.shape[-1]
        share_X = torch.zeros(experts, device=logits_NX.device)
        share_X.index_add_(0, experts_NK.flatten(), torch.ones_like(experts_NK.flatten(), dtype=torch.float32))
        probability_X = logits_NX.float().softmax(-1).mean(0)
        self._per_router.append(experts * (share_X / experts_NK.numel() * probability_X).sum())

    def loss(self) -> Tensor:
        """Mean over all routers and passes so far; it carries the gradient of the routers' probabilities."""
        return torch.stack(self._per_router).mean()


@contextmanager
def router_load(module: nn.Module) -> Iterator[RouterLoad]:
    """Within this context, forward passes of `module` are watched.

    Raises:
        ConfigError: The model has no routers.
    """
    load = RouterLoad()
    with ExitStack() as hooks:
        for gate in routers(module):
            hooks.enter_context(gate.register_forward_hook(load.hook))
        yield load
