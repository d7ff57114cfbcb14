"""What the tests on a cluster share."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import yaml
from kube_cluster import IMAGE, Cluster

from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.settings import SandboxSettings

DOCS = Path(__file__).parents[3] / "docs" / "kubernetes.md"
PAUSE_SECONDS = 0.2
POLICIES = "apis/networking.k8s.io/v1"
LIMITS = Limits(memory_mb=192, disk_mb=24, scratch_mb=16, processes=256)


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for something that the cluster does in its own time."""
    for _ in range(int(seconds / PAUSE_SECONDS)):
        if await asyncio.to_thread(condition):
            return
        await asyncio.sleep(PAUSE_SECONDS)
    raise TimeoutError(f"it did not come about within {seconds} s")


def documented_role() -> dict[str, object]:
    """The Role of the documentation."""
    (text,) = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    role: dict[str, object] = yaml.safe_load(text)
    return role


def settings_for(cluster: Cluster, state: Path, user: str = "runner", **more: object) -> SandboxSettings:
    """What a recipe says to use the cluster, with room for a few pods on a small machine."""
    kubernetes = {"kubeconfig": str(cluster.kubeconfig(user)), "image": IMAGE, "pull_policy": "Never", "cpus": 0.3}
    raw = {"environment": "kubernetes", "state": str(state), "kubernetes": {**kubernetes, "start_sec": 60, **more}}
    return SandboxSettings.model_validate(raw)
