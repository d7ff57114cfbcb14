"""A hosted model, or any other, behind an OpenAI-compatible endpoint: whole conversations in, messages out.

Invariant: the key is read from an environment variable that the settings name, travels in one header to the endpoint
alone, and is in nothing that is raised, logged or returned. What fails is the endpoint's fault only where it also fails
a small conversation that no agent wrote; else it is what the agent asked that cannot be answered.
"""

import asyncio
import email.utils
import itertools
import logging
import math
import os
import random
import time
import urllib.request
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import aiohttp

from lego_rl.engine.chat_failures import ChatFailure, Kind, failure_of
from lego_rl.engine.chat_protocol import ChatReply, ChatSampling, PromptRefusedError, PromptTooLongError
from lego_rl.engine.chat_settings import ChatSettings
from lego_rl.engine.chat_wire import NoAnswerError, body_of, context_of, reply_of
from lego_rl.engine.protocol import EngineError
from lego_rl.errors import ConfigError
from lego_rl.messages import Json, Message, Tool

_LOG = logging.getLogger(__name__)

_LONGEST_PAUSE = 60.0
_PROBE_SECONDS = 60.0
_PROBE_TOKENS = 16
_PROBE = (Message("user", "Say OK."),)
_PROBE_TOOL = Tool("noop", "Does nothing.", {"type": "object", "properties": {}})
_CONNECT_SECONDS = 15.0
_LARGEST = 64 * 2**20
"""Bytes of an answer."""


class OpenAIChatBackend:
    """Implements `ChatBackend`; used in ``async with``, on one event loop at a time.

    Args:
        settings: Which endpoint, and how.

    Raises:
        ConfigError: The variable that `settings` name holds no key.
    """

    def __init__(self, settings: ChatSettings) -> None:
        self._settings = settings
        self._key = _key(settings.key_env)
        self._proxy = _proxy(settings.completions)
        self._numbers = itertools.count()
        self._client: aiohttp.ClientSession | None = None
        self._running = asyncio.Semaphore(settings.max_running)

    async def __aenter__(self) -> Self:
        headers = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
        self._running = asyncio.Semaphore(self._settings.max_running)
        self._client = aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def check(self, temperature: float) -> None:
        """Ask once, as trials will: what cannot work at all is refused before anything starts.

        Args:
            temperature: Of the trials.

        Raises:
            ConfigError: The endpoint cannot be reached, refuses the key, or does not take such requests.
        """
        try:
            await self._probe(temperature, (_PROBE_TOOL,))
        except ChatFailure as failure:
            raise ConfigError(
                f"the endpoint {self._settings.url} does not answer: {failure}", failure.fix(self._settings)
            ) from failure

    async def context(self) -> int | None:
        """Most tokens of prompt and answer together that the endpoint says the model has, as vLLM's list of models and
        some hosts' do; ``None`` where it does not say."""
        if self._client is None:
            raise RuntimeError("a chat backend is used in `async with`")
        limit = aiohttp.ClientTimeout(total=_CONNECT_SECONDS)
        try:
            async with self._client.get(
                self._settings.models, timeout=limit, allow_redirects=False, proxy=self._proxy
            ) as response:
                return context_of(await _text(response), self._settings.model) if response.ok else None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None

    async def answer(self, messages: Sequence[Message], tools: Sequence[Tool], sampling: ChatSampling) -> ChatReply:
        """See `ChatBackend.answer`."""
        body = body_of(self._settings, messages, tools, sampling)
        try:
            async with self._running:
                return await self._persist(body)
        except ChatFailure as failure:
            if failure.kind is Kind.TOO_LONG:
                raise PromptTooLongError(str(failure)) from failure
            if failure.kind is not Kind.CONTENT:
                # An agent can ask for what makes an endpoint fail: only that it fails everybody is evidence.
                await self._see_that_it_answers(failure)
            raise PromptRefusedError(str(failure)) from failure

    async def progressed(self) -> None:
        """See `ChatBackend.progressed`: it is asked something small."""
        await self._see_that_it_answers(None)

    async def _see_that_it_answers(self, seen: ChatFailure | None) -> None:
        try:
            await self._probe(1.0, ())
        except ChatFailure as failure:
            raise EngineError(f"the endpoint fails: {seen or failure}") from failure

    async def _probe(self, temperature: float, tools: Sequence[Tool]) -> None:
        body = body_of(self._settings, _PROBE, tools, ChatSampling(temperature, _PROBE_TOKENS))
        await self._post(body, min(_PROBE_SECONDS, self._settings.timeout_sec))

    async def _persist(self, body: Mapping[str, Json]) -> ChatReply:
        for tried in itertools.count():
            try:
                return await self._post(body, self._settings.timeout_sec)
            except ChatFailure as failure:
                if failure.kind is not Kind.TRANSIENT or tried >= self._settings.retries:
                    raise
                pause = self._pause(failure, tried)
                _LOG.info("the endpoint is asked again in %.1f s: %s", pause, failure)
            await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    def _pause(self, failure: ChatFailure, tried: int) -> float:
        if failure.retry_after is not None:
            return min(failure.retry_after, _LONGEST_PAUSE)
        # Spread, so that those who failed together do not come back together.
        return min(math.ldexp(self._settings.retry_pause_sec * random.uniform(0.75, 1.25), tried), _LONGEST_PAUSE)

    async def _post(self, body: Mapping[str, Json], seconds: float) -> ChatReply:
        """Ask once.

        Raises:
            ChatFailure: There is no answer.
        """
        if self._client is None:
            raise RuntimeError("a chat backend is used in `async with`")
        began = time.perf_counter()
        limit = aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_SECONDS)
        try:
            # Redirects are not followed: the key and the conversation are for this address.
            async with self._client.post(
                self._settings.completions, json=body, timeout=limit, allow_redirects=False, proxy=self._proxy
            ) as response:
                text = await _text(response)
                status, after = response.status, _retry_after(response.headers)
        except aiohttp.ConnectionTimeoutError as error:
            raise ChatFailure(Kind.TRANSIENT, f"no connection within {_CONNECT_SECONDS:g} s") from error
        except TimeoutError as error:
            raise ChatFailure(Kind.OTHER, f"no answer within {seconds:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ChatFailure(Kind.TRANSIENT, self._clean(f"{type(error).__name__}: {error}")) from error
        if (failure := failure_of(status, self._clean(text), after)) is not None:
            raise failure
        try:
            return reply_of(text, f"chat-{next(self._numbers)}", time.perf_counter() - began)
        except NoAnswerError as error:
            raise ChatFailure(Kind.TRANSIENT, self._clean(str(error))) from error

    def _clean(self, text: str) -> str:
        """Without the key, which an endpoint may repeat."""
        return text if self._key is None else text.replace(self._key, "[key]")


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(
            f"the environment variable {variable} holds no key",
            f"set it, as in: export {variable}=..., or name another",
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"what the environment variable {variable} holds is no key", "set it to the key and no more")
    return key


def _proxy(address: str) -> str | None:
    """The proxy of the environment, through which alone many machines reach the outside. aiohttp's own way to it would
    also look for logins in ``.netrc``, and refuse the key beside one."""
    parts = urlsplit(address)
    if parts.hostname is None or urllib.request.proxy_bypass(parts.hostname):
        return None
    return urllib.request.getproxies().get(parts.scheme)


async def _text(response: aiohttp.ClientResponse) -> str:
    pieces: list[bytes] = []
    async for piece in response.content.iter_chunked(2**16):
        pieces.append(piece)
        if sum(map(len, pieces)) > _LARGEST:
            raise ValueError(f"an answer of more than {_LARGEST} bytes")
    return b"".join(pieces).decode("utf-8", errors="replace")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds of ``Retry-After``, which may also be a date."""
    value = headers.get("Retry-After", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
