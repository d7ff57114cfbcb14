"""Does a server do anything? Its counters say: of steps, and of calls that wait for one.

Source: Prometheus text of vLLM 0.32.0's ``/metrics``; ``vllm:iteration_tokens_total`` is observed once a step.
"""

import asyncio
from dataclasses import dataclass

from lego_rl.engine.vllm.replica import Replica

_STEPS = "vllm:iteration_tokens_total_count"
_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"
_PAUSE = 0.25


@dataclass(frozen=True)
class Activity:
    """Counters of a server: steps since it started, and calls that are in a batch or wait for a place in one."""

    steps: float
    unfinished: float

    @classmethod
    def parse(cls, text: str) -> "Activity":
        """Read Prometheus text; several engines of one server are added up."""
        totals = {_STEPS: 0.0, _RUNNING: 0.0, _WAITING: 0.0}
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            name = name.partition("{")[0]
            if name in totals:
                totals[name] += float(value)
        return cls(totals[_STEPS], totals[_RUNNING] + totals[_WAITING])


async def stepped(replica: Replica) -> None:
    """Return once a server has taken a step since this was called, or has none to take.

    Raises:
        EngineError: It does not answer, or says that it is not well.
    """
    before = Activity.parse(await replica.get("/metrics"))
    now = before
    while now.unfinished and now.steps == before.steps:
        await replica.get("/health")
        await asyncio.sleep(_PAUSE)
        now = Activity.parse(await replica.get("/metrics"))
