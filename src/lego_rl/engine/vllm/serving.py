"""What a server says of itself when a run begins, and whether it was started for one."""

import json
from dataclasses import dataclass

from lego_rl.engine.vllm.replica import Replica
from lego_rl.errors import ConfigError


@dataclass(frozen=True)
class Served:
    """What a server serves.

    Attributes:
        model: Its name there.
        context: Most positions of one sequence.
        platform: ``cpu`` or ``cuda``.
        dtype: What it computes in, such as ``bfloat16``.
        routed: Whether the policy has routers, so that every call must come with routes.
        digest: Of the weights.
    """

    model: str
    context: int
    platform: str
    dtype: str
    routed: bool
    digest: str

    @property
    def takes_seeds(self) -> bool:
        """Whether a call may have a seed: on CPUs vLLM 0.32.0 dies of one with a prompt that it prefills in parts."""
        return self.platform != "cpu"

    @property
    def routes_by_rpc(self) -> bool:
        """Whether routes are fetched from our worker: on CPUs vLLM returns none itself."""
        return self.platform == "cpu"

    def skips(self, routes_from: int) -> int:
        """How many rows of routes the server itself is to leave out."""
        return 0 if self.routes_by_rpc else routes_from


async def greet(replica: Replica, version: int) -> Served:
    """Open a connection, look at what is served, and name its weights.

    Args:
        replica: A server.
        version: Weight version of what it serves.

    Raises:
        ConfigError: It was not started for this.
        EngineError: It does not answer.
    """
    await replica.open()
    await replica.get("/health")
    models = json.loads(await replica.get("/v1/models"))["data"]
    inside = await replica.rpc("lego_serves")
    if len(models) != 1:
        raise ConfigError(f"{replica.url} serves {len(models)} models", "serve one policy, without adapters")
    await replica.post("/update_weight_version", {"new_version": str(version)})
    return Served(
        model=models[0]["id"],
        context=models[0]["max_model_len"],
        platform=inside["platform"],
        dtype=inside["dtype"],
        routed=inside["routed"],
        digest=inside["digest"],
    )
