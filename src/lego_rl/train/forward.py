"""Log-probs of a micro-batch: the one place where the policy's network is run for training.

Invariant: the result is that of running every row alone, to rounding. Sharing the computation of a common prefix,
padding, and computing logits at trained positions only are economies, not approximations; gradients included.

Suffixes: B segments, T predicting positions, P shared prefix positions, S = T - P, N trained positions of the
micro-batch in row-major order, H hidden size, V vocabulary.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

from lego_rl.train.batch import MicroBatch
from lego_rl.train.replay import RouteOverlap, replay


@dataclass(frozen=True)
class TokenLogprobs:
    """What the policy says of a micro-batch's trained tokens.

    Attributes:
        logp_BT: Log-prob of the predicted token under the sampling distribution; 0 where the mask is 0.
        entropy_N: Entropy of the sampling distribution at trained positions, in nats; detached.
        overlap: Recorded experts against the router's own; empty where nothing was replayed.
    """

    logp_BT: Tensor
    entropy_N: Tensor
    overlap: RouteOverlap


def logprobs(module: PreTrainedModel, batch: MicroBatch, temperature: float) -> TokenLogprobs:
    """Run the policy over a micro-batch.

    Args:
        module: A causal language model; in training mode or not makes no difference (no dropout is configured).
        batch: What to run; its routes are replayed where it has any.
        temperature: Divides the logits, as when sampling.
    """
    overlap = RouteOverlap()
    logits_NV = trained_logits(module, batch, overlap) / temperature
    all_logp_NV = logits_NV.log_softmax(-1)
    logp_N = all_logp_NV.gather(-1, batch.target_ids_BT[batch.mask_BT].unsqueeze(-1)).squeeze(-1)
    with torch.no_grad():
        entropy_N = -(all_logp_NV.exp() * all_logp_NV).sum(-1)
    zeros_BT = logp_N.new_zeros(batch.mask_BT.shape)
    return TokenLogprobs(zeros_BT.masked_scatter(batch.mask_BT, logp_N), entropy_N, overlap)


def trained_logits(module: PreTrainedModel, batch: MicroBatch, overlap: RouteOverlap | None = None) -> Tensor:
    """Logits at the trained positions, ``[N, V]`` in float32 or wider, before any temperature.

    Args:
        module: As for `logprobs`.
        batch: As for `logprobs`.
        overlap: Counts recorded against own routes, where given.
    """
    hidden_NH = _hidden(module, batch, overlap or RouteOverlap())
    head: nn.Module = module.get_output_embeddings()  # type: ignore[no-untyped-call]
    logits_NV: Tensor = head(hidden_NH)
    return logits_NV if logits_NV.dtype == torch.float64 else logits_NV.float()


def _hidden(module: PreTrainedModel, batch: MicroBatch, overlap: RouteOverlap) -> Tensor:
    """Last hidden states at the trained positions, ``[N, H]``."""
    shared = batch.shared
    if not shared:
        with _routing(module, batch, slice(None), slice(None), overlap):
            hidden_BTH = module.base_model(input_ids=batch.input_ids_BT, use_cache=False).last_hidden_state
        trained_NH: Tensor = hidden_BTH[batch.mask_BT]
        return trained_NH
    cache = DynamicCache(config=module.config)
    with _routing(module, batch, slice(0, 1), slice(0, shared), overlap):
        module.base_model(input_ids=batch.input_ids_BT[:1, :shared], past_key_values=cache, use_cache=True)
    cache.batch_repeat_interleave(len(batch.rows))
    with _routing(module, batch, slice(None), slice(shared, None), overlap):
        hidden_BSH = module.base_model(
            input_ids=batch.input_ids_BT[:, shared:], past_key_values=cache, use_cache=True
        ).last_hidden_state
    suffix_NH: Tensor = hidden_BSH[batch.mask_BT[:, shared:]]
    return suffix_NH


@contextmanager
def _routing(
    module: PreTrainedModel, batch: MicroBatch, rows: slice, positions: slice, overlap: RouteOverlap
) -> Iterator[None]:
    if batch.experts_BTEK is None:
        yield
        return
    experts_NEK = batch.experts_BTEK[rows, positions].flatten(0, 1)
    with replay(module, experts_NEK, batch.recorded_BT[rows, positions].flatten()) as counted:
        yield
    overlap.add(counted)
