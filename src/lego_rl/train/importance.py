"""Truncated importance weights: the engine sampled, the trainer learns.

Invariant: a weight carries no gradient and is at most its cap. It compares the trainer's *old* log-probs with the
*behaviour* log-probs, never the policy under update: how far that has moved is the business of the GSPO ratio.

Source: truncated importance sampling as in verl's ``compute_rollout_correction_weights`` (levels ``token`` and
``sequence``, one upper threshold). Suffixes: B segments, T positions.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from lego_rl.train.settings import NoCorrection, SequenceTruncation, TokenTruncation

MAX_LOG_WEIGHT = 20.0
"""Largest |log weight| that is exponentiated."""


@dataclass(frozen=True)
class ImportanceWeights:
    """Weights of one micro-batch.

    Attributes:
        weight_BT: Detached; what each token's policy loss is multiplied by. 0 where the mask is 0.
        raw_BT: The weights before truncation.
    """

    weight_BT: Tensor
    raw_BT: Tensor


def importance_weights(
    settings: NoCorrection | TokenTruncation | SequenceTruncation,
    old_logp_BT: Tensor,
    behaviour_logp_BT: Tensor,
    mask_BT: Tensor,
) -> ImportanceWeights:
    """Weights by which the policy loss of each token is multiplied.

    Args:
        settings: The level and its cap.
        old_logp_BT: The trainer's log-probs before the first update of the batch.
        behaviour_logp_BT: Log-probs recorded when the tokens were sampled.
        mask_BT: Which tokens were sampled by the policy and are trained.
    """
    mask_BT = mask_BT.bool()
    log_ratio_BT = torch.where(mask_BT, (old_logp_BT - behaviour_logp_BT).detach(), 0.0)
    match settings:
        case NoCorrection():
            ones_BT = mask_BT.to(log_ratio_BT.dtype)
            return ImportanceWeights(ones_BT, ones_BT)
        case TokenTruncation():
            log_weight_BT = log_ratio_BT
        case SequenceTruncation():
            log_weight_BT = log_ratio_BT.sum(-1, keepdim=True).expand_as(log_ratio_BT)
    raw_BT = log_weight_BT.clamp(-MAX_LOG_WEIGHT, MAX_LOG_WEIGHT).exp() * mask_BT
    return ImportanceWeights(raw_BT.clamp(max=settings.cap), raw_BT)
