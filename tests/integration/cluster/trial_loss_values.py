"""What the cluster's loss makes of given batches: a program for verl's environment.

Usage: trial_loss_values.py BATCHES.json VALUES.json. Rows are given as the trainer has them when it computes
advantages; verl's own functions add padding rows, importance weights and advantages, as its trainer does.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor
from verl.protocol import DataProto
from verl.trainer.ppo.padding_utils import construct_minimal_padding_template
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories
from verl.utils import tensordict_utils
from verl.workers.config import FSDPActorConfig, PolicyLossConfig
from verl.workers.config.actor import ActorConfig
from verl.workers.utils.padding import response_to_nested

from lego_rl.cluster.trainer.expected import ExpectedLoss
from lego_rl.cluster.trainer.losses import WEIGHT, trial_loss
from lego_rl.cluster.trainer.weights import BatchRow, row_weights

Row = dict[str, Any]


def nested(values: list[Any], dtype: torch.dtype) -> Tensor:
    return torch.nested.as_nested_tensor([torch.tensor(v, dtype=dtype) for v in values], layout=torch.jagged)


def padded(rows: list[Row], count: int) -> tuple[list[Row], list[bool]]:
    """Add verl's rows that fill a batch: one masked token after 127."""
    source = rows[0]
    fields = {
        "prompts": torch.zeros(source["prompt"], dtype=torch.int64),
        "responses": torch.zeros(len(source["mask"]), dtype=torch.int64),
    }
    template, tag = construct_minimal_padding_template(fields, {}, eos_token_id=1)
    filler = {
        "key": "",
        "prompt": len(template["prompts"]),
        "mask": template["response_mask"].tolist(),
        "reward": 0.0,
        "behaviour": template["rollout_log_probs"].tolist(),
        "old": [-0.7],
        "reference": [-0.2],
        "logp": [-0.9],
    }
    fillers = [filler | {"key": f"pad_{n}_0"} for n in range(count)]
    return rows + fillers, [False] * len(rows) + [tag["is_padding"]] * count


def batch_of(given: dict[str, Any]) -> tuple[TensorDict, list[Row]]:
    """The fields of a batch when the actor is updated, in the order in which verl computes them."""
    rows, padding = padded(given["rows"], given["padding"])
    mask = nested([row["mask"] for row in rows], torch.int64)
    scores = nested([[0.0] * (len(row["mask"]) - 1) + [row["reward"]] for row in rows], torch.float64)
    old = nested([row["old"] for row in rows], torch.float64)
    dense = TensorDict(
        {
            "response_mask": mask.to_padded_tensor(0),
            "token_level_rewards": scores.to_padded_tensor(0),
            "old_log_probs": old.to_padded_tensor(0),
            "rollout_log_probs": nested([row["behaviour"] for row in rows], torch.float64).to_padded_tensor(0),
        },
        batch_size=len(rows),
    )
    keys = [row["key"] for row in rows]
    data = DataProto(batch=dense, non_tensor_batch={"uid": np.array([k.rsplit("_", 2)[0] for k in keys], dtype=object)})
    correction = {"rollout_is": given["importance"], "rollout_is_threshold": given["cap"]}
    data, _ = compute_rollout_correction_and_add_to_batch(data, ActorConfigless(correction))
    data = compute_advantage_for_multi_trajectories(data, batch_keys=keys, adv_estimator="grpo")
    weighed = row_weights(
        [
            BatchRow(row["key"], row["reward"], any(row["mask"]), filler)
            for row, filler in zip(rows, padding, strict=True)
        ]
    )
    fields = {
        "prompts": nested([[0] * row["prompt"] for row in rows], torch.int64),
        "responses": nested([[0] * len(row["mask"]) for row in rows], torch.int64),
        "response_mask": mask,
        "old_log_probs": old,
        "ref_log_prob": nested([row["reference"] for row in rows], torch.float64),
        "advantages": response_to_nested(data.batch["advantages"], mask),
        WEIGHT: torch.tensor(weighed.weights, dtype=torch.float32).unsqueeze(-1),
    }
    if given["importance"] is not None:
        fields["rollout_is_weights"] = response_to_nested(data.batch["rollout_is_weights"], mask)
    return tensordict_utils.get_tensordict(fields), rows


class ActorConfigless(dict[str, Any]):
    """verl's rollout correction reads its settings by `get`."""


def loss_of(given: dict[str, Any]) -> dict[str, Any]:
    """Loss and gradient, summed over micro-batches."""
    data, rows = batch_of(given)
    logps = [torch.tensor(row["logp"], dtype=torch.float64, requires_grad=True) for row in rows]
    config = FSDPActorConfig(
        strategy="fsdp2",
        ppo_mini_batch_size=len(rows),
        ppo_micro_batch_size_per_gpu=1,
        rollout_n=1,
        clip_ratio_low=given["clip_low"],
        clip_ratio_high=given["clip_high"],
        loss_agg_mode="seq-mean-token-mean",
        policy_loss=PolicyLossConfig(loss_mode="lego_gspo"),
        use_kl_loss=True,
        kl_loss_type="low_var_kl",
        kl_loss_coef=given["kl_coefficient"],
    )
    assert isinstance(config, ActorConfig)
    expected = ExpectedLoss(
        given["clip_low"],
        given["clip_high"],
        given["kl_coefficient"],
        given["importance"],
        given["cap"] if given["importance"] else None,
        replayed=True,
        updates=1,
    )
    total = torch.zeros((), dtype=torch.float64)
    cut = len(rows) // 2
    for part in filter(lambda part: part.start < part.stop, (slice(0, cut), slice(cut, len(rows)))):
        micro = tensordict_utils.index_select_tensor_dict(data, list(range(len(rows)))[part])
        for name, fact in (("dp_size", 1), ("batch_num_tokens", 1), ("global_batch_size", given["divisor"])):
            tensordict_utils.assign_non_tensor_data(micro, name, fact)
        packed = []
        for row, logp in zip(rows[part], logps[part], strict=True):
            packed.append(torch.cat([torch.zeros(row["prompt"] - 1, dtype=torch.float64), logp, logp.new_zeros(1)]))
        output = {"log_probs": torch.nested.as_nested_tensor(packed, layout=torch.jagged)}
        loss, _ = trial_loss(config, output, micro, expected=expected)
        total = total + loss
    gradients = torch.autograd.grad(total, logps)
    own = len(given["rows"])
    assert all(not gradient.any() for gradient in gradients[own:])
    return {"value": total.item(), "gradient": [gradient.tolist() for gradient in gradients[:own]]}


def main(batches: Path, target: Path) -> None:
    found = [loss_of(given) for given in json.loads(batches.read_text(encoding="utf-8"))]
    target.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
