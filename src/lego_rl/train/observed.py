"""What the trainer's weights said of a batch before any update: the other half of every comparison with the engine.

Invariant: nothing here is computed anew; engine and trainer figures are of the same tokens in the same order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lego_rl.train.batch import MicroBatch
from lego_rl.train.fidelity import ComparedTokens


@dataclass(frozen=True)
class Observed:
    """A micro-batch and the trainer's word on it.

    Attributes:
        batch: The micro-batch.
        old_logp_BT: The trainer's log-probs before any update; detached.
        matched_BT: As in `forward.TokenLogprobs`.
    """

    batch: MicroBatch
    old_logp_BT: Tensor
    matched_BT: Tensor


def compared_tokens(observed: Sequence[Observed]) -> ComparedTokens:
    """Engine against trainer over all trained tokens."""
    return ComparedTokens.joined(
        ComparedTokens(
            engine_N=seen.batch.behaviour_logp_BT[seen.batch.mask_BT].double().cpu().numpy(),
            trainer_N=seen.old_logp_BT[seen.batch.mask_BT].double().cpu().numpy(),
            version_N=seen.batch.at_trained("versions"),
        )
        for seen in observed
    )


def route_overlap(observed: Sequence[Observed], version: int) -> float:
    """Share of recorded experts that the trainer's routers choose too, over segments sampled under one version only.

    1.0 where nothing is replayed.
    """
    matched = recorded = 0
    for seen in observed:
        if seen.batch.experts_BTEK is None:
            continue
        same_B = torch.tensor([row.sampled_under(version) for row in seen.batch.rows])
        matched += int(seen.matched_BT[same_B].sum())
        recorded += int(seen.batch.computed_BT[same_B].sum()) * seen.batch.experts_BTEK[0, 0].numel()
    return matched / recorded if recorded else 1.0
