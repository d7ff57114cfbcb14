"""What is kept of an engine's answer: compact arrays, checked against what was asked.

Invariant: a recording agrees with itself. Nothing that is off by one is mended; it raises.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lego_rl.engine.protocol import FinishReason, Sample, Timings, WeightSpan
from lego_rl.errors import CaptureError
from lego_rl.gateway.spool import RouteSpool

_FIX = "this is a fault of the engine: run it under the auditor and report the call"


@dataclass(frozen=True)
class Recording:
    """One answered call, without its prompt.

    Attributes:
        call_id: The engine's.
        token_ids: ``[T]`` int32.
        logprobs: ``[T]`` float32.
        weight_versions: Spans that cover ``[0, T)`` in order.
        finish_reason: Why sampling ended.
        timings: Where the time went.
        routes: ``[P + T - 1 - routes_from, layers, top_k]`` uint8, or ``None`` for a dense model.
        routes_from: Position of the first row of `routes`.
    """

    call_id: str
    token_ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    weight_versions: tuple[WeightSpan, ...]
    finish_reason: FinishReason
    timings: Timings
    routes: NDArray[np.uint8] | None
    routes_from: int

    @property
    def count(self) -> int:
        """Sampled tokens."""
        return len(self.token_ids)


@dataclass(frozen=True)
class Reply:
    """One answered call of a chat backend, as far as it is no text.

    Attributes:
        call_id: The backend's.
        finish_reason: Why the answer ended.
        timings: Where the time went.
        prompt_tokens: Of the whole prompt, by the backend's count; an estimate where it gives none.
        count: Tokens of the answer, likewise; at least 1.
    """

    call_id: str
    finish_reason: FinishReason
    timings: Timings
    prompt_tokens: int
    count: int


def record(sample: Sample, prompt_ids: Sequence[int], spool: RouteSpool) -> Recording:
    """Check a sample and keep it.

    Args:
        sample: The engine's answer.
        prompt_ids: ``[P]`` what the engine was given.
        spool: Takes the routes.

    Raises:
        CaptureError: Prompt, log-probs, versions or routes do not fit the sampled tokens.
        OSError: The disk does not take the routes.
    """
    count = len(sample.token_ids)
    call = f"engine call {sample.call_id}"
    if sample.prompt_ids is not prompt_ids and not np.array_equal(sample.prompt_ids, prompt_ids):
        raise CaptureError(f"{call} sampled after another prompt than it was given", _FIX)
    if count == 0:
        raise CaptureError(f"{call} sampled no token", _FIX)
    logprobs = np.array(sample.logprobs, np.float32)
    if logprobs.shape != (count,) or not np.isfinite(logprobs).all():
        raise CaptureError(
            f"{call} has log-probs of shape {logprobs.shape} for {count} tokens, or not all finite", _FIX
        )
    if not covers(sample.weight_versions, count):
        raise CaptureError(f"{call} has weight versions that do not cover its {count} tokens in order", _FIX)
    _check_routes(sample, len(prompt_ids) + count - 1, call)
    return Recording(
        call_id=sample.call_id,
        token_ids=np.array(sample.token_ids, np.int32),
        logprobs=logprobs,
        weight_versions=sample.weight_versions,
        finish_reason=sample.finish_reason,
        timings=sample.timings,
        routes=None if sample.routes is None else spool.keep(sample.routes),
        routes_from=sample.routes_from,
    )


def covers(spans: Sequence[WeightSpan], count: int) -> bool:
    """Whether spans cover ``[0, count)`` in order, each of them at least one position."""
    edges = [0, *(span.end for span in spans)]
    return edges[-1] == count and all(span.start == start < span.end for span, start in zip(spans, edges, strict=False))


def _check_routes(sample: Sample, positions: int, call: str) -> None:
    routes = sample.routes
    if routes is None:
        return
    if routes.dtype != np.uint8 or routes.ndim != 3 or len(routes) != positions - sample.routes_from:
        raise CaptureError(
            f"{call} has routes of shape {routes.shape} and type {routes.dtype} "
            f"for {positions - sample.routes_from} positions from {sample.routes_from} on",
            _FIX,
        )
    if not 0 <= sample.routes_from <= positions:
        raise CaptureError(f"{call} has routes from position {sample.routes_from} of {positions} on", _FIX)
