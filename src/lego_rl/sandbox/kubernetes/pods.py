"""What the cluster says of a run's pods, from one watch for all of them.

Invariant: of a pod that has ended by itself, or was evicted, what was said then stays known. Clusters tidy such pods
away, and one that an agent made end must not look like one that somebody took from it.
"""

import asyncio
import logging
from collections.abc import Callable

from lego_rl.sandbox.kubernetes.answers import Pod, PodList, read
from lego_rl.sandbox.kubernetes.api import Api
from lego_rl.sandbox.kubernetes.errors import ClusterError
from lego_rl.sandbox.kubernetes.pod_status import has_settled

RETRY_SECONDS = 1.0
GIVE_UP_SECONDS = 45.0
"""For how long pods cannot be watched before whoever waits for one is told."""
_log = logging.getLogger(__name__)


class Pods:
    """The pods with some labels.

    Args:
        api: The cluster.
        selector: Their labels, as a query.
    """

    def __init__(self, api: Api, selector: str) -> None:
        self._api = api
        self._path = api.path("v1", "pods")
        self._selector = selector
        self._known: dict[str, Pod] = {}
        self._changed = asyncio.Condition()
        self._failure: ClusterError | None = None
        self._task = asyncio.create_task(self._follow())

    async def close(self) -> None:
        """Stop watching."""
        self._task.cancel()
        await asyncio.wait({self._task})

    def get(self, name: str) -> Pod | None:
        """What was last said of a pod; ``None`` where there is none."""
        return self._known.get(name)

    async def wait[T](self, name: str, found: Callable[[Pod | None], T | None]) -> T:
        """Wait until `found` returns something of a pod.

        Raises:
            ClusterError: The cluster has not answered for a while.
        """
        async with self._changed:
            while True:
                if (result := found(self._known.get(name))) is not None:
                    return result
                if self._failure is not None:
                    raise self._failure
                await self._changed.wait()

    async def _follow(self) -> None:
        failing_since: float | None = None
        loop = asyncio.get_running_loop()
        while True:
            asked: float | None = loop.time()
            try:
                version = await self._list()
                asked = failing_since = None
                await self._update(None)
                await self._events(version)
            except ClusterError as error:
                failing_since = failing_since or asked or loop.time()
                if loop.time() - failing_since > GIVE_UP_SECONDS or error.status in (401, 403):
                    await self._update(error)
                _log.debug("the pods cannot be watched: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _list(self) -> str:
        found = read(PodList, await self._api.get(self._path, {"labelSelector": self._selector}))
        async with self._changed:
            settled = {name: pod for name, pod in self._known.items() if has_settled(pod)}
            self._known = {pod.metadata.name: pod for pod in found.items or ()} | settled
            self._changed.notify_all()
        return found.metadata.resource_version

    async def _events(self, version: str) -> None:
        """Follow what happens until the server ends the watch, or has forgotten where it began."""
        query = {"labelSelector": self._selector, "resourceVersion": version}
        async for event in self._api.watch(self._path, query):
            if event.type == "ERROR":
                return
            pod = read(Pod, event.object)
            name = pod.metadata.name
            async with self._changed:
                if name in self._known and has_settled(self._known[name]):
                    continue
                if event.type == "DELETED" and not has_settled(pod):
                    self._known.pop(name, None)
                else:
                    self._known[name] = pod
                self._changed.notify_all()

    async def _update(self, failure: ClusterError | None) -> None:
        async with self._changed:
            self._failure = failure
            self._changed.notify_all()
