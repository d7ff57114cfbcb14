"""Log-probs of a micro-batch: the one place where the policy's network is run for training.

Invariant: the result is that of running every row alone, to rounding. Sharing the computation of a common prefix,
padding, computing logits at trained positions only, and those of many positions in turns, are economies, not
approximations; gradients included.

Suffixes: B segments, T predicting positions, P shared prefix positions, S = T - P, N trained positions of the
micro-batch in row-major order, H hidden size, V vocabulary.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache, PreTrainedModel

from lego_rl.train.batch import MicroBatch
from lego_rl.train.replay import replay

LOGITS_AT_ONCE = 2**27
"""Logits that are in memory together, half a GiB. More are computed in turns, and again in the backward pass: those of
32,768 tokens and a vocabulary of 152,000 take 20 GB, their log-softmax as much again, and so does its gradient."""


@dataclass(frozen=True)
class TokenLogprobs:
    """What the policy says of a micro-batch's trained tokens.

    Attributes:
        logp_BT: Log-prob of the predicted token under the sampling distribution; 0 where the mask is 0.
        entropy_N: Entropy of the sampling distribution at trained positions, in nats; detached.
        matched_BT: How many recorded experts of a position, over all layers, the routers would choose themselves; 0
            where nothing is replayed, and beyond the first row for the positions that all rows share.
    """

    logp_BT: Tensor
    entropy_N: Tensor
    matched_BT: Tensor


def logprobs(module: PreTrainedModel, batch: MicroBatch, temperature: float) -> TokenLogprobs:
    """Run the policy over a micro-batch.

    Args:
        module: A causal language model; in training mode or not makes no difference (no dropout is configured).
        batch: What to run; its routes are replayed where it has any.
        temperature: Divides the logits, as when sampling.
    """
    matched_BT = torch.zeros_like(batch.target_ids_BT)
    hidden_NH = _hidden(module, batch, matched_BT)
    targets_N = batch.target_ids_BT[batch.mask_BT]
    head: nn.Module = module.get_output_embeddings()  # type: ignore[no-untyped-call]
    rows = max(1, LOGITS_AT_ONCE // module.config.get_text_config().vocab_size)
    if len(targets_N) <= rows:
        logp_N, entropy_N = _of_targets(head, hidden_NH, targets_N, temperature)
    else:
        parts = [
            checkpoint(_of_targets, head, hidden_CH, targets_C, temperature, use_reentrant=False)
            for hidden_CH, targets_C in zip(torch.split(hidden_NH, rows), torch.split(targets_N, rows), strict=True)
        ]
        logp_N, entropy_N = (torch.cat(values) for values in zip(*parts, strict=True))
    zeros_BT = logp_N.new_zeros(batch.mask_BT.shape)
    return TokenLogprobs(zeros_BT.masked_scatter(batch.mask_BT, logp_N), entropy_N, matched_BT)


def _of_targets(head: nn.Module, hidden_NH: Tensor, targets_N: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probs of the targets, and detached entropies."""
    all_logp_NV = (_wide(head(hidden_NH)) / temperature).log_softmax(-1)
    logp_N = all_logp_NV.gather(-1, targets_N.unsqueeze(-1)).squeeze(-1)
    with torch.no_grad():
        entropy_N = -(all_logp_NV.exp() * all_logp_NV).sum(-1)
    return logp_N, entropy_N


def _wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()


def trained_logits(module: PreTrainedModel, batch: MicroBatch, matched_BT: Tensor) -> Tensor:
    """Logits at the trained positions, ``[N, V]`` in float32 or wider, before any temperature.

    Args:
        module: As for `logprobs`.
        batch: As for `logprobs`.
        matched_BT: Integers; filled in as in `TokenLogprobs`.
    """
    hidden_NH = _hidden(module, batch, matched_BT)
    head: nn.Module = module.get_output_embeddings()  # type: ignore[no-untyped-call]
    return _wide(head(hidden_NH))


def _hidden(module: PreTrainedModel, batch: MicroBatch, matched_BT: Tensor) -> Tensor:
    """Last hidden states at the trained positions, ``[N, H]``."""
    shared = batch.shared
    if not shared:
        with _routing(module, batch, slice(None), slice(None), matched_BT):
            hidden_BTH = module.base_model(input_ids=batch.input_ids_BT, use_cache=False).last_hidden_state
        trained_NH: Tensor = hidden_BTH[batch.mask_BT]
        return trained_NH
    cache = DynamicCache(config=module.config)
    with _routing(module, batch, slice(0, 1), slice(0, shared), matched_BT):
        module.base_model(input_ids=batch.input_ids_BT[:1, :shared], past_key_values=cache, use_cache=True)
    cache.batch_repeat_interleave(len(batch.rows))
    with _routing(module, batch, slice(None), slice(shared, None), matched_BT):
        hidden_BSH = module.base_model(
            input_ids=batch.input_ids_BT[:, shared:],
            attention_mask=_causal(batch.input_ids_BT.shape[1], shared, module.dtype, batch.input_ids_BT.device),
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
    suffix_NH: Tensor = hidden_BSH[batch.mask_BT[:, shared:]]
    return suffix_NH


def _causal(length: int, shared: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Additive mask ``[1, 1, S, T]``, one for all rows; left to itself the module builds one a row and converts it in
    every layer. Padding needs none: it stands behind everything that is trained."""
    mask_ST = torch.full((length - shared, length), -torch.inf, dtype=dtype, device=device).triu_(shared + 1)
    return mask_ST[None, None]


@contextmanager
def _routing(
    module: PreTrainedModel, batch: MicroBatch, rows: slice, positions: slice, matched_BT: Tensor
) -> Iterator[None]:
    if batch.experts_BTEK is None:
        yield
        return
    experts_NEK = batch.experts_BTEK[rows, positions].flatten(0, 1)
    recorded_BT = batch.recorded_BT[rows, positions]
    with replay(module, experts_NEK, recorded_BT.flatten()) as replayed:
        yield
    matched_BT[rows, positions] = replayed.matched_N.view_as(recorded_BT)
