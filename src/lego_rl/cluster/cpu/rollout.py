"""How verl reaches its inference servers on the CPU: ``actor_rollout_ref.rollout.name=lego_cpu``.

Invariant: a rank pushes to the server of its own replica only, and only the first rank of a replica does.
"""

import asyncio
import os
from collections.abc import AsyncIterable, Iterable
from typing import TYPE_CHECKING, Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from torch import Tensor
from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry

if TYPE_CHECKING:
    from lego_rl.cluster.cpu.server import CpuServer

NAME = "lego_cpu"
_CALLS = 1_000
"""Calls that a server's actor takes in at the same time; the engine runs fewer."""


def server_name(replica: int) -> str:
    """Name of a replica's actor."""
    return f"lego_cpu_server_{replica}"


class CpuReplica(RolloutReplica):  # type: ignore[misc]  # verl is not there where types are checked
    """A replica of one server, on the node of its first worker."""

    @staticmethod
    def server_class() -> "type[CpuServer]":
        """What serves; imported late, for it loads the engine."""
        from lego_rl.cluster.cpu.server import CpuServer

        return CpuServer

    async def launch_servers(self) -> None:
        """Start the server and wait until it has the weights of the policy's folder."""
        node = await self.workers[0].__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id())
        server = (
            ray.remote(self.server_class())
            .options(
                name=server_name(self.replica_rank),
                num_cpus=0.1,
                max_concurrency=_CALLS,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node, soft=False),
            )
            .remote(
                path=str(self.model_config.path),
                max_running=min(self.config.max_num_seqs, 64),
                response_length=self.config.response_length,
            )
        )
        await server.ready.remote()
        self.servers, self._server_handle = [server], server
        self._server_address = server_name(self.replica_rank)


class CpuAdapter(base.BaseRollout):  # type: ignore[misc]
    """Pushes a rank's weights to the server of its replica."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int | None = None) -> None:
        super().__init__(config, model_config, device_mesh)
        rank, size = int(os.environ["RANK"]), self.config.tensor_model_parallel_size
        self.replica_rank = rank // size if replica_rank is None else replica_rank
        self.is_leader_rank = rank % size == 0

    async def resume(self, tags: list[str]) -> None:
        """Nothing was released."""

    async def release(self) -> None:
        """Keeps weights and cache: main memory is not shared with the trainer's."""

    async def update_weights(
        self,
        weights: Iterable[tuple[str, Tensor]] | AsyncIterable[tuple[str, Tensor]],
        wire_format: str = "named_tensors",
        global_steps: int | None = None,
        **_kwargs: Any,
    ) -> None:
        """Send all weights at once; see ``BaseRollout``."""
        assert wire_format == "named_tensors", wire_format
        assert global_steps is not None
        state: dict[str, Tensor] = {}
        if isinstance(weights, AsyncIterable):
            async for name, weight in weights:
                state[name] = weight.detach().cpu()
        else:  # every rank takes part in gathering them
            state = {name: weight.detach().cpu() for name, weight in weights}
        if self.is_leader_rank:
            server = await asyncio.to_thread(ray.get_actor, server_name(self.replica_rank))
            await server.load.remote(state, global_steps)


def _replica() -> type[RolloutReplica]:
    return CpuReplica


RolloutReplicaRegistry.register(NAME, _replica)
# The one table of verl that has no function to register with: its own backends are entries of this form, too.
base._ROLLOUT_REGISTRY[NAME, "async"] = f"{__name__}.{CpuAdapter.__name__}"
