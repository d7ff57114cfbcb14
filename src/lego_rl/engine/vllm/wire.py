"""vLLM's format of one call: ids and sampling in, ids with log-probs, weight versions and routes out.

Invariant: whatever the server leaves out or gets wrong is an `EngineError`; nothing is filled in. The log-probs are of
the distribution sampled from if the server runs with ``--logprobs-mode processed_logprobs``, which its operator grants.
No tool choice is ever forced: a grammar would sample from another distribution than the policy's.

Source: vLLM 0.32.0, ``/inference/v1/generate``; routes are base64 of a ``.npy`` ``[positions, layers, top_k]``.
"""

import base64
import binascii
import io
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from lego_rl.engine.protocol import EngineError, FinishReason, Sampling, WeightSpan

_MOST_EXPERTS = 256
_NO_LOGPROB = -9999.0
"""What the server says where it has none."""


class TokenLogprob(msgspec.Struct):
    """Of one sampled token."""

    token_id: int
    logprob: float


class Logprobs(msgspec.Struct):
    """Of all sampled tokens."""

    content: list[TokenLogprob]


class Span(msgspec.Struct):
    """Sampled positions ``[start, end)`` of one weight version."""

    version: str
    start: int
    end: int


class Choice(msgspec.Struct):
    """The one answer of a call."""

    token_ids: list[int]
    finish_reason: str
    logprobs: Logprobs | None = None
    weight_versions: list[Span] | None = None
    routed_experts: str | None = None


class _Answer(msgspec.Struct):
    choices: list[Choice]


def request(
    call_id: str, model: str, prompt_ids: Sequence[int], sampling: Sampling, seed: int | None, *, routes_from: int
) -> dict[str, Any]:
    """The body of a call.

    Args:
        call_id: Names it at the server.
        model: Name under which the policy is served.
        prompt_ids: ``[P]``.
        sampling: How to sample.
        seed: Of the call; ``None`` leaves the draw to the server.
        routes_from: First position whose routes are wanted.
    """
    ids = getattr(prompt_ids, "tolist", None)
    return {
        "request_id": call_id,
        "model": model,
        "token_ids": ids() if ids is not None else list(prompt_ids),
        "sampling_params": {
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_tokens,
            "stop_token_ids": list(sampling.stop_token_ids),
            "ignore_eos": True,  # which tokens end an answer is said by the caller alone
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "logprobs": 0,  # of the sampled token only
            "detokenize": False,
            "routed_experts_prompt_start": routes_from,
            **({} if seed is None else {"seed": seed}),
        },
    }


def read_choice(answer: Mapping[str, Any]) -> Choice:
    """The answer of a call.

    Raises:
        EngineError: It is of another form, was aborted by the server, or has no token.
    """
    try:
        choice = msgspec.convert(answer, _Answer).choices[0]
    except (msgspec.ValidationError, IndexError) as error:
        raise EngineError(f"the server's answer is none: {error}") from error
    if choice.finish_reason not in {"stop", "length"} or not choice.token_ids:
        raise EngineError(f"the server ended a call with {len(choice.token_ids)} tokens: {choice.finish_reason}")
    return choice


def finish_reason(choice: Choice) -> FinishReason:
    """Why sampling ended."""
    return "stop" if choice.finish_reason == "stop" else "length"


def logprobs(choice: Choice) -> NDArray[np.float32]:
    """``[T]`` of the sampled tokens.

    Raises:
        EngineError: They are not of the sampled tokens, one each.
    """
    content = choice.logprobs.content if choice.logprobs is not None else []
    if [each.token_id for each in content] != choice.token_ids or any(e.logprob <= _NO_LOGPROB for e in content):
        raise EngineError(f"the server sampled {len(choice.token_ids)} tokens and does not say how likely each was")
    return np.array([each.logprob for each in content], np.float32)


def weight_spans(choice: Choice) -> tuple[WeightSpan, ...]:
    """Which weights sampled what.

    Raises:
        EngineError: The server does not say, or another process than ours gave its weights a name.
    """
    spans = choice.weight_versions or []
    if not spans or not all(span.version.isdecimal() for span in spans):
        raise EngineError(f"the server does not say which weights sampled an answer: {spans}")
    return tuple(WeightSpan(int(span.version), span.start, span.end) for span in spans)


def read_routes(text: str, rows: int) -> NDArray[np.uint8]:
    """Routes as the server writes them.

    Args:
        text: Base64 of a ``.npy``.
        rows: Positions they must be of.

    Returns:
        ``[rows, layers, top_k]`` uint8.

    Raises:
        EngineError: They are of another shape, or name an expert above 255.
    """
    try:
        found = np.load(io.BytesIO(base64.b64decode(text, validate=True)), allow_pickle=False)
    except (binascii.Error, ValueError, EOFError) as error:
        raise EngineError(f"the server's routes are no array: {error}") from error
    if found.ndim != 3 or len(found) != rows or not np.issubdtype(found.dtype, np.integer):
        raise EngineError(f"the server's routes are {found.dtype} of shape {found.shape} for {rows} positions")
    if found.size and not 0 <= found.min() <= found.max() < _MOST_EXPERTS:
        raise EngineError(f"the server's routes name expert {found.max()}: only {_MOST_EXPERTS} can be kept")
    return np.ascontiguousarray(found, np.uint8)
