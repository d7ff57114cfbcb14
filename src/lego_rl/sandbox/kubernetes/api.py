"""Requests to an API server: objects in and out, and the streams of programs in pods.

Invariant: a request ends with an answer or a `ClusterError`. What may pass by itself (too many requests, a server's own
error, a connection that broke) is asked again a bounded number of times; asking twice has the effect of asking once,
because every object has a name of its own.
"""

import asyncio
import logging
import random
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Self

import aiohttp

from lego_rl.documents import read_json
from lego_rl.sandbox.kubernetes.answers import Event, Version, read
from lego_rl.sandbox.kubernetes.connection import Connection, connection
from lego_rl.sandbox.kubernetes.errors import ClusterError, refused, unreachable
from lego_rl.sandbox.kubernetes.settings import KubernetesSettings

type Manifest = dict[str, Any]
"""An object of the cluster in the form in which it travels."""

ATTEMPTS = 6
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
"""Seconds between attempts; doubled each time, and spread so that trials do not come back at once."""
ATTEMPT_SECONDS = 30.0
OPERATION_SECONDS = 60.0
"""Of all attempts together: an API server that stops answering holds nobody up for longer."""
DISCARD_SECONDS = 20.0
"""The same where nothing may depend on the answer."""
HEARTBEAT_SECONDS = 30.0
STREAM_PROTOCOL = "v4.channel.k8s.io"
WATCH_SECONDS = 240
PASSING = (408, 425, 429, 500, 502, 503, 504)
_log = logging.getLogger(__name__)


class Api:
    """A connection to a cluster, for one event loop."""

    def __init__(self, cluster: Connection) -> None:
        self.cluster = cluster
        self._clock: datetime | None = None
        connector = aiohttp.TCPConnector(limit=0, ssl=cluster.tls if cluster.tls is not None else True)
        # Events may hold whole objects, which are up to 1.5 MiB long (etcd's limit).
        self._session = aiohttp.ClientSession(connector=connector, read_bufsize=1 << 21)

    @classmethod
    async def connect(cls, settings: KubernetesSettings) -> Self:
        """Read how to reach the cluster.

        Raises:
            SandboxError: There is no usable kubeconfig.
        """
        return cls(await connection(settings))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up."""
        await self._session.close()

    @property
    def namespace(self) -> str:
        """Where everything is created."""
        return self.cluster.namespace

    def path(self, group: str, kind: str, name: str = "") -> str:
        """The path of a kind of objects, or of one of them; ``v1`` is the core group."""
        root = f"/api/{group}" if group == "v1" else f"/apis/{group}"
        return f"{root}/namespaces/{self.namespace}/{kind}" + (f"/{name}" if name else "")

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Manifest:
        """An object or a list.

        Raises:
            ClusterError: There is none, or the cluster did not answer.
        """
        return await self._request("GET", path, query=query)

    async def create(self, path: str, manifest: Manifest) -> Manifest:
        """Create an object; one that an earlier attempt made is as good.

        Raises:
            ClusterError: The cluster refused it, or did not answer.
        """
        try:
            return await self._request("POST", path, body=manifest)
        except ClusterError as error:
            if error.status != 409:
                raise
            return await self.get(f"{path}/{manifest['metadata']['name']}")

    async def version(self) -> tuple[int, int]:
        """The API server's own.

        Raises:
            ClusterError: It does not answer.
        """
        found = read(Version, await self.get("/version"))
        major, minor = (re.match("[0-9]*", each)[0] or "0" for each in (found.major, found.minor))  # type: ignore[index]
        return int(major), int(minor)

    async def now(self) -> datetime:
        """The API server's clock, to the second.

        Raises:
            ClusterError: It does not answer, or does not tell the time.
        """
        if self._clock is None:
            await self.version()
        if self._clock is None:
            raise ClusterError("the cluster does not say what time it is", "look at what stands before its API server")
        return self._clock

    async def replace(self, path: str, manifest: Manifest) -> Manifest:
        """Put another state in the place of an object's.

        Raises:
            ClusterError: It changed meanwhile (409), is gone (404), or the cluster did not answer.
        """
        return await self._request("PUT", path, body=manifest)

    async def delete(self, path: str, *, uid: str | None = None) -> None:
        """Delete an object, what it owns in its wake, without a grace period; one that is gone already is fine.

        Args:
            path: The object's.
            uid: The one that is meant, where another may have taken its name.

        Raises:
            ClusterError: The cluster did not do it.
        """
        body: Manifest = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        try:
            await self._request("DELETE", path, body=body)
        except ClusterError as error:
            if error.status != 404:
                raise

    async def discard(self, path: str) -> None:
        """As `delete`, where nothing may depend on the answer: what is left is logged, and goes with the lease."""
        try:
            async with asyncio.timeout(DISCARD_SECONDS):
                await self.delete(path)
        except (ClusterError, TimeoutError) as error:
            said = error.problem if isinstance(error, ClusterError) else f"no answer within {DISCARD_SECONDS:.0f} s"
            _log.warning("%s is left on the cluster until its lease ends: %s", path, said)

    async def answers(self) -> bool:
        """Whether one attempt is answered by an API server, not by what stands before one.

        Raises:
            aiohttp.ClientError: It is not.
            OSError: It is not.
        """
        answer, _ = await self._once("GET", "/version", None, None)
        return answer.status < 500

    async def _request(
        self, method: str, path: str, *, body: Manifest | None = None, query: Mapping[str, str] | None = None
    ) -> Manifest:
        async with self._bounded():
            return await self._attempts(method, path, body, query)

    @asynccontextmanager
    async def _bounded(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(OPERATION_SECONDS):
                yield
        except TimeoutError as error:
            raise unreachable(self.cluster.host, f"nothing came within {OPERATION_SECONDS:.0f} s") from error

    async def _attempts(
        self, method: str, path: str, body: Manifest | None, query: Mapping[str, str] | None
    ) -> Manifest:
        pause = FIRST_PAUSE
        for attempt in range(1, ATTEMPTS + 1):
            wait = pause
            try:
                answer, wanted = await self._once(method, path, body, query)
                if answer.status < 400:
                    return wanted
                if answer.status not in PASSING or attempt == ATTEMPTS:
                    raise refused(method, path, answer.status, str(wanted.get("message") or ""))
                asked = answer.headers.get("Retry-After", "")
                wait = max(pause, float(asked)) if asked.isdecimal() else pause  # it may be a date, too
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                if attempt == ATTEMPTS:
                    raise unreachable(self.cluster.host, str(error) or type(error).__name__) from error
            _log.debug("asking the cluster again for %s %s (attempt %d failed)", method, path, attempt)
            await asyncio.sleep(min(wait, LONGEST_PAUSE) * random.uniform(0.5, 1.0))
            pause *= 2
        raise AssertionError("unreachable")

    async def _once(
        self, method: str, path: str, body: Manifest | None, query: Mapping[str, str] | None
    ) -> tuple[aiohttp.ClientResponse, Manifest]:
        async with self._session.request(
            method,
            self.cluster.host + path,
            params=query,
            json=body,
            headers=await self.cluster.headers(),
            proxy=self.cluster.proxy,
            server_hostname=self.cluster.server_name,
            timeout=aiohttp.ClientTimeout(total=ATTEMPT_SECONDS),
        ) as answer:
            text = await answer.text(errors="replace")
            with suppress(ValueError):
                self._clock = parsedate_to_datetime(answer.headers.get("Date", ""))
            try:
                found = read_json(text) if text else {}
            except ValueError:
                found = {"message": text}
            return answer, found if isinstance(found, dict) else {"message": text}

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Event]:
        """Each event (``ADDED``, ``MODIFIED``, ``DELETED``, ``ERROR``), until the server ends it.

        Raises:
            ClusterError: It cannot be watched.
        """
        params = {**query, "watch": "1", "timeoutSeconds": str(WATCH_SECONDS)}
        try:
            async with self._session.get(
                self.cluster.host + path,
                params=params,
                headers=await self.cluster.headers(),
                proxy=self.cluster.proxy,
                server_hostname=self.cluster.server_name,
                timeout=aiohttp.ClientTimeout(total=None, sock_read=WATCH_SECONDS + ATTEMPT_SECONDS),
            ) as answer:
                if answer.status >= 400:
                    raise refused("GET", path, answer.status, await answer.text(errors="replace"))
                async for line in answer.content:
                    yield read(Event, read_json(line))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, RecursionError) as error:
            raise unreachable(self.cluster.host, str(error) or type(error).__name__) from error

    async def stream(self, pod: str, container: str, argv: Sequence[str]) -> aiohttp.ClientWebSocketResponse:
        """Start a program in a container, its standard streams as channels of a WebSocket.

        Raises:
            ClusterError: It could not be started.
        """
        query = [("container", container), ("stdin", "1"), ("stdout", "1"), ("stderr", "1")]
        query += [("command", word) for word in argv]
        async with self._bounded():
            return await self._open(self.path("v1", "pods", pod) + "/exec", query)

    async def _open(self, path: str, query: list[tuple[str, str]]) -> aiohttp.ClientWebSocketResponse:
        pause = FIRST_PAUSE
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with asyncio.timeout(ATTEMPT_SECONDS):
                    return await self._session.ws_connect(
                        self.cluster.host + path,
                        params=query,
                        headers=await self.cluster.headers(),
                        proxy=self.cluster.proxy,
                        server_hostname=self.cluster.server_name,
                        protocols=(STREAM_PROTOCOL,),
                        heartbeat=HEARTBEAT_SECONDS,
                        max_msg_size=0,
                    )
            except aiohttp.WSServerHandshakeError as error:
                if error.status not in PASSING or attempt == ATTEMPTS:
                    raise refused("GET", path, error.status, error.message) from error
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                if attempt == ATTEMPTS:
                    raise unreachable(self.cluster.host, str(error) or type(error).__name__) from error
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)
        raise AssertionError("unreachable")
