"""One vLLM server over HTTP: what it is asked, and which of its failures may be tried again.

Source: vLLM 0.32.0, started with ``--enable-scale-out`` and ``VLLM_SERVER_DEV_MODE=1``, as `lego-rl serve policy` does.
"""

from collections.abc import Mapping
from typing import Any

import aiohttp

from lego_rl.engine.protocol import EngineError
from lego_rl.errors import ConfigError
from lego_rl.settings import shown

GENERATE = "/inference/v1/generate"
_SERVE = "start it with: lego-rl serve policy MODEL"
_CLIENT_ERRORS = range(400, 500)
_NOT_NOW = frozenset({408, 409, 425, 429})
_HEALTH_SECONDS = 10.0


class ReplicaError(EngineError):
    """A server that did not answer, or that failed; another one may answer the same."""


class Replica:
    """A server.

    Args:
        url: Such as ``http://127.0.0.1:8000``.
        connect_seconds: Longest wait for a connection; an answer may take as long as it takes.

    Attributes:
        url: Without a slash at its end.
        running: Calls that it is at work on for this process.
    """

    def __init__(self, url: str, connect_seconds: float) -> None:
        self.url = url.rstrip("/")
        self.running = 0
        self._connect = connect_seconds
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Begin: connections belong to the running event loop."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._connect)
        connector = aiohttp.TCPConnector(limit=0)  # how many calls there are is decided elsewhere
        self._session = aiohttp.ClientSession(timeout=timeout, connector=connector, trust_env=False)

    async def close(self) -> None:
        """End every connection."""
        if self._session is not None:
            await self._session.close()

    async def post(self, path: str, body: Mapping[str, Any], query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """What the server answers; an empty answer is no keys.

        Raises:
            ReplicaError: It cannot be reached, or it failed.
            ConfigError: It refuses the request, and would refuse it again.
        """
        async with self._request("POST", path, json=body, params=query) as response:
            found: dict[str, Any] = await response.json() if response.content_type == "application/json" else {}
            return found

    async def get(self, path: str) -> str:
        """The text that the server answers, within seconds.

        Raises:
            ReplicaError: As for `post`, or it takes too long.
            ConfigError: As for `post`.
        """
        async with self._request("GET", path, timeout=aiohttp.ClientTimeout(total=_HEALTH_SECONDS)) as response:
            return await response.text()

    async def rpc(self, method: str, *arguments: str) -> dict[str, Any]:
        """Call a method of the server's workers; all of them answer the same, and the first answer counts.

        Raises:
            ReplicaError: As for `post`.
            ConfigError: As for `post`.
        """
        answer = await self.post("/collective_rpc", {"method": method, "args": list(arguments)})
        found: dict[str, Any] = answer["results"][0]
        return found

    def _request(self, method: str, path: str, **options: Any) -> "_Request":
        if self._session is None:
            raise ReplicaError(f"{self.url} is not open")
        return _Request(self._session, method, self.url + path, options)


class _Request:
    """A request whose failures are ours."""

    def __init__(self, session: aiohttp.ClientSession, method: str, url: str, options: Mapping[str, Any]) -> None:
        self._url = url
        self._context = session.request(method, url, **options)

    async def __aenter__(self) -> aiohttp.ClientResponse:
        try:
            response = await self._context.__aenter__()
            if not response.ok:
                raise _failure(self._url, response.status, await response.text())
            return response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ReplicaError(f"{self._url} does not answer: {error or type(error).__name__}") from error

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        await self._context.__aexit__(kind, error, None)
        if isinstance(error, aiohttp.ClientError | TimeoutError):
            raise ReplicaError(f"{self._url} broke off its answer: {error or kind}") from error


def _failure(url: str, status: int, text: str) -> Exception:
    said = f"{url} answered {status}: {shown(' '.join(text.split()))}"
    if status in _CLIENT_ERRORS and status not in _NOT_NOW:
        return ConfigError(said, _SERVE)
    return ReplicaError(said)
