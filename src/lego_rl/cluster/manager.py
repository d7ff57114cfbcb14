"""verl's agent-loop manager whose workers apply the fault table.

``+actor_rollout_ref.rollout.agent.agent_loop_manager_class=lego_rl.cluster.manager.TrialManager``. What a step is told
of its groups, and what stops the run, is looked at where the trainer takes its batches (`cluster.sampler`).
"""

from typing import Any

import ray
from tensordict import TensorDict
from verl.experimental.agent_loop.agent_loop import AgentLoopManager
from verl.utils.ray_utils import auto_await

from lego_rl.cluster.worker import TrialWorker


class TrialManager(AgentLoopManager):  # type: ignore[misc]  # verl is not there where types are checked
    """Spreads prompts over workers, which run their trials and put what contributes into the queue."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.agent_loop_workers_class = ray.remote(TrialWorker)
        self._next = 0
        super().__init__(*args, **kwargs)

    @classmethod
    @auto_await  # type: ignore[untyped-decorator]
    async def create(cls, *args: Any, **kwargs: Any) -> "TrialManager":
        """Make the manager and its workers."""
        manager = cls(*args, **kwargs)
        await manager._init_agent_loop_workers()
        return manager

    def generate_sequences(self, prompts: TensorDict) -> None:
        """Begin the trials of a batch of prompts, and return.

        Prompts are dealt out one by one, on from the worker after the last one: a batch of one, as streams of prompts
        come in, must not go to the first worker always.

        Raises:
            LegoError: A worker cannot run trials at all; as Ray wraps it.
        """
        count = len(self.agent_loop_workers)
        begun = [
            self.agent_loop_workers[(self._next + place) % count].generate_sequences.remote(prompts[place : place + 1])
            for place in range(len(prompts))
        ]
        self._next = (self._next + len(prompts)) % count
        ray.get(begun)
