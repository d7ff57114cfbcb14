"""What stock verl makes of given batches: a program for verl's environment, which has no lego_rl.

Usage: verl_values.py BATCHES.json VALUES.json. Arrays are nested lists of float64; JSON keeps them exactly.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import verl
from tensordict import TensorDict
from torch import Tensor
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, compute_policy_loss_gspo, kl_penalty
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights
from verl.utils import tensordict_utils
from verl.workers.config import ActorConfig, PolicyLossConfig
from verl.workers.utils.losses import ppo_loss

type Batch = dict[str, Any]


def actor_config(batch: Batch) -> ActorConfig:
    """A new one for each loss: verl keeps the divisor of the last call in it."""
    rows = len(batch["rewards"])
    return ActorConfig(
        strategy="fsdp2",
        ppo_mini_batch_size=rows,
        ppo_micro_batch_size_per_gpu=rows,
        rollout_n=1,
        clip_ratio_low=batch["clip_low"],
        clip_ratio_high=batch["clip_high"],
        loss_agg_mode="seq-mean-token-mean",
        policy_loss=PolicyLossConfig(loss_mode="gspo"),
        use_kl_loss=True,
        kl_loss_type="low_var_kl",
        kl_loss_coef=batch["kl_coefficient"],
    )


def tensor(batch: Batch, name: str) -> Tensor:
    return torch.tensor(batch[name], dtype=torch.float64)


def differentiated(value: Tensor, by: Tensor) -> dict[str, Any]:
    (gradient,) = torch.autograd.grad(value, by)
    return {"value": value.item(), "gradient": gradient.tolist()}


def whole_loss(batch: Batch, logp: Tensor, mask: Tensor, advantage: Tensor, weights: Tensor) -> Tensor:
    """`ppo_loss` as a worker calls it: each row is one prompt token and the response; log-probs sit one to the left."""
    rows, length = mask.shape
    data = TensorDict(
        {
            "prompts": torch.zeros(rows, 1, dtype=torch.long),
            "responses": torch.zeros(rows, length, dtype=torch.long),
            "attention_mask": torch.ones(rows, 1 + length, dtype=torch.long),
            "response_mask": mask,
            "old_log_probs": tensor(batch, "old"),
            "ref_log_prob": tensor(batch, "reference"),
            "advantages": advantage,
            "rollout_is_weights": weights,
        },
        batch_size=rows,
    )
    for name, fact in (("dp_size", 1), ("batch_num_tokens", None), ("global_batch_size", batch["divisor"])):
        tensordict_utils.assign_non_tensor_data(data, name, fact)
    packed = torch.nn.functional.pad(logp, (0, 1)).flatten()
    loss, _ = ppo_loss(actor_config(batch), {"log_probs": packed}, data)
    return loss


def values(batch: Batch) -> dict[str, Any]:
    mask = torch.tensor(batch["mask"], dtype=torch.bool)
    rewards = torch.zeros(mask.shape, dtype=torch.float64)
    rewards[:, -1] = tensor(batch, "rewards")
    advantage, _ = compute_grpo_outcome_advantage(rewards, torch.ones_like(mask), np.array(batch["groups"]))

    logp, old = tensor(batch, "logp").requires_grad_(), tensor(batch, "old")
    policy_loss, metrics = compute_policy_loss_gspo(
        old, logp, advantage, mask, "seq-mean-token-mean", actor_config(batch)
    )
    kl = kl_penalty(logp, tensor(batch, "reference"), "low_var_kl")
    log_ratio = old - tensor(batch, "behaviour")
    weights = {
        level: compute_rollout_correction_weights(log_ratio, mask, level, batch["cap"])[0]
        for level in ("token", "sequence")
    }
    return {
        "advantage": advantage[:, 0].tolist(),
        "gspo": differentiated(policy_loss, logp),
        "clip_fraction": metrics["actor/pg_clipfrac"],
        "kl": kl.tolist(),
        "kl_gradient": differentiated(kl.sum(), logp)["gradient"],
        "weights": {level: weight.tolist() for level, weight in weights.items()},
        "whole": {
            level: differentiated(whole_loss(batch, logp, mask, advantage, weight), logp)
            for level, weight in weights.items()
        },
    }


def main(batches: Path, target: Path) -> None:
    answers = [values(batch) for batch in json.loads(batches.read_text(encoding="utf-8"))]
    versions = {"verl": verl.__version__, "torch": torch.__version__}
    target.write_text(json.dumps({"versions": versions, "values": answers}), encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
