"""Drawing tokens: one log-softmax for the whole batch, one stream of uniforms for each call.

Invariant: the log-prob returned with a token is that of the distribution it was drawn from, ``log_softmax(logits /
temperature)`` in float32. Greedy calls (temperature 0) have no such distribution; they report the log-prob under
temperature 1.

A token is drawn by inverting the cumulative distribution (in float64) at a uniform of the call's own generator, number
t for token t. So a seed gives the same tokens whatever else is in the batch, unless rounding (about 1e-6 in float32)
moves a boundary across the very uniform drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

_UNIFORMS_AT_ONCE = 64


class Uniforms:
    """The uniforms in [0, 1) of one call.

    Args:
        seed: Of a PCG64 stream (`numpy.random.default_rng`).
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self._ahead: list[float] = []

    def next(self) -> float:
        """The next uniform of the stream."""
        if not self._ahead:
            self._ahead = self._generator.random(_UNIFORMS_AT_ONCE)[::-1].tolist()
        return self._ahead.pop()


@dataclass(frozen=True)
class Draw:
    """How one token is drawn: `temperature` 0 takes the most probable token, else `uniform` chooses.

    Attributes:
        temperature: Of the distribution.
        uniform: In [0, 1).
        forced: The token that it is, whatever the others say; its log-prob is the distribution's all the same.
    """

    temperature: float
    uniform: float
    forced: int | None = None


def draw(logits: Tensor, draws: Sequence[Draw]) -> tuple[list[int], list[float]]:
    """Draw one token a row.

    Args:
        logits: ``[N, vocab]`` float32.
        draws: ``[N]``.

    Returns:
        Token ids ``[N]`` and their log-probs ``[N]`` (float32 values).
    """
    temperatures = torch.tensor([[one.temperature or 1.0] for one in draws], device=logits.device)
    logprobs = torch.log_softmax(logits / temperatures, -1)
    cumulative = logprobs.double().exp_().cumsum(-1)
    uniforms = torch.tensor([[one.uniform] for one in draws], dtype=torch.float64, device=logits.device)
    token_ids = torch.searchsorted(cumulative, uniforms * cumulative[:, -1:], right=True)
    token_ids.clamp_(max=logits.shape[-1] - 1)
    greedy = [row for row, one in enumerate(draws) if one.temperature == 0]
    if greedy:
        token_ids[greedy] = logits[greedy].argmax(-1, keepdim=True)
    for row, one in enumerate(draws):
        if one.forced is not None:
            token_ids[row] = one.forced
    return token_ids[:, 0].tolist(), logprobs.gather(-1, token_ids)[:, 0].tolist()
