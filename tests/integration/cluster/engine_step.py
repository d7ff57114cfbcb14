"""One GSPO step of a verl engine on captured segments, and its checkpoint: a program for verl's environment, one
process a rank.

Usage: RANK=… WORLD_SIZE=… STORE=… engine_step.py BACKEND POLICY SEGMENTS.npz OUT. Segment i is of rank i modulo world
size. Rank 0 writes OUT/values.npz: log-probs of every predicted token, by what was asked and by segment.
"""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor, distributed
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils
from verl.workers.config import (
    FSDPActorConfig,
    FSDPEngineConfig,
    FSDPOptimizerConfig,
    HFModelConfig,
    VeOmniActorConfig,
    VeOmniEngineConfig,
    VeOmniOptimizerConfig,
)
from verl.workers.config.engine import EngineRouterReplayConfig
from verl.workers.engine import EngineRegistry

from lego_rl.cluster.cpu import veomni as veomni_on_cpu
from lego_rl.cluster.trainer.expected import AGGREGATION, LOSS, ExpectedLoss
from lego_rl.cluster.trainer.losses import WEIGHT, trial_loss
from lego_rl.cluster.trainer.replay import FLAG

FULL = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
CLIP = {"clip_ratio_low": 3e-4, "clip_ratio_high": 4e-4}
LEARNING_RATE = 1e-3


def veomni(policy: Path) -> tuple[Any, Any]:
    veomni_on_cpu.register()
    config = VeOmniEngineConfig(
        strategy="veomni",
        attn_implementation="sdpa",
        moe_implementation="eager",
        causal_conv1d_implementation=veomni_on_cpu.KERNEL,
        chunk_gated_delta_rule_implementation=veomni_on_cpu.KERNEL,
        init_device="meta",
        use_torch_compile=False,
        mixed_precision=True,
        use_dynamic_bsz=False,
        use_remove_padding=True,
        router_replay=EngineRouterReplayConfig(mode="R3"),
    )
    optimizer = VeOmniOptimizerConfig(lr=LEARNING_RATE, weight_decay=0.0, total_training_steps=10)
    made = EngineRegistry.new(
        model_type="language_model",
        backend="veomni",
        model_config=model_config(policy),
        engine_config=config,
        optimizer_config=optimizer,
        checkpoint_config=CheckpointConfig(),
    )
    actor = VeOmniActorConfig(strategy="veomni", veomni=config, use_remove_padding=True, **actor_fields())
    return made, actor


def fsdp2(policy: Path) -> tuple[Any, Any]:
    config = FSDPEngineConfig(
        strategy="fsdp2", use_torch_compile=False, mixed_precision=FULL, model_dtype="fp32", use_dynamic_bsz=False
    )
    optimizer = FSDPOptimizerConfig(lr=LEARNING_RATE, weight_decay=0.0, total_training_steps=10)
    made = EngineRegistry.new(
        model_type="language_model",
        backend="fsdp2",
        model_config=model_config(policy),
        engine_config=config,
        optimizer_config=optimizer,
        checkpoint_config=CheckpointConfig(),
    )
    return made, FSDPActorConfig(strategy="fsdp2", **actor_fields())


def model_config(policy: Path) -> HFModelConfig:
    return HFModelConfig(
        path=str(policy),
        use_remove_padding=True,
        override_config={"attn_implementation": "sdpa"},
        enable_gradient_checkpointing=False,
    )


def actor_fields() -> dict[str, Any]:
    return {
        "ppo_mini_batch_size": 4,
        "ppo_micro_batch_size_per_gpu": 1,
        "rollout_n": 1,
        "loss_agg_mode": AGGREGATION,
        "policy_loss": {"loss_mode": LOSS},
        **CLIP,
    }


class Rows:
    """The segments of this rank; a row is trained on from its first sampled token on."""

    def __init__(self, file: Path, rank: int, world: int) -> None:
        with np.load(file) as arrays:
            self.total = int(arrays["segments"])
            self.numbers = [number for number in range(self.total) if number % world == rank]
            self.ids = [torch.from_numpy(arrays[f"ids-{n}"]).long() for n in self.numbers]
            self.masks = [torch.from_numpy(arrays[f"mask-{n}"]).long() for n in self.numbers]
            self.routes = [torch.from_numpy(arrays[f"routes-{n}"]).to(torch.int16) for n in self.numbers]
            self.advantages = [float(arrays[f"advantage-{n}"]) for n in self.numbers]
        self.prompts = [int(mask.argmax()) for mask in self.masks]

    def batch(self, routes: list[Tensor] | None, **more: list[Tensor]) -> TensorDict:
        responses = [row[p:] for row, p in zip(self.ids, self.prompts, strict=True)]
        masks = [mask[p:] for mask, p in zip(self.masks, self.prompts, strict=True)]
        fields = {
            "input_ids": nested(self.ids),
            "position_ids": nested([torch.arange(len(row)) for row in self.ids]),
            "prompts": nested([row[:p] for row, p in zip(self.ids, self.prompts, strict=True)]),
            "responses": nested(responses),
            "response_mask": nested(masks),
            "loss_mask": nested(masks),
            **{name: nested(values) for name, values in more.items()},
        }
        if routes is not None:
            fields["routed_experts"] = nested(routes)
        fields[WEIGHT] = torch.ones(len(self.ids), 1)
        facts = {
            "temperature": 1.0,
            "use_remove_padding": True,
            "use_dynamic_bsz": False,
            "micro_batch_size_per_gpu": 1,
            "use_fused_kernels": False,
            "pad_token_id": 0,
            "global_batch_size": self.total,
            FLAG: routes is not None,
        }
        return tensordict_utils.get_tensordict(fields, non_tensor_dict=facts)

    def padded_routes(self) -> list[Tensor]:
        """As verl's rows have them: one more, for the last token, which nobody recorded."""
        return [torch.cat([route, torch.zeros_like(route[:1])]) for route in self.routes]

    def other_routes(self) -> list[Tensor]:
        """Each position's neighbouring experts."""
        return [torch.cat([route.flip(0), torch.zeros_like(route[:1])]) for route in self.routes]


def nested(values: list[Tensor]) -> Tensor:
    return torch.nested.as_nested_tensor(values, layout=torch.jagged)


def answer(made: Any, batch: TensorDict) -> list[Tensor]:
    """Log-probs of every token but the first, of each row."""
    with made.eval_mode():
        found = made.infer_batch(batch)["model_output"]["log_probs"]
    return [row[:-1].detach().clone() for row in found.unbind()]


def train(made: Any, actor: Any, rows: Rows, old: list[Tensor]) -> float:
    """One update; returns the norm of its gradient."""
    expected = ExpectedLoss(
        clip_low=CLIP["clip_ratio_low"],
        clip_high=CLIP["clip_ratio_high"],
        kl_coefficient=0,
        importance=None,
        cap=None,
        replayed=True,
        updates=1,
    )
    responses = [len(row) - p for row, p in zip(rows.ids, rows.prompts, strict=True)]
    batch = rows.batch(
        rows.padded_routes(),
        old_log_probs=[row[p - 1 :] for row, p in zip(old, rows.prompts, strict=True)],
        advantages=[torch.full((n,), a) for n, a in zip(responses, rows.advantages, strict=True)],
    )
    with made.train_mode():
        done = made.train_batch(batch, partial(trial_loss, actor, expected=expected))
        made.lr_scheduler_step()
    return float(done["metrics"]["grad_norm"])


def main(backend: str, policy: Path, segments: Path, out: Path) -> None:
    rank, world = distributed.get_rank(), distributed.get_world_size()
    made, actor = {"veomni": veomni, "fsdp2": fsdp2}[backend](policy)
    made.initialize()
    rows = Rows(segments, rank, world)
    values = {
        "native": answer(made, rows.batch(None)),
        "replayed": answer(made, rows.batch(rows.padded_routes())),
        "other": answer(made, rows.batch(rows.other_routes())),
    }
    norm = train(made, actor, rows, values["replayed"])
    values["after"] = answer(made, rows.batch(None))
    values["after-replayed"] = answer(made, rows.batch(rows.padded_routes()))
    made.save_checkpoint(str(out / "run" / "checkpoints" / "global_step_1" / "actor"), global_step=1)
    found: list[Any] = [None] * world
    distributed.all_gather_object(found, (rows.numbers, values))
    if rank == 0:
        arrays = {
            f"{name}-{number}": row.float().numpy()
            for numbers, each in found
            for name, answers in each.items()
            for number, row in zip(numbers, answers, strict=True)
        }
        np.savez(out / "values.npz", grad_norm=norm, **arrays)


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.environ.setdefault("LOCAL_RANK", os.environ["RANK"])
    store = distributed.FileStore(os.environ["STORE"], int(os.environ["WORLD_SIZE"]))
    distributed.init_process_group(
        "gloo", store=store, rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"])
    )
    main(sys.argv[1], *map(Path, sys.argv[2:]))
    distributed.destroy_process_group()
