"""A run that is killed leaves nothing, and nobody else's is touched."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kube_cluster import Cluster
from kube_tools import POLICIES, until

from lego_rl.sandbox.kubernetes.image import KubernetesImage
from lego_rl.sandbox.kubernetes.labels import LEGO, MANAGED_BY, OWNER, RUN, owner_of
from lego_rl.sandbox.kubernetes.provider import KubernetesProvider
from lego_rl.sandbox.settings import SandboxSettings

LEASES = "apis/coordination.k8s.io/v1"
RUNNER = """
import asyncio, json, pathlib, sys
from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.settings import SandboxSettings

async def main(settings, environment):
    provider = provider_of(SandboxSettings.model_validate(json.loads(settings)))
    image = await asyncio.to_thread(provider.prepare, pathlib.Path(environment), workdir="/app")
    limits = Limits(memory_mb=64, disk_mb=16, scratch_mb=8)
    box = await image.start(Phase.AGENT, limits=limits)
    print(json.dumps(box.name), flush=True)
    await box.exec(["sleep", "600"])

asyncio.run(main(*sys.argv[1:]))
"""


async def test_what_a_killed_run_leaves_is_removed_and_nothing_else(
    cluster: Cluster, settings: SandboxSettings, provider: KubernetesProvider, image: KubernetesImage, task_dir: Path
) -> None:
    foreign = [_lease(cluster, "somebody-else", old=True), _lease(cluster, owner_of(settings.kubernetes), old=False)]
    stale = _lease(cluster, owner_of(settings.kubernetes), old=True)
    killed = await asyncio.to_thread(_killed_run, settings, task_dir / "environment")
    (pod,) = [each for each in cluster.objects("pods") if each["metadata"]["name"] == killed]
    run = pod["metadata"]["labels"][RUN]
    # Nothing is asked of the cluster for this: the stream has ended.
    await until(lambda: _ended(cluster, killed))
    assert set(await asyncio.to_thread(provider.reap)) == {run, stale}
    kinds = (("pods", "api/v1"), ("configmaps", "api/v1"), ("networkpolicies", POLICIES), ("leases", LEASES))
    await until(lambda: not any(run in json.dumps(cluster.objects(kind, group)) for kind, group in kinds))
    names = [each["metadata"]["name"] for each in cluster.objects("leases", LEASES)]
    assert set(foreign) <= set(names) and stale not in names
    assert await asyncio.to_thread(provider.reap) == []


def _killed_run(settings: SandboxSettings, environment: Path) -> str:
    """Start a run with a sandbox, kill it, and say what its pod is called."""
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, settings.model_dump_json(), str(environment)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    try:
        assert runner.stdout is not None
        name: str = json.loads(runner.stdout.readline())
    finally:
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait()
        if runner.stdout is not None:
            runner.stdout.close()
    return name


def _ended(cluster: Cluster, name: str) -> bool:
    (pod,) = [each for each in cluster.objects("pods") if each["metadata"]["name"] == name]
    return any("terminated" in each["state"] for each in pod["status"]["containerStatuses"] if each["name"] == "work")


def _lease(cluster: Cluster, owner: str, *, old: bool) -> str:
    """A lease of a run on another machine."""
    name = f"lego-test-{owner.replace('.', '-')}-{'old' if old else 'new'}"
    renewed = datetime.now(UTC) - timedelta(seconds=600 if old else 0)
    lease: dict[str, Any] = {
        "metadata": {"name": name, "labels": {MANAGED_BY: LEGO, OWNER: owner, RUN: name}},
        "spec": {
            "holderIdentity": "another-machine 1 1 pid:[1]",
            "leaseDurationSeconds": 120,
            "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }
    cluster.ask("POST", f"/{LEASES}/namespaces/default/leases", lease)
    return name
