"""What one micro-batch adds to the loss: GSPO weighed by who sampled, plus the price of leaving the reference.

Invariant: with all scales 1 this is verl's ``ppo_loss`` (``verl.workers.utils.losses``) with ``loss_mode=gspo``,
``loss_agg_mode=seq-mean-token-mean`` and ``kl_loss_type=low_var_kl``: the function that trains on a cluster.

Suffixes: B segments, T positions.
"""

from dataclasses import dataclass

from torch import Tensor

from lego_rl.train.importance import ImportanceWeights, importance_weights
from lego_rl.train.losses import PolicyLoss, gspo, low_variance_kl, seq_mean_token_mean
from lego_rl.train.settings import LossSettings


@dataclass(frozen=True)
class Objective:
    """The loss of one micro-batch and what it is made of.

    Attributes:
        loss: Scalar; carries the gradient.
        policy_loss: Scalar, detached; the loss without the KL term.
        policy: GSPO of every token.
        weights: What each token's policy loss was multiplied by.
        kl_BT: Estimate of the KL to the reference at each token; ``None`` without a reference.
    """

    loss: Tensor
    policy_loss: Tensor
    policy: PolicyLoss
    weights: ImportanceWeights
    kl_BT: Tensor | None


def objective(
    settings: LossSettings,
    logp_BT: Tensor,
    *,
    old_logp_BT: Tensor,
    behaviour_logp_BT: Tensor,
    reference_logp_BT: Tensor | None,
    advantage_B: Tensor,
    mask_BT: Tensor,
    scale_B: Tensor,
    divisor: float,
) -> Objective:
    """The objective of one micro-batch.

    Args:
        settings: Clip, KL coefficient and importance correction.
        logp_BT: Log-probs under the policy that is updated; carries the gradient.
        old_logp_BT: The trainer's log-probs before the first update of the batch.
        behaviour_logp_BT: Log-probs recorded when the tokens were sampled.
        reference_logp_BT: Log-probs under the reference; ``None`` leaves the KL term out.
        advantage_B: Advantage of each segment's trial.
        mask_BT: Bool; which tokens count.
        scale_B: 1 / segments of the segment's trial.
        divisor: Prompts × n of one update.
    """
    policy = gspo(logp_BT, old_logp_BT, advantage_B, mask_BT, clip_low=settings.clip_low, clip_high=settings.clip_high)
    weights = importance_weights(settings.importance, old_logp_BT, behaviour_logp_BT, mask_BT)
    loss = seq_mean_token_mean(policy.loss_BT * weights.weight_BT, mask_BT, scale_B, divisor)
    policy_loss, kl_BT = loss.detach(), None
    if reference_logp_BT is not None:
        kl_BT = low_variance_kl(logp_BT, reference_logp_BT)
        loss = loss + settings.kl_coefficient * seq_mean_token_mean(kl_BT, mask_BT, scale_B, divisor)
    return Objective(loss, policy_loss, policy, weights, kl_BT)
