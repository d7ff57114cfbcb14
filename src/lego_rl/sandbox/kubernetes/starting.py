"""Pods on their way up: created, running, their keeper reached."""

import asyncio
from contextlib import AsyncExitStack

from lego_rl.sandbox.kubernetes import manifests, pod_status
from lego_rl.sandbox.kubernetes.answers import Pod
from lego_rl.sandbox.kubernetes.api import Manifest
from lego_rl.sandbox.kubernetes.errors import ClusterError
from lego_rl.sandbox.kubernetes.manifests import KEEPER
from lego_rl.sandbox.kubernetes.pod_status import Departure
from lego_rl.sandbox.kubernetes.run import Run
from lego_rl.sandbox.kubernetes.stream import PodStream


async def open_stream(run: Run, name: str, *control: str) -> PodStream:
    """A stream to the keeper of a pod, and with `control` to process 1 of its work container.

    Raises:
        SandboxError: There is no keeper, or it cannot reach that process.
    """
    argv = [run.settings.python, "-I", "-S", f"{manifests.PROGRAMS}/bridge.py", *control]
    return await PodStream.open(await run.api.stream(name, KEEPER, argv))


async def create_pod(run: Run, pod: Manifest, stack: AsyncExitStack) -> None:
    """Create a pod, to be deleted when `stack` ends.

    Raises:
        ClusterError: The cluster refused it.
    """
    pods = run.api.path("v1", "pods")
    stack.push_async_callback(run.api.discard, f"{pods}/{pod['metadata']['name']}")
    await run.api.create(pods, pod)


async def wait_for(run: Run, name: str, *containers: str) -> Pod:
    """Wait until some containers of a pod run.

    Raises:
        ClusterError: They will not, or not in time.
    """

    def running(pod: Pod | None) -> Pod | None:
        if pod is None:
            return None
        if (stuck := pod_status.cannot_start(pod)) is not None:
            raise ClusterError(f"pod {name} does not start: {stuck[0]}", stuck[1])
        if (left := pod_status.departed(pod)).how is not Departure.NONE:
            raise ClusterError(f"pod {name} was lost before it started: {left.said}", "look at the cluster's events")
        return pod if all(pod_status.is_running(pod, each) for each in containers) else None

    try:
        async with asyncio.timeout(run.settings.start_sec):
            return await run.pods.wait(name, running)
    except TimeoutError as error:
        pod = run.pods.get(name)
        why = pod_status.why_pending(pod) if pod is not None else "the cluster does not know it"
        raise ClusterError(
            f"pod {name} did not start within {run.settings.start_sec:.0f} s: {why}",
            "start fewer at once, or raise sandbox.kubernetes.start_sec",
        ) from error
