"""Which hosted model answers, and how it is asked."""

import re
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, model_validator

from lego_rl.settings import Settings

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = ("model", "messages", "tools", "tool_choice", "stream", "n")


class ChatSettings(Settings):
    """A policy behind an OpenAI-compatible endpoint: evaluation only, for there are no token ids to train on."""

    kind: Literal["chat"] = "chat"
    """What answers: a model behind an endpoint that speaks Chat Completions."""
    url: str
    """Base address of the endpoint, such as ``https://host/v1``."""
    model: str = Field(min_length=1)
    """Name of the model there."""
    key_env: str | None = None
    """Name of the environment variable that holds the key; the key itself stands in no file. None: no key is sent."""
    timeout_sec: float = Field(default=600.0, gt=0)
    """Seconds that one answer may take."""
    retries: int = Field(default=4, ge=0)
    """How often a call is asked again that the endpoint was too busy for, or that got lost on the way."""
    retry_pause_sec: float = Field(default=1.0, ge=0)
    """Seconds before the first of these tries, doubled for each further one; ``Retry-After`` of the endpoint's comes
    first. Neither is longer than a minute."""
    max_running: int = Field(default=16, ge=1)
    """Calls that the endpoint is sent at the same time; further ones wait here."""
    output_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Under which name the endpoint is told the most tokens of an answer."""
    temperature: Literal["send", "leave_out"] = "send"
    """``leave_out``: the endpoint is told none, for models that refuse one; it samples as it likes, and what a protocol
    says of the temperature is not so."""
    reasoning: Literal["leave_out", "reasoning_content", "reasoning"] = "leave_out"
    """Whether, and under which name, the endpoint is sent back the reasoning that the harness sends back."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """Further fields of every request's body, such as ``reasoning_effort = "high"``."""

    @model_validator(mode="after")
    def _names_what_it_can(self) -> Self:
        # Of the whole section, so that what is refused is not printed: it may be a key.
        if self.key_env is not None and not _VARIABLE.fullmatch(self.key_env):
            raise ValueError("key_env must be the NAME of an environment variable that holds the key, not the key")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("url must be an address such as https://host/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("url must hold no login and no query: name the key's environment variable in key_env")
        if ours := [name for name in _OURS if name in self.extra]:
            raise ValueError(f"extra must not hold {ours[0]}, which the gateway sets")
        return self

    @property
    def completions(self) -> str:
        """Address that answers."""
        return f"{self._base}/chat/completions"

    @property
    def models(self) -> str:
        """Address of the list of models, where there is one."""
        return f"{self._base}/models"

    @property
    def _base(self) -> str:
        return self.url.rstrip("/").removesuffix("/chat/completions")
