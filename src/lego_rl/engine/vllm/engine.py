"""`Engine` over vLLM servers, all of one policy.

Invariants, beyond those of `Engine`:

- All servers hold the same weights under the same version whenever a call starts; none starts while they change.
- A call that a server failed is asked again of another one, as a new call; the failed one's tokens are seen by nobody.
- Routes come from the server where it returns them and from our worker inside it elsewhere; either way they begin at
  the position that was asked for.
"""

import asyncio
import itertools
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lego_rl.engine.protocol import EngineError, Sample, Sampling, Timings
from lego_rl.engine.vllm import wire
from lego_rl.engine.vllm.loop_thread import LoopThread
from lego_rl.engine.vllm.progress import stepped
from lego_rl.engine.vllm.replica import GENERATE, Replica, ReplicaError
from lego_rl.engine.vllm.routing import PrefixRouter
from lego_rl.engine.vllm.serving import Served, greet
from lego_rl.errors import ConfigError

_PAUSE_FIRST = 0.5


@dataclass(frozen=True)
class VllmOptions:
    """How servers are asked.

    Attributes:
        tries: How often a call is asked for in all, where servers fail.
        connect_seconds: Longest wait for a connection.
    """

    tries: int = 4
    connect_seconds: float = 10.0


class VllmEngine:
    """Samples from a policy that vLLM serves. It implements `Engine`.

    Args:
        urls: Of the servers, at least one.
        options: How they are asked.
        version: Weight version of what they serve now.

    Raises:
        ConfigError: A server was not started for this, or two of them serve different weights.
        EngineError: One cannot be reached.
    """

    def __init__(self, urls: Sequence[str], *, options: VllmOptions | None = None, version: int = 0) -> None:
        self._options = options or VllmOptions()
        self._replicas = [Replica(url, self._options.connect_seconds) for url in urls]
        self._router = PrefixRouter(self._replicas)
        self._name = secrets.token_hex(4)
        self._numbers = itertools.count()
        self._version = version
        self._thread = LoopThread("vllm-client")
        self._open = asyncio.Event()
        self._open.set()
        self._lost: str | None = None
        self._aborting: set[asyncio.Task[None]] = set()
        try:
            self._served = self._thread.call(self._begin())
        except BaseException:
            self.close()
            raise

    @property
    def weight_version(self) -> int:
        """Version of the weights that a call started now would sample from."""
        return self._version

    @property
    def served(self) -> Served:
        """What the servers serve, all of them."""
        return self._served

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        """Sample a continuation; see `Engine.generate`.

        Raises:
            ConfigError: The policy cannot answer this: ids outside its vocabulary, or a context too small.
            EngineError: No server answered.
        """
        return await self._thread.run(self._generate(prompt_ids, sampling, routes_from))

    async def progressed(self) -> None:
        """Return once every server that has anything to do has taken a step; see `Engine.progressed`.

        Raises:
            EngineError: A server does not answer or is not well.
        """
        await self._thread.run(self._progressed())

    async def load(self, folder: Path, version: int) -> str:
        """Serve the weights of a folder from now on: calls pause, take them over between two steps, and go on.

        What was computed before is dropped, so that everything after is sampled from the new weights alone; unfinished
        calls compute their prompt and answer again under them and go on (see `Sample.weight_versions`).

        Args:
            folder: With ``*.safetensors``, at the same place on every server's machine; made absolute here.
            version: Of these weights.

        Returns:
            Digest of what the servers took over.

        Raises:
            EngineError: A server failed; it is unknown what the servers hold.
        """
        return await self._thread.run(self._load(folder, version))

    def load_now(self, folder: Path, version: int) -> str:
        """`load`, for whoever has no event loop yet."""
        return self._thread.call(self._load(folder, version))

    async def pause(self) -> None:
        """Let no server take a step, and no call start, until `resume`; unfinished calls wait."""
        await self._thread.run(self._pause())

    async def resume(self) -> None:
        """Go on after `pause`."""
        await self._thread.run(self._resume())

    def close(self) -> None:
        """End every connection; unfinished calls are aborted."""
        self._thread.call(self._end())
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def _begin(self) -> Served:
        if not self._replicas:
            raise ConfigError("no server is named", "set engine.urls to the addresses of vLLM servers")
        served = await asyncio.gather(*(greet(replica, self._version) for replica in self._replicas))
        for replica, each in zip(self._replicas, served, strict=True):
            if each != served[0]:
                raise ConfigError(
                    f"{replica.url} serves another policy than {self._replicas[0].url}: {each}, {served[0]}",
                    "start all servers with one model folder and one dtype",
                )
        return served[0]

    async def _end(self) -> None:
        await asyncio.gather(*self._aborting, return_exceptions=True)
        await asyncio.gather(*(replica.close() for replica in self._replicas))

    async def _generate(self, prompt_ids: Sequence[int], sampling: Sampling, routes_from: int) -> Sample:
        self._check(prompt_ids, sampling)
        failed: list[Replica] = []
        while True:
            await self._open.wait()
            if self._lost is not None:
                raise EngineError(self._lost)
            replica = self._router.choose(prompt_ids, failed)
            try:
                return await self._ask(replica, prompt_ids, sampling, routes_from)
            except EngineError:
                failed.append(replica)
                if len(failed) >= self._options.tries:
                    raise
                await asyncio.sleep(_PAUSE_FIRST * 2 ** (len(failed) - 1))

    def _check(self, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        if len(prompt_ids) + sampling.max_tokens > self._served.context:
            raise ConfigError(
                f"a prompt of {len(prompt_ids)} ids and {sampling.max_tokens} to sample exceed the servers' context of "
                f"{self._served.context}",
                "lower the budget of the session, or serve with a longer --max-model-len",
            )

    async def _ask(self, replica: Replica, prompt_ids: Sequence[int], sampling: Sampling, routes_from: int) -> Sample:
        call_id = f"{self._name}-{next(self._numbers)}"
        seed = sampling.seed if self._served.takes_seeds else None
        body = wire.request(
            call_id, self._served.model, prompt_ids, sampling, seed, routes_from=self._served.skips(routes_from)
        )
        started = time.perf_counter()
        replica.running += 1
        try:
            choice = wire.read_choice(await replica.post(GENERATE, body))
        except asyncio.CancelledError:
            self._abort(replica, call_id)
            raise
        finally:
            replica.running -= 1
        routes = await self._routes(replica, call_id, choice, len(prompt_ids), routes_from)
        return Sample(
            call_id=call_id,
            prompt_ids=prompt_ids,
            token_ids=tuple(choice.token_ids),
            logprobs=wire.logprobs(choice),
            finish_reason=wire.finish_reason(choice),
            weight_versions=wire.weight_spans(choice),
            routes=routes,
            routes_from=0 if routes is None else routes_from,
            timings=Timings(decode=time.perf_counter() - started),
        )

    async def _routes(
        self, replica: Replica, call_id: str, choice: wire.Choice, prompt: int, routes_from: int
    ) -> NDArray[np.uint8] | None:
        """Routes of a call from a position on; none of a dense policy."""
        if not self._served.routed:
            return None
        text = choice.routed_experts
        if self._served.routes_by_rpc:
            text = (await replica.rpc("lego_routes", call_id, str(routes_from)))["npy"]
        if text is None:
            raise EngineError(f"{replica.url} returned no routes of a policy with routers")
        return wire.read_routes(text, prompt + len(choice.token_ids) - 1 - routes_from)

    def _abort(self, replica: Replica, call_id: str) -> None:
        """Free a cancelled call's place at once: a server may notice late that nobody waits for it."""

        async def abort() -> None:
            try:
                await replica.post("/abort_requests", {"request_ids": [f"generate-tokens-{call_id}"]})
            except (ReplicaError, ConfigError):
                return  # then it is answered to nobody

        task = asyncio.get_running_loop().create_task(abort())
        self._aborting.add(task)
        task.add_done_callback(self._aborting.discard)

    async def _progressed(self) -> None:
        if self._lost is not None:
            raise EngineError(self._lost)
        if self._open.is_set():
            await asyncio.gather(*(stepped(replica) for replica in self._replicas))

    async def _pause(self) -> None:
        self._open.clear()
        await asyncio.gather(*(each.post("/pause", {}, {"mode": "keep"}) for each in self._replicas))

    async def _resume(self) -> None:
        await asyncio.gather(*(each.post("/resume", {}) for each in self._replicas))
        self._open.set()

    async def _load(self, folder: Path, version: int) -> str:
        folder = _seen_by_servers(folder)
        try:
            await self._pause()
            digests = await asyncio.gather(*(self._load_one(each, folder, version) for each in self._replicas))
            if len(set(digests)) > 1:
                raise EngineError(f"servers took over different weights from {folder}: is it one folder for all?")
            self._router.forget()
            self._version = version
            await self._resume()
        except BaseException as error:
            self._lost = f"it is unknown which weights the servers hold, since a push of them failed: {error}"
            self._open.set()  # who waits is told
            raise
        return digests[0]

    async def _load_one(self, replica: Replica, folder: Path, version: int) -> str:
        digest = str((await replica.rpc("lego_load", str(folder)))["digest"])
        await replica.post("/update_weight_version", {"new_version": str(version)})
        done = await replica.post("/reset_prefix_cache", {}, {"reset_running_requests": "true"})
        if not done.get("success"):
            raise ReplicaError(f"{replica.url} keeps cached blocks of earlier weights")
        return digest


def _seen_by_servers(folder: Path) -> Path:
    """They have other working directories."""
    return folder.absolute()
