"""What a wire format has to provide. Everything that differs between protocols is behind this interface."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from lego_rl.gateway.call import Request
from lego_rl.messages import Json, Message

type Problem = Literal["bad_request", "too_large", "stalled", "context", "overloaded", "internal"]
"""Why a request gets no answer. ``bad_request``: it breaks the protocol. ``too_large``: its body is over the limit.
``stalled``: its body did not arrive. ``context``: the prompt does not fit. ``overloaded``: transient, to be tried
again. ``internal``: a fault of this side, which no retry mends."""

ADVICE: Mapping[Problem, Mapping[str, str]] = {
    "overloaded": {"retry-after": "1"},
    "internal": {"x-should-retry": "false"},
}
"""Headers that tell the client libraries of every protocol what to do next."""


class BadRequest(Exception):
    """A body that breaks the protocol.

    Args:
        place: Where in the body.
        text: What is wrong there.
        code: The protocol's own name for it, where it has one.
    """

    def __init__(self, place: str, text: str, *, code: str | None = None) -> None:
        super().__init__(f"{place}: {text}")
        self.place = place
        self.code = code


@dataclass(frozen=True)
class ToolForm:
    """How a protocol writes the calls of a tool that is no plain function under the name that the policy sees.

    Attributes:
        name: On the wire.
        namespace: That holds it there, if one does.
        free_form: Whether it takes one text instead of arguments.
    """

    name: str
    namespace: str | None = None
    free_form: bool = False


@dataclass(frozen=True)
class Asked:
    """A request body, read.

    Attributes:
        request: What to answer.
        stream: Whether as a stream of events.
        model: Model name to echo.
        stream_usage: Whether the stream should report usage.
        forms: By the name that the policy sees: tools whose calls are not written as those of plain functions.
        repeated: Fields of the body that the answer holds again.
    """

    request: Request
    stream: bool
    model: str
    stream_usage: bool = True
    forms: Mapping[str, ToolForm] = field(default_factory=dict)
    repeated: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """An answer on its way to the harness.

    Attributes:
        message: What the policy (or, at the end of a budget, the gateway) says.
        truncated: Whether the token limit ended it.
        prompt_tokens: Tokens of the whole prompt.
        sampled_tokens: Tokens sampled; 0 where the gateway itself answers.
    """

    message: Message
    truncated: bool
    prompt_tokens: int
    sampled_tokens: int


@dataclass(frozen=True)
class Failure:
    """A protocol's own way to say a `Problem`."""

    status: int
    body: dict[str, Json]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Counting:
    """How a protocol counts prompt tokens.

    Attributes:
        path: Of the endpoint, below the session.
        key: Under which its answer, an object, holds the number.
        constant: What else the answer holds.
    """

    path: str
    key: str
    constant: Mapping[str, Json] = field(default_factory=dict)


class Dialect(Protocol):
    """One wire format.

    Attributes:
        completion_path: Path of the endpoint that samples, below the session.
        counting: Its endpoint that counts prompt tokens, if the protocol has one.
    """

    completion_path: str
    counting: Counting | None

    def read(self, body: Json, headers: Mapping[str, str]) -> Asked:
        """Read a request body.

        Raises:
            BadRequest: It breaks the protocol.
        """
        ...

    def reply(self, asked: Asked, answer: Answer, reply_id: str) -> dict[str, Json]:
        """The body of an answer that is not streamed."""
        ...

    def opening(self, asked: Asked, prompt_tokens: int, reply_id: str) -> bytes:
        """First events of a stream, written before anything was sampled."""
        ...

    def ping(self) -> bytes:
        """Keeps a stream alive and means nothing."""
        ...

    def events(self, asked: Asked, answer: Answer, reply_id: str) -> Iterator[bytes]:
        """The rest of a stream."""
        ...

    def failure(self, problem: Problem, error: Exception) -> Failure:
        """The answer to a request that gets none."""
        ...

    def failure_event(self, asked: Asked, problem: Problem, error: Exception, reply_id: str) -> bytes:
        """The same, in a stream that has begun."""
        ...
