"""verl's client, asked for one uninterrupted piece at a time.

Invariant: what is sampled for nobody is aborted, and an `EngineError` is raised for the state of the servers only: what
a server says of a request, which agents choose, comes through as it is. A server that is lost is asked by nobody again.
"""

import asyncio
from typing import Any, Self, cast
from uuid import uuid4

from ray.exceptions import RayActorError, RayError, RayTaskError
from verl.workers.rollout.llm_server import LLMServerClient

from lego_rl.cluster.pieces import Piece, SamplingParams
from lego_rl.engine.protocol import EngineError

_DEAD = "EngineDeadError"
"""How vLLM calls the error of a server whose engine is gone."""


class PieceClient(LLMServerClient):  # type: ignore[misc]  # verl is not there where types are checked
    """Implements `PieceServer` over the servers of a verl run."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._seen: dict[str, Any] = {}

    @classmethod
    def of(cls, client: LLMServerClient) -> Self:
        """A client of the same servers as one that verl has made, its resuming one included."""
        return cls(config=client.config, load_balancer_handle=client._load_balancer)

    async def piece(self, session: str, prompt_ids: list[int], params: SamplingParams) -> Piece:
        """Ask the session's server; see `PieceServer.piece`."""
        try:
            server_id, server = await self._acquire_server(session, prompt_ids=prompt_ids, sampling_params=params)
        except (RayError, RuntimeError) as error:  # the balancer is gone, or has no server left
            raise EngineError(f"no inference server can be had: {error}") from error
        self._seen[server_id] = server
        name = uuid4().hex
        try:
            found = await server.generate.remote(
                request_id=name,
                prompt_ids=prompt_ids,
                sampling_params=dict(params),
                image_data=None,
                video_data=None,
            )
        except asyncio.CancelledError:
            self._abort(server, name)
            raise
        except RayError as error:
            if (failed := _of_the_engine(error)) is None:
                raise
            self._leave(server_id)
            raise failed from None
        finally:
            self._release_server(server_id, request_id=session)
        return cast(Piece, found)

    async def alive(self) -> None:
        """Have a worker of any server answer between two steps; see `PieceServer.alive`."""
        probes = [asyncio.ensure_future(_probe(server)) for server in self._seen.values()]
        failed: BaseException | None = None
        try:
            for probe in asyncio.as_completed(probes):
                try:
                    return await probe
                except RayError as error:
                    failed = error
        finally:
            for probe in probes:
                probe.cancel()
        raise EngineError(f"no inference server answers: {failed or 'none was ever asked'}")

    def _leave(self, server_id: str) -> None:
        """Have nobody sent to a server that is lost: it has nothing to do, so it would be chosen first every time."""
        self._seen.pop(server_id, None)
        self._load_balancer.remove_servers.remote([server_id])

    def _abort(self, server: Any, name: str) -> None:
        """Nobody waits for the answer. The prefix cache stays: it holds what other calls need."""
        if self.config.actor_rollout_ref.rollout.name == "vllm":
            server.abort_request.remote(name, reset_prefix_cache=False)
        elif hasattr(server, "abort_request"):
            server.abort_request.remote(name)


async def _probe(server: Any) -> None:
    await server.collective_rpc.remote("check_health")


def _of_the_engine(error: RayError) -> EngineError | None:
    """The error as one of the engine's state; ``None`` where the server answered, and answered with an error."""
    if isinstance(error, RayTaskError) and not isinstance(error, RayActorError):
        return EngineError(str(error.cause)) if type(error.cause).__name__ == _DEAD else None
    return EngineError(f"an inference server is lost: {error}")
