"""An inference server of verl on the CPU: the embedded engine in a Ray actor.

Invariant: an answer was sampled under one weight version. `abort_all_requests` has every running call answer with what
it has so far and returns when none is left, so that weights change while none runs; calls that come meanwhile wait.

A call is sampled in chunks, between which it can end early. The engine's prefix cache holds what the chunk before has
computed, and routes are asked for from there on, so a chunk computes few positions twice and none of them counts twice.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from verl.workers.rollout.replica import TokenOutput

from lego_rl.cluster.experts import fuse_experts
from lego_rl.engine.embedded import EmbeddedEngine, EngineOptions
from lego_rl.engine.protocol import Sample, Sampling
from lego_rl.errors import ConfigError

CHUNK_TOKENS = 16
"""Most tokens that are sampled before a call looks whether it is aborted."""
_UNPUBLISHED = -1
"""Version of the folder's weights, before the trainer has sent any."""


@dataclass
class _Answer:
    """What of a call was sampled so far."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    routes: list[NDArray[np.uint8]] = field(default_factory=list)
    routed: int = 0

    def add(self, sample: Sample) -> None:
        """Take a chunk."""
        self.token_ids += sample.token_ids
        self.logprobs += sample.logprobs.tolist()
        if sample.routes is not None:
            self.routes.append(sample.routes)
            self.routed += len(sample.routes)

    def output(self, reason: str, version: int) -> TokenOutput:
        """The call's answer."""
        return TokenOutput(
            token_ids=self.token_ids,
            log_probs=self.logprobs,
            routed_experts=np.concatenate(self.routes) if self.routes else None,
            stop_reason=reason,
            num_preempted=0,
            extra_fields={"global_steps": version},
        )


class CpuServer:
    """Answers calls of verl's clients.

    Args:
        path: Hugging Face directory of the policy.
        max_running: Calls decoded together.
        response_length: Most tokens of an answer whose call says nothing.
    """

    def __init__(self, path: str, max_running: int, response_length: int) -> None:
        options = EngineOptions(max_running=max_running)
        self._engine = EmbeddedEngine.from_directory(Path(path), version=_UNPUBLISHED, options=options)
        self._stop_token_ids = _stop_tokens(Path(path))
        self._response_length = response_length
        self._open, self._idle = asyncio.Event(), asyncio.Event()
        self._open.set()
        self._idle.set()
        self._running: set[str] = set()
        self._unwanted: set[str] = set()

    async def generate(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        sampling_params: Mapping[str, Any],
        image_data: None = None,
        video_data: None = None,
    ) -> TokenOutput:
        """Sample an answer; see verl's servers.

        Raises:
            ConfigError: The call asks for what this server cannot do.
        """
        del image_data, video_data
        sampling = self._sampling(sampling_params)
        await self._open.wait()
        with self._counted(request_id):
            return await self._answer(request_id, list(prompt_ids), sampling)

    async def _answer(self, request_id: str, prompt: list[int], sampling: Sampling) -> TokenOutput:
        answer, version = _Answer(), self._engine.weight_version
        while self._open.is_set() and request_id not in self._unwanted:
            left = sampling.max_tokens - len(answer.token_ids)
            chunk = Sampling(sampling.temperature, min(CHUNK_TOKENS, left), sampling.stop_token_ids)
            sample = await self._engine.generate(
                [*prompt, *answer.token_ids], chunk, routes_from=answer.routed if answer.routes else 0
            )
            answer.add(sample)
            if sample.finish_reason == "stop" or len(answer.token_ids) == sampling.max_tokens:
                return answer.output("completed", version)
        return answer.output("aborted", version)

    @contextmanager
    def _counted(self, request_id: str) -> Iterator[None]:
        self._running.add(request_id)
        self._idle.clear()
        try:
            yield
        finally:
            self._running.discard(request_id)
            self._unwanted.discard(request_id)
            if not self._running:
                self._idle.set()

    def _sampling(self, params: Mapping[str, Any]) -> Sampling:
        if params.get("top_p", 1.0) != 1.0 or params.get("top_k", -1) not in {-1, 0}:
            raise ConfigError(
                "the server on the CPU samples from the whole distribution only", "set rollout.top_p=1 and top_k=-1"
            )
        stops = tuple(params.get("stop_token_ids") or ())
        if not params.get("ignore_eos", False):
            stops += self._stop_token_ids
        return Sampling(
            temperature=float(params.get("temperature", 1.0)),
            max_tokens=int(params.get("max_tokens") or self._response_length),
            stop_token_ids=stops,
        )

    async def load(self, weights: Mapping[str, Tensor], version: int) -> str:
        """Sample from other weights from now on.

        Args:
            weights: As verl names them, with experts one by one or fused.
            version: The trainer's step.

        Returns:
            The digest of the weights in use.

        Raises:
            ConfigError: They do not fit the policy, or the version is not a later one.
        """
        if version > self._engine.weight_version:
            await self._engine.load_weights(fuse_experts(weights), version)
        return self._engine.weights_digest()

    async def abort_all_requests(self, reject_request: bool = False) -> None:
        """Have all running calls answer early, and new ones wait for `resume_generation`."""
        del reject_request  # a replica on the CPU leaves no balancer, so calls are resumed soon
        self._open.clear()
        await self._idle.wait()

    async def resume_generation(self) -> None:
        """Let calls go on."""
        self._open.set()

    async def abort_request(self, request_id: str) -> None:
        """Have one call answer early."""
        if request_id in self._running:
            self._unwanted.add(request_id)

    async def collective_rpc(self, method: str) -> list[None]:
        """Answer a health check between two steps of the engine.

        Raises:
            ConfigError: Something else is asked.
        """
        if method != "check_health":
            raise ConfigError(f"the server on the CPU does not know {method!r}", "ask for check_health")
        await self._engine.progressed()
        return [None]

    async def ready(self) -> None:
        """Return; the weights are there by then."""

    async def keep(self, **_kwargs: Any) -> None:
        """Weights and caches stay where they are; nothing is profiled."""

    sleep = wake_up = clear_kv_cache = release_kv_cache = resume_kv_cache = start_profile = stop_profile = keep


def _stop_tokens(path: Path) -> tuple[int, ...]:
    from transformers import AutoConfig

    found = AutoConfig.from_pretrained(path, local_files_only=True).eos_token_id
    return tuple(found) if isinstance(found, list) else () if found is None else (int(found),)
