"""Failures in the words of the OpenAI protocols."""

from lego_rl.gateway.dialects.base import ADVICE, BadRequest, Failure, Problem
from lego_rl.messages import Json

_FAILURES: dict[Problem, tuple[int, str, str | None]] = {
    "bad_request": (400, "invalid_request_error", None),
    "too_large": (413, "invalid_request_error", "request_too_large"),
    "stalled": (408, "invalid_request_error", "request_timeout"),
    "context": (400, "invalid_request_error", "context_length_exceeded"),
    "overloaded": (503, "server_error", "overloaded"),
    "internal": (500, "server_error", None),
}
"""Status, type and code: the ones that the client libraries, and the harnesses, know."""


def openai_error(problem: Problem, error: Exception) -> dict[str, Json]:
    """The error object."""
    _, kind, code = _FAILURES[problem]
    place = None
    if isinstance(error, BadRequest):
        place, code = error.place, error.code
    # LiteLLM, which several harnesses are built on, tells a full context by these words alone.
    text = f"This model's maximum context length is exceeded: {error}" if problem == "context" else str(error)
    return {"message": text, "type": kind, "param": place, "code": code}


def openai_failure(problem: Problem, error: Exception) -> Failure:
    """The whole answer."""
    return Failure(_FAILURES[problem][0], {"error": openai_error(problem, error)}, ADVICE.get(problem, {}))
