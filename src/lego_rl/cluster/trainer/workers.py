"""verl's actor and reference workers with this contract's loss, routing replay with FSDP2, and whole-batch updates.

Invariant: a batch is `updates` optimizer updates, however many rows its trials have. verl makes one of every so many
rows, which would take more and smaller steps the more often conversations are compacted.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import distributed
from torch.distributed.tensor import DTensor
from verl.experimental.separation.engine_workers import DetachActorWorker
from verl.single_controller.base.decorator import Dispatch, make_nd_compute_dataproto_dispatch_fn, register
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_name
from verl.workers.engine_workers import ActorRolloutRefWorker

from lego_rl.cluster.trainer.expected import ExpectedLoss
from lego_rl.cluster.trainer.losses import trial_loss

UPDATES = "lego_updates"
"""Field of a batch: its optimizer updates."""


class TrialWorker(ActorRolloutRefWorker):  # type: ignore[misc]  # verl is not there where types are checked
    """Actor, reference and rollout adapter of one rank."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._expected = ExpectedLoss.of_rollout(self.config.rollout)
        if self.config.actor.strategy == "fsdp2":
            self.enable_routing_replay = self._expected.replayed
        if get_device_name() == "cpu":
            _start_gloo()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator]
    def init_model(self) -> None:
        """verl's; then the actor's loss is this contract's.

        Raises:
            ConfigError: The actor's configuration is not what the recipe asks for.
        """
        super().init_model()
        if self._is_actor:
            config = self.loss_fn.keywords["config"]  # type: ignore[has-type]  # verl's `init_model` makes it
            self._expected.check_actor(config)
            self.loss_fn = partial(trial_loss, config=config, expected=self._expected)
            self.actor.set_loss_fn(self.loss_fn)

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="actor"))  # type: ignore[untyped-decorator]
    def update_actor(self, data: Any) -> Any:
        """verl's, in as many updates as the trainer says."""
        tu.pop(data, key="mini_batch_size")
        tu.assign_non_tensor(data, num_mini_batch=tu.pop(data, key=UPDATES))
        return super().update_actor(data)


class DetachedTrialWorker(TrialWorker, DetachActorWorker):  # type: ignore[misc]
    """The same, apart from the inference servers; it can also keep and restore weights."""

    @property
    def copy_handler(self) -> Callable[[torch.nn.Module], Any]:
        """verl's, but a copy: what it keeps of parameters that are in main memory, on a CPU or offloaded, are the
        parameters themselves, which the next update would change."""
        handler: Callable[[torch.nn.Module], Any] = super().copy_handler
        return partial(_copied, handler) if self.config.actor.strategy in ("fsdp2", "veomni") else handler


def _copied(handler: Callable[[torch.nn.Module], Any], module: torch.nn.Module) -> Any:
    """The shards of a module and their layout, none of them the module's own memory."""
    own = {_place(parameter) for parameter in module.parameters()}
    shards, layout = handler(module)
    return {name: (t.clone() if _place(t) in own else t, spec) for name, (t, spec) in shards.items()}, layout


def _place(tensor: torch.Tensor) -> tuple[str, int]:
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return str(local.device), local.data_ptr()


def _start_gloo() -> None:
    """verl would name gloo for the CPU twice, once as the accelerator, which torch refuses."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    if not distributed.is_initialized():
        distributed.init_process_group(
            "gloo",
            rank=int(os.environ["RANK"]),
            world_size=int(os.environ["WORLD_SIZE"]),
            init_method=os.environ.get("DIST_INIT_METHOD"),
        )
