"""Why an endpoint gave no answer: what is to be done about it is told by status and words, here and nowhere else."""

import re
from enum import Enum, auto
from http import HTTPStatus

from lego_rl.engine.chat_settings import ChatSettings
from lego_rl.json_text import BODY_DEPTH, read_json

_SHOWN = 240
"""Characters of what an endpoint says."""

_TRANSIENT = {408, 409, 425, 429}
_CONTENT = {400, 413, 415, 422, 451}
_TOO_LONG = re.compile(
    r"context[_ ]length|context window|maximum context|max_model_len|prompt is too long|input is too long"
    r"|too many (input )?tokens|reduce the length|exceeds the (model|available|maximum).{0,40}(context|tokens|length)"
    r"|request too large",
    re.IGNORECASE,
)
"""How OpenAI, Anthropic's and Google's compatible endpoints, vLLM, SGLang, llama.cpp and others say it."""


class Kind(Enum):
    """What a failure is."""

    TRANSIENT = auto()
    """The endpoint is busy, or a message was lost: it may be asked again."""
    TOO_LONG = auto()
    """The conversation does not fit its context."""
    CONTENT = auto()
    """It does not take what is asked."""
    OTHER = auto()
    """It refuses the key or the address, or did not answer in time."""


class ChatFailure(Exception):
    """An endpoint gave no answer.

    Args:
        kind: What the failure is.
        reason: In one line.
        status: HTTP status, where there was a response.
        retry_after: Seconds that the endpoint asks to be left alone.
    """

    def __init__(self, kind: Kind, reason: str, *, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.status = status
        self.retry_after = retry_after

    def fix(self, settings: ChatSettings) -> str:
        """What whoever begins a run can do about it."""
        match self.status:
            case 401 | 403:
                if settings.key_env is None:
                    return "name the environment variable that holds your key: key_env (--key-env)"
                return f"check the key in {settings.key_env}"
            case 402:
                return "check the account's credit"
            case 404 | 405:
                return f"check url (it mostly ends in /v1) and that {settings.model!r} is a model there"
            case 429:
                return "wait, or check the account's rate limit and credit"
            case status if 300 <= status < 400:
                return "name the address that it leads to"
            case 400 | 422:
                return "set what the model takes: output_key, extra, or another temperature"
            case _:
                return "check the address, and that the endpoint is up"


def failure_of(status: int, text: str, retry_after: float | None) -> ChatFailure | None:
    """The failure that a response is, if it is one.

    Args:
        status: HTTP status.
        text: Body.
        retry_after: Seconds that the endpoint asks to be left alone.
    """
    said = _error(text)
    if status == HTTPStatus.OK:
        if said is None:
            return None
        code, words = said
        status = code if code >= HTTPStatus.BAD_REQUEST else HTTPStatus.BAD_GATEWAY
    else:
        words = " ".join(text.split()) if said is None else said[1]
    reason = f"HTTP {int(status)}: {words[:_SHOWN]}" if words else f"HTTP {int(status)}"
    return ChatFailure(_kind(status, words), reason, status=int(status), retry_after=retry_after)


def _kind(status: int, words: str) -> Kind:
    if status in _CONTENT and _TOO_LONG.search(words):
        return Kind.TOO_LONG
    if status in _CONTENT:
        return Kind.CONTENT
    return Kind.TRANSIENT if status in _TRANSIENT or status >= HTTPStatus.INTERNAL_SERVER_ERROR else Kind.OTHER


def _error(text: str) -> tuple[int, str] | None:
    """Code and words of an error object, which some endpoints send with status 200."""
    try:
        value = read_json(text, depth=BODY_DEPTH)
    except ValueError:
        return None
    if isinstance(value, list) and value:
        value = value[0]
    error = value.get("error", value.get("detail")) if isinstance(value, dict) else None
    if error is None and isinstance(value, dict) and value.get("object") == "error":
        error = value
    if not error:
        return None
    if not isinstance(error, dict):
        return 0, " ".join(str(error).split())
    code = error.get("code")
    words = [error.get("message"), code if isinstance(code, str) else None, error.get("type")]
    said = " ".join(dict.fromkeys(str(word) for word in words if isinstance(word, str)))
    return code if isinstance(code, int) else 0, " ".join(said.split())
