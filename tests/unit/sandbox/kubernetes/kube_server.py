"""An API server that answers from a script, over real HTTP."""

import asyncio
import json
from pathlib import Path
from typing import Any

from aiohttp import web

from lego_rl.sandbox.kubernetes.answers import Pod, read
from lego_rl.sandbox.kubernetes.run import Run
from lego_rl.sandbox.kubernetes.settings import KubernetesSettings

PODS = "/api/v1/namespaces/rollouts/pods"
RUNNING = {"name": "work", "ready": True, "state": {"running": {}}}


class Server:
    """Answers from a script; the last answer stays."""

    def __init__(self) -> None:
        self.script: list[tuple[int, Any, dict[str, str]]] = [(200, {}, {})]
        self.asked: list[tuple[str, str, Any]] = []
        self.heard = asyncio.Condition()
        self.headers: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else None
        async with self.heard:
            self.asked.append((request.method, request.path_qs, body))
            self.heard.notify_all()
        self.headers.append(request.headers.get("Authorization", ""))
        status, found, headers = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if status == 0:
            assert request.transport is not None
            request.transport.close()
        if isinstance(found, list):
            return web.Response(text="".join(json.dumps(each) + "\n" for each in found))
        return web.json_response(found, status=status or 200, headers=headers)


def kubeconfig(folder: Path, host: str) -> KubernetesSettings:
    raw = {
        "apiVersion": "v1", "kind": "Config", "current-context": "one",
        "clusters": [{"name": "one", "cluster": {"server": host}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "me", "namespace": "rollouts"}}],
    }  # fmt: skip
    (folder / "config").write_text(json.dumps(raw))
    return KubernetesSettings(kubeconfig=folder / "config")


class Told:
    """What the cluster says of pods, from one list after the other."""

    def __init__(self, run: Run, script: Server) -> None:
        self.run = run
        self.script = script

    async def __call__(self, **status: Any) -> None:
        """Have it say something of the pod, and wait until that is known."""
        marked = {"phase": "Running", "containerStatuses": [RUNNING], **status}
        pod = {"metadata": {"name": "pod"}, "status": marked}
        self.script.script = [(200, {"metadata": {"resourceVersion": "1"}, "items": [pod]}, {})]
        said = read(Pod, pod)
        await self.run.pods.wait("pod", lambda found: True if found == said else None)

    async def settled(self) -> None:
        """Wait until what it says by now is known."""
        asked = len(self.script.asked)
        async with self.script.heard:
            await self.script.heard.wait_for(lambda: len(self.script.asked) > asked + 1)
