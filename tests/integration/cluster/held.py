"""An inference server that holds a generation in its middle until newer weights have come.

Loaded by verl's processes (``VERL_USE_EXTERNAL_MODULES=held``) as ``rollout.name=lego_held``. Engine, tokens, aborts
and weights are those of the server on the CPU; what is chosen here is only *when* a generation goes on.
``LEGO_TEST_HOLDS`` says of which tasks a generation is held, and until which weight version: ``{"its issue": 1}``.
"""

import asyncio
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplicaRegistry, TokenOutput

import lego_rl.cluster.plugin  # noqa: F401  # the platform first, as in every process of verl
from lego_rl.cluster.cpu import rollout
from lego_rl.cluster.cpu.server import CHUNK_TOKENS, CpuServer, _Answer
from lego_rl.engine.protocol import Sampling

NAME = "lego_held"
_POLL_SEC = 0.02


@dataclass
class Hold:
    """A task of which one generation is held.

    Attributes:
        text: Of its issue.
        until: Weight version under which the generation goes on.
        ids: Prompt and first tokens of the generation, once it is chosen.
        taken: Whether a call waits for it now: others of the task may begin with the very same tokens.
    """

    text: str
    until: int
    ids: list[int] = field(default_factory=list)
    taken: bool = False


class HeldServer(CpuServer):
    """A server on the CPU that holds some generations."""

    def __init__(self, path: str, max_running: int, response_length: int) -> None:
        super().__init__(path, max_running, response_length)
        self._tokenizer = Tokenizer.from_file(str(Path(path) / "tokenizer.json"))
        self._holds = [Hold(text, until) for text, until in json.loads(os.environ["LEGO_TEST_HOLDS"]).items()]

    async def _answer(self, request_id: str, prompt: list[int], sampling: Sampling) -> TokenOutput:
        version = self._engine.weight_version
        for hold in self._holds:
            if version >= hold.until:
                continue
            if hold.ids and not hold.taken and prompt[: len(hold.ids)] == hold.ids:
                await self._closed(hold, request_id)
                return _Answer().output("aborted", version)
            if not hold.ids and hold.text in self._tokenizer.decode(prompt, skip_special_tokens=False):
                return await self._begun(hold, request_id, prompt, sampling)
        return await super()._answer(request_id, prompt, sampling)

    async def _begun(self, hold: Hold, request_id: str, prompt: list[int], sampling: Sampling) -> TokenOutput:
        """Sample the first tokens; where the answer is longer, keep the rest for later weights."""
        first = Sampling(sampling.temperature, CHUNK_TOKENS, sampling.stop_token_ids)
        output = await super()._answer(request_id, prompt, first)
        if len(output.token_ids) < CHUNK_TOKENS or output.token_ids[-1] in sampling.stop_token_ids or hold.ids:
            if output.stop_reason == "completed" and output.token_ids[-1] not in sampling.stop_token_ids:
                output.stop_reason = "aborted"  # so that whoever asks goes on
            return output
        hold.ids = [*prompt, *output.token_ids]
        await self._closed(hold, request_id)
        output.stop_reason = "aborted"
        return output

    async def _closed(self, hold: Hold, request_id: str) -> None:
        """Return once all calls are aborted, as before new weights, or this one is."""
        hold.taken = True
        try:
            while self._open.is_set() and request_id not in self._unwanted:  # noqa: ASYNC110
                await asyncio.sleep(_POLL_SEC)
        finally:
            hold.taken = False


class HeldReplica(rollout.CpuReplica):
    """A replica of such a server."""

    @staticmethod
    def server_class() -> type[CpuServer]:
        return HeldServer


def _replica() -> Any:
    return HeldReplica


RolloutReplicaRegistry.register(NAME, _replica)
base._ROLLOUT_REGISTRY[NAME, "async"] = f"{rollout.__name__}.{rollout.CpuAdapter.__name__}"
