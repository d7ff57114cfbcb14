"""The objective: GSPO, the low-variance KL, and how token losses become one number.

Invariant: a token whose mask is 0 changes neither value nor gradient of anything here, whatever it holds.

Suffixes: B segments, T positions. Log-probs are natural logs of the sampling distribution. Every function equals its
namesake in verl 0.9.1 (named in its docstring) wherever the contract does not ask for more.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

MAX_LOG_RATIO = 10.0
"""Largest log of a sequence ratio that is exponentiated."""
MAX_LOG_REFERENCE_RATIO = 20.0
"""Largest |log reference ÷ policy| that the KL estimate exponentiates."""
MAX_KL = 10.0
"""Largest KL estimate of one token, in nats."""


@dataclass(frozen=True)
class PolicyLoss:
    """GSPO of every token.

    Attributes:
        loss_BT: Loss of each token; only positions with mask 1 mean anything.
        ratio_B: Sequence ratio, detached.
        clipped_low_B: Bool; the clip below is what the loss uses (advantage < 0, ratio under the lower bound).
        clipped_high_B: Bool; the clip above is what the loss uses (advantage > 0, ratio over the upper bound).
    """

    loss_BT: Tensor
    ratio_B: Tensor
    clipped_low_B: Tensor
    clipped_high_B: Tensor


def gspo(
    logp_BT: Tensor, old_logp_BT: Tensor, advantage_B: Tensor, mask_BT: Tensor, *, clip_low: float, clip_high: float
) -> PolicyLoss:
    """Group Sequence Policy Optimization (arXiv 2507.18071, eq. 5 and, in its token form, eq. 13).

    The ratio of a segment is ``exp(mean over its mask-1 tokens of logp - old_logp)``. Its value is used at every token;
    its gradient at a token is that token's own (``sg[ratio] · p / sg[p]``). verl: ``compute_policy_loss_gspo``.

    Args:
        logp_BT: Log-probs under the policy that is updated; carries the gradient.
        old_logp_BT: The trainer's log-probs before the first update of the batch.
        advantage_B: Advantage of each segment's trial.
        mask_BT: Bool, or 0 and 1.
        clip_low: The ratio is clipped below ``1 - clip_low``.
        clip_high: The ratio is clipped above ``1 + clip_high``.
    """
    advantage_B1 = advantage_B.unsqueeze(-1)
    log_ratio_B = _mean(logp_BT.detach() - old_logp_BT, mask_BT)
    log_ratio_BT = (logp_BT - logp_BT.detach() + log_ratio_B.unsqueeze(-1)).clamp(max=MAX_LOG_RATIO)
    ratio_BT = log_ratio_BT.exp()
    clipped_BT = ratio_BT.clamp(1 - clip_low, 1 + clip_high)
    loss_BT = torch.maximum(-advantage_B1 * ratio_BT, -advantage_B1 * clipped_BT)
    ratio_B = log_ratio_B.clamp(max=MAX_LOG_RATIO).exp()
    return PolicyLoss(
        loss_BT=loss_BT,
        ratio_B=ratio_B,
        clipped_low_B=(advantage_B < 0) & (ratio_B < 1 - clip_low),
        clipped_high_B=(advantage_B > 0) & (ratio_B > 1 + clip_high),
    )


def low_variance_kl(logp_BT: Tensor, reference_logp_BT: Tensor) -> Tensor:
    """The k3 estimate of KL(policy ‖ reference) of each token, ``[B, T]``, in nats.

    ``r - log r - 1`` with ``r`` = reference ÷ policy probability, clamped. Source: J. Schulman, "Approximating KL
    divergence"; verl: ``kl_penalty(…, "low_var_kl")``.
    """
    log_ratio_BT = (reference_logp_BT - logp_BT).clamp(-MAX_LOG_REFERENCE_RATIO, MAX_LOG_REFERENCE_RATIO)
    return (log_ratio_BT.exp() - log_ratio_BT - 1).clamp(-MAX_KL, MAX_KL)


def seq_mean_token_mean(loss_BT: Tensor, mask_BT: Tensor, scale_B: Tensor, divisor: float) -> Tensor:
    """Mean over a segment's mask-1 tokens, scaled by segment, summed, divided by a constant.

    A trial weighs the same however many segments it has because each of its segments' scale is one over their number,
    and the same in every step because the divisor does not depend on how many trials counted. With all scales 1 it
    equals verl's ``agg_loss(…, "seq-mean-token-mean", global_batch_size=divisor)``.

    Args:
        loss_BT: Loss of each token.
        mask_BT: Which tokens count; a segment without any contributes nothing.
        scale_B: 1 / segments of the segment's trial.
        divisor: Prompts × n of one update.

    Returns:
        A scalar. Over micro-batches it sums to the loss of the whole update.
    """
    return (_mean(loss_BT, mask_BT) * scale_B).sum() / divisor


def _mean(value_BT: Tensor, mask_BT: Tensor) -> Tensor:
    return _zero_outside(value_BT, mask_BT).sum(-1) / mask_BT.sum(-1).clamp(min=1)


def _zero_outside(value_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Zeroed by selection: a product would let an inf or NaN under mask 0 through."""
    return torch.where(mask_BT.bool(), value_BT, torch.zeros_like(value_BT))
