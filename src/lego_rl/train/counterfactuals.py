"""The trainer's side of a diagnosis: log-probs of a few micro-batches again, with one thing changed.

Invariant: nothing here changes the policy, and every variant is of the same tokens in the same order.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from lego_rl.train.batch import MicroBatch
from lego_rl.train.diagnosis import TokenOrigin
from lego_rl.train.forward import logprobs, trained_logits

ENOUGH_TOKENS = 4096
"""A diagnosis looks at the first micro-batches that hold at least so many compared tokens."""


class Recomputation:
    """`diagnosis.Counterfactuals` of a trainer.

    Args:
        policy: The trainer's policy.
        previous: Its state dict before the last update, if there was one.
        batches: The step's micro-batches.
        version: The weight version that is compared; only tokens sampled under it are looked at.
        temperature: The trainer's temperature.
    """

    def __init__(
        self,
        policy: PreTrainedModel,
        previous: Mapping[str, Tensor] | None,
        batches: Sequence[MicroBatch],
        version: int,
        temperature: float,
    ) -> None:
        self._policy = policy
        self._previous = previous
        self._temperature = temperature
        self._batches: list[MicroBatch] = []
        self._kept: list[NDArray[np.bool_]] = []
        self._logits: list[Tensor] = []
        for batch in batches:
            if sum(int(kept.sum()) for kept in self._kept) >= ENOUGH_TOKENS:
                break
            kept_N = batch.at_trained("versions") == version
            if kept_N.any():
                self._batches.append(batch)
                self._kept.append(kept_N)

    def origin(self) -> TokenOrigin:
        """The tokens."""
        experts = [batch.experts_BTEK[batch.mask_BT] for batch in self._batches if batch.experts_BTEK is not None]
        return TokenOrigin(
            engine_N=self._gather(lambda batch: batch.behaviour_logp_BT[batch.mask_BT]),
            call_position_N=np.concatenate(
                [
                    batch.at_trained("call_positions")[kept]
                    for batch, kept in zip(self._batches, self._kept, strict=True)
                ]
            ),
            experts_NEK=np.concatenate(
                [e.cpu().numpy()[kept].astype(np.int64) for e, kept in zip(experts, self._kept, strict=True)]
            )
            if experts
            else None,
        )

    def as_compared(self) -> NDArray[np.float64]:
        """Nothing changed."""
        return self._gather(lambda batch: self._trained(self._policy, batch))

    def own_routing(self) -> NDArray[np.float64] | None:
        """The router chooses again; ``None`` where nothing is replayed."""
        if all(batch.experts_BTEK is None for batch in self._batches):
            return None
        return self._gather(lambda batch: self._trained(self._policy, replace(batch, experts_BTEK=None)))

    def previous_weights(self) -> NDArray[np.float64] | None:
        """Weights before the last update; ``None`` before the first."""
        if self._previous is None:
            return None
        earlier = copy.deepcopy(self._policy)
        earlier.load_state_dict(self._previous)
        return self._gather(lambda batch: self._trained(earlier, batch))

    def at_temperature(self, factor: float) -> NDArray[np.float64]:
        """Logits divided by `factor` times the trainer's temperature."""
        if not self._logits:
            with torch.no_grad():
                self._logits = [
                    trained_logits(self._policy, batch, torch.zeros_like(batch.target_ids_BT))
                    for batch in self._batches
                ]
        scaled = iter(self._logits)

        def logp(batch: MicroBatch) -> Tensor:
            logp_NV = (next(scaled) / (factor * self._temperature)).log_softmax(-1)
            return logp_NV.gather(-1, batch.target_ids_BT[batch.mask_BT].unsqueeze(-1)).squeeze(-1)

        return self._gather(logp)

    def _trained(self, module: PreTrainedModel, batch: MicroBatch) -> Tensor:
        return logprobs(module, batch, self._temperature).logp_BT[batch.mask_BT]

    def _gather(self, of: Callable[[MicroBatch], Tensor]) -> NDArray[np.float64]:
        with torch.no_grad():
            values = [of(batch).double().cpu().numpy() for batch in self._batches]
        return np.concatenate([value[kept] for value, kept in zip(values, self._kept, strict=True)])
