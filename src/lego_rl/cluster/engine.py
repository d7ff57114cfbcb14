"""`Engine` over verl's inference servers: whole answers out of uninterrupted pieces.

Invariant: each piece was sampled under one weight version, which is that of its span; its log-probs are the server's
for that piece. Pieces are asked for here and not by verl's own resuming client, which says of an answer only the first
and the last version. Where counts do not agree nothing is mended: it raises.

Calls are not reproducible: a server that is asked again with the same seed after an abort would draw the same numbers
for other tokens, so no seed is sent, and `Sampling.seed` is not heeded.
"""

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from lego_rl.cluster.pieces import Piece, PieceServer, SamplingParams
from lego_rl.cluster.sticky import StickySessions
from lego_rl.engine.protocol import EngineError, FinishReason, Sample, Sampling, Timings, WeightSpan
from lego_rl.errors import CaptureError

ABORTED = frozenset({"aborted", "abort"})
_LARGEST_EXPERT = 255
_FIX = "this is a fault of the inference server or of its version: report the call"


@dataclass
class _Answer:
    """What of one call was sampled so far.

    Attributes:
        call_id: The call's.
        prompt: ``[P]``.
        routes_from: The caller holds the routes before this position.
    """

    call_id: str
    prompt: NDArray[np.int32]
    routes_from: int
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    spans: list[WeightSpan] = field(default_factory=list)
    routes: list[NDArray[np.uint8]] = field(default_factory=list)
    rows: int = 0

    def add(self, piece: Piece) -> None:
        """Take a piece.

        Raises:
            CaptureError: It contradicts itself or what was asked.
        """
        count, logprobs = len(piece.token_ids), piece.log_probs or ()
        if len(logprobs) != count:
            raise CaptureError(f"engine call {self.call_id} has {len(logprobs)} log-probs for {count} tokens", _FIX)
        if not count:
            return
        version = piece.extra_fields.get("global_steps")
        if version is None:
            raise CaptureError(f"engine call {self.call_id} does not say which weights it sampled from", _FIX)
        self._add_routes(piece, count)
        start = len(self.token_ids)
        if self.spans and self.spans[-1].version == version:
            start = self.spans.pop().start
        self.token_ids += map(int, piece.token_ids)
        self.logprobs += map(float, logprobs)
        self.spans.append(WeightSpan(int(version), start, len(self.token_ids)))

    def _add_routes(self, piece: Piece, count: int) -> None:
        """Take the rows of the positions that no piece before had: later weights route what was fed again anew, but
        what was sampled before came from the earlier rows."""
        fed = len(self.prompt) + len(self.token_ids) + count - 1
        if piece.routed_experts is None:  # of a dense model, or aborted: the next piece has the rows of all that is fed
            return
        rows = np.asarray(piece.routed_experts)
        if rows.ndim != 3 or len(rows) != fed:
            raise CaptureError(
                f"engine call {self.call_id} has routes of shape {rows.shape} for {fed} tokens that were fed", _FIX
            )
        new = rows[max(self.rows, self.routes_from) :]
        if new.size and (new.min() < 0 or new.max() > _LARGEST_EXPERT):
            raise CaptureError(f"engine call {self.call_id} has expert {new.max()}; a route is a byte", _FIX)
        self.routes.append(new.astype(np.uint8))
        self.rows = fed

    def sample(self, prompt_ids: Sequence[int], reason: FinishReason, timings: Timings) -> Sample:
        """The whole answer.

        Raises:
            CaptureError: Its last piece came without the routes that others had.
        """
        fed = len(prompt_ids) + len(self.token_ids) - 1
        if self.routes and self.rows != fed:
            raise CaptureError(
                f"engine call {self.call_id} has expert routes of {self.rows} of the {fed} tokens that were fed", _FIX
            )
        return Sample(
            call_id=self.call_id,
            prompt_ids=prompt_ids,
            token_ids=tuple(self.token_ids),
            logprobs=np.array(self.logprobs, np.float32),
            finish_reason=reason,
            weight_versions=tuple(self.spans),
            routes=np.concatenate(self.routes) if self.routes else None,
            routes_from=self.routes_from if self.routes else 0,
            timings=timings,
        )


class ClusterEngine:
    """Implements `Engine` over whatever answers in pieces.

    Args:
        server: Answers in pieces.
        name: First part of call ids; give each engine of a run its own.
        pause_sec: Before the servers are asked again after an abort at which nothing was sampled.
        most_empty: Aborts in a row at which nothing was sampled, before the servers count as unhealthy.
    """

    def __init__(
        self, server: PieceServer, *, name: str = "cluster", pause_sec: float = 1.0, most_empty: int = 600
    ) -> None:
        self._server = server
        self._name = f"{name}-{uuid4().hex[:8]}"
        self._pause_sec = pause_sec
        self._most_empty = most_empty
        self._numbers = itertools.count()
        self._sticky = StickySessions()
        self._version = 0
        self._waiting = 0
        self._stepped = asyncio.Event()

    @property
    def weight_version(self) -> int:
        """The newest version that a piece came from; 0 before the first."""
        return self._version

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        """Sample a continuation; see `Engine.generate`.

        Raises:
            EngineError: No server answers.
            CaptureError: An answer contradicts itself.
        """
        prompt = np.asarray(prompt_ids, np.int32)
        answer = _Answer(f"{self._name}-{next(self._numbers)}", prompt, routes_from)
        session, started = self._sticky.of(prompt), time.perf_counter()
        self._waiting += 1
        try:
            reason = await self._ask(answer, session, sampling)
        finally:
            self._waiting -= 1
            self._step()
        self._sticky.grew(session, prompt, answer.token_ids)
        return answer.sample(prompt_ids, reason, Timings(decode=time.perf_counter() - started))

    async def progressed(self) -> None:
        """Return once a piece of any call has come back or a server has shown between two steps that it is at work; at
        once where nothing is waited for.

        Raises:
            EngineError: No server can be reached.
        """
        if not self._waiting:
            return
        signs = [asyncio.ensure_future(self._stepped.wait()), asyncio.ensure_future(self._server.alive())]
        try:
            done, _ = await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
            for sign in done:
                await sign
        finally:
            for sign in signs:
                sign.cancel()

    async def _ask(self, answer: _Answer, session: str, sampling: Sampling) -> FinishReason:
        """Ask for pieces until the answer is whole; why it ended."""
        prompt, empty = answer.prompt.tolist(), 0
        while True:
            params = sampling_params(sampling, sampling.max_tokens - len(answer.token_ids))
            piece = await self._server.piece(session, [*prompt, *answer.token_ids], params)
            self._step()
            before = len(answer.token_ids)
            answer.add(piece)
            self._version = max(self._version, *(span.version for span in answer.spans[-1:]), 0)
            if (reason := _ended(answer, sampling)) is not None:
                return reason
            if piece.stop_reason not in ABORTED:
                raise CaptureError(
                    f"engine call {answer.call_id} ended ({piece.stop_reason}) after {len(answer.token_ids)} of "
                    f"{sampling.max_tokens} tokens on no stop token",
                    "give the inference server the model's whole context, and no stop tokens of its own",
                )
            empty = empty + 1 if len(answer.token_ids) == before else 0
            if empty > self._most_empty:
                raise EngineError(f"the inference servers aborted a call {empty} times in a row")
            if empty:
                await asyncio.sleep(self._pause_sec)

    def _step(self) -> None:
        """Tell whoever waits that something was done."""
        self._stepped.set()
        self._stepped = asyncio.Event()


def sampling_params(sampling: Sampling, max_tokens: int) -> SamplingParams:
    """How to sample, as verl's servers take it: from the whole distribution, with its log-probs, and on until one of
    our stop tokens, whatever else the model's configuration would end an answer at."""
    return {
        "temperature": sampling.temperature,
        "top_p": 1.0,
        "top_k": -1,
        "repetition_penalty": 1.0,
        "logprobs": True,
        "ignore_eos": True,
        "max_tokens": max_tokens,
        "stop_token_ids": list(sampling.stop_token_ids),
    }


def _ended(answer: _Answer, sampling: Sampling) -> FinishReason | None:
    """Why the answer is whole; ``None`` where it is not."""
    if not answer.token_ids:
        return None
    if answer.token_ids[-1] in sampling.stop_token_ids:
        return "stop"
    return "length" if len(answer.token_ids) >= sampling.max_tokens else None
