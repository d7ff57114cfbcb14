"""What the auditor is shown: the tokens of a step, read back from the very tensors that are trained.

Invariant: ids and log-probs come from the micro-batches, after all selection and padding, never from the trajectory
that they were built from; only their address (call, position) does.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lego_rl.train.batch import MicroBatch


@dataclass(frozen=True)
class TrainedTokens:
    """Tokens of a training batch, N in all, in no particular order.

    Attributes:
        call_ids: ``[N]`` the engine call that sampled each token.
        positions: ``[N]`` int64 position within that call's ``Sample.token_ids``.
        token_ids: ``[N]`` int64.
        logprobs: ``[N]`` float32 behaviour log-probs.
    """

    call_ids: tuple[str, ...]
    positions: NDArray[np.int64]
    token_ids: NDArray[np.int64]
    logprobs: NDArray[np.float32]


def trained_tokens(batches: Iterable[MicroBatch]) -> TrainedTokens:
    """Read the trained tokens of micro-batches back."""
    calls: list[str] = []
    positions: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    token_ids: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    logprobs: list[NDArray[np.float32]] = [np.zeros(0, np.float32)]
    for batch in batches:
        for row in batch.rows:
            segment = row.segment
            calls += [segment.calls[i] for i in segment.call_ids[segment.loss_mask == 1]]
        positions.append(batch.at_trained("call_positions"))
        token_ids.append(batch.target_ids_BT[batch.mask_BT].cpu().numpy())
        logprobs.append(batch.behaviour_logp_BT[batch.mask_BT].cpu().numpy())
    return TrainedTokens(tuple(calls), np.concatenate(positions), np.concatenate(token_ids), np.concatenate(logprobs))
