"""What verl's FSDP2 engine makes of recorded experts: a program for verl's environment.

Usage: replay_values.py POLICY VALUES.json. Every figure is the largest difference of two answers that are to be equal,
or to differ.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, distributed, nn
from transformers import AutoModelForCausalLM
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
from verl.workers.engine import EngineRegistry

from lego_rl.cluster.trainer.replay import FLAG, ReplayEngine
from lego_rl.errors import CaptureError
from lego_rl.train.replay import replay, routers

LENGTHS = ((3, 6), (4, 5), (7, 9), (2, 11))


def engine(policy: Path, *, packed: bool, checkpointing: bool) -> Any:
    full = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    made = EngineRegistry.new(
        model_type="language_model",
        backend="fsdp2",
        model_config=HFModelConfig(
            path=str(policy),
            use_remove_padding=packed,
            override_config={"attn_implementation": "sdpa"},
            enable_gradient_checkpointing=checkpointing,
        ),
        engine_config=FSDPEngineConfig(
            strategy="fsdp2", use_torch_compile=False, mixed_precision=full, model_dtype="fp32", use_dynamic_bsz=False
        ),
        optimizer_config=FSDPOptimizerConfig(lr=1e-3, total_training_steps=10),
        checkpoint_config=CheckpointConfig(),
    )
    assert isinstance(made, ReplayEngine), type(made)
    made.initialize()
    return made


def nested(values: list[Tensor]) -> Tensor:
    return torch.nested.as_nested_tensor(values, layout=torch.jagged)


def batch_of(ids: list[Tensor], *, packed: bool, routes: list[Tensor] | None, replayed: bool) -> TensorDict:
    fields = {
        "input_ids": nested(ids),
        "position_ids": nested([torch.arange(len(row)) for row in ids]),
        "prompts": nested([row[:prompt] for row, (prompt, _) in zip(ids, LENGTHS, strict=True)]),
        "responses": nested([row[prompt:] for row, (prompt, _) in zip(ids, LENGTHS, strict=True)]),
        "loss_mask": nested([torch.ones(response, dtype=torch.int64) for _, response in LENGTHS]),
    }
    if routes is not None:
        fields["routed_experts"] = nested([route.to(torch.int16) for route in routes])
    facts = {
        "temperature": 1.0,
        "use_remove_padding": packed,
        "use_dynamic_bsz": False,
        "micro_batch_size_per_gpu": 2,
        "use_fused_kernels": False,
        "pad_token_id": 0,
        "global_batch_size": len(ids),
        FLAG: replayed,
    }
    return tensordict_utils.get_tensordict(fields, non_tensor_dict=facts)


def answer(made: Any, batch: TensorDict) -> Tensor:
    with made.eval_mode():
        found = made.infer_batch(batch)["model_output"]["log_probs"]
    return torch.cat([row[:-1] for row in found.unbind()])


def router_gradient(made: Any, batch: TensorDict) -> Tensor:
    """The first router's gradient, of the sum of all log-probs."""

    def loss(model_output: Any, data: Any, dp_group: Any = None) -> tuple[Tensor, dict[str, Any]]:
        del data, dp_group
        return model_output["log_probs"].values().sum(), {}

    with made.train_mode():
        made.optimizer_zero_grad()
        made.forward_backward_batch(batch, partial(loss))
        gradient = routers(made.module)[0].weight.grad
        assert gradient is not None
        found: Tensor = gradient.full_tensor().clone()
        made.optimizer_zero_grad()
    return found


def alone(module: nn.Module, ids: list[Tensor], routes: list[Tensor] | None) -> Tensor:
    """Log-probs of each row by itself, outside verl."""
    rows = []
    for at, row in enumerate(ids):
        with torch.no_grad():
            if routes is None:
                logits = module(row[None]).logits[0]
            else:
                with replay(module, routes[at], torch.ones(len(row), dtype=torch.bool)):
                    logits = module(row[None]).logits[0]
        rows.append(logits[:-1].log_softmax(-1).gather(-1, row[1:, None])[:, 0])
    return torch.cat(rows)


def drawn_routes(ids: list[Tensor], module: nn.Module, generator: torch.Generator) -> list[Tensor]:
    gates = routers(module)
    shape = (len(gates), gates[0].num_experts)
    return [torch.rand((len(row), *shape), generator=generator).argsort(-1)[..., : gates[0].top_k] for row in ids]


def own_routes(module: nn.Module, ids: list[Tensor]) -> list[Tensor]:
    """What the routers choose by themselves."""
    found = []
    for row in ids:
        layers: list[Tensor] = []
        hooks = [
            gate.register_forward_hook(lambda _gate, _args, out, to=layers: to.append(out[2]))
            for gate in routers(module)
        ]
        with torch.no_grad():
            module(row[None])
        for hook in hooks:
            hook.remove()
        found.append(torch.stack(layers, dim=1))
    return found


def gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def main(policy: Path, target: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    ids = [torch.randint(0, 1700, (sum(lengths),), generator=generator) for lengths in LENGTHS]
    module = AutoModelForCausalLM.from_pretrained(policy, attn_implementation="sdpa", dtype=torch.float32)
    own, other = own_routes(module, ids), drawn_routes(ids, module, generator)
    blank = [torch.zeros_like(route) for route in own]
    expected = {"own": alone(module, ids, None), "other": alone(module, ids, other)}
    found: dict[str, float] = {"other experts matter": gap(expected["own"], expected["other"])}
    gradients = {}
    for name, packed, checkpointing in (("packed", True, True), ("padded", False, False)):
        made = engine(policy, packed=packed, checkpointing=checkpointing)

        def ask(routes: list[Tensor] | None, replayed: bool, made: Any = made, packed: bool = packed) -> Tensor:
            return answer(made, batch_of(ids, packed=packed, routes=routes, replayed=replayed))

        found[f"{name}: nothing replayed"] = gap(ask(None, False), expected["own"])
        found[f"{name}: not asked to replay"] = gap(ask(other, False), expected["own"])
        found[f"{name}: its own experts"] = gap(ask(own, True), expected["own"])
        found[f"{name}: other experts"] = gap(ask(other, True), expected["other"])
        found[f"{name}: padding"] = gap(ask(blank, True), expected["own"])
        gradients[name] = router_gradient(made, batch_of(ids, packed=packed, routes=other, replayed=True))
        gradients[f"{name} own"] = router_gradient(made, batch_of(ids, packed=packed, routes=None, replayed=False))
        try:
            ask(None, True)
        except CaptureError as error:
            print(error)
        else:
            raise AssertionError("rows without routes were replayed")
    scale = float(gradients["padded"].abs().max())
    found["gradient with activations computed again"] = gap(gradients["packed"], gradients["padded"]) / scale
    found["gradient of other experts matters"] = gap(gradients["packed"], gradients["packed own"]) / scale
    target.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
    distributed.destroy_process_group()
