"""AdamW at a constant learning rate, and the one way to take an update.

Invariant: an update is taken from a finite gradient or not at all.
"""

import math
from collections.abc import Iterable

import torch
from torch import nn

from lego_rl.errors import FidelityError
from lego_rl.train.settings import OptimizerSettings


def build(parameters: Iterable[nn.Parameter], settings: OptimizerSettings) -> torch.optim.AdamW:
    """The optimizer of a run."""
    return torch.optim.AdamW(
        parameters,
        lr=settings.lr,
        betas=settings.betas,
        eps=settings.eps,
        weight_decay=settings.weight_decay,
        foreach=True,
    )


def update(optimizer: torch.optim.Optimizer, max_norm: float) -> float:
    """Clip the accumulated gradient, take one update and clear the gradient.

    Args:
        optimizer: Holds the parameters.
        max_norm: Largest L2 norm over all parameters.

    Returns:
        The norm before clipping.

    Raises:
        FidelityError: ``gradient``; the gradient is not finite. The weights are untouched.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = float(nn.utils.clip_grad_norm_(parameters, max_norm, foreach=True))
    if not math.isfinite(norm):
        optimizer.zero_grad()
        raise FidelityError(
            "gradient",
            f"the norm of the gradient is {norm}",
            "start a new run from the last checkpoint's policy/ with a lower learning rate",
        )
    optimizer.step()
    optimizer.zero_grad()
    return norm
