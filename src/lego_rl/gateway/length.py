"""Prompts that are far too long, told without rendering them: a refusal must not cost what an agent likes to send.

Invariant: what may fit is never refused. Only text that is in every prompt is counted, whatever the template; cutting
it in slices adds next to nothing, and a limit is taken as passed only when twice as much was counted.
"""

from collections.abc import Callable, Iterator, Mapping

from lego_rl.gateway.call import Request
from lego_rl.gateway.encoding import SLICE
from lego_rl.messages import Json, Message

_END_THINK = "</think>"


def tokens_if_far_longer(request: Request, limit: int, count: Callable[[str], int]) -> int | None:
    """How many tokens a request has, roughly and at least, where they are far more than `limit`; else ``None``.

    The work grows with the limit, not with the request.

    Args:
        request: Messages and tools that are new.
        limit: Tokens that they may have.
        count: Tokens of a text.
    """
    counted = 0
    for text in _texts(request):
        for at in range(0, len(text), SLICE):
            counted += count(text[at : at + SLICE])
            if counted > 2 * limit:
                return counted
    return None


def _texts(request: Request) -> Iterator[str]:
    """Text that every template writes: reasoning is left out here and there, white space at both ends too."""
    for tool in request.tools:
        yield tool.description.strip()
        yield from _strings(tool.parameters)
    for message in request.messages:
        yield _content(message)
        for call in message.tool_calls:
            yield from _strings(call.arguments)


def _content(message: Message) -> str:
    said = message.content
    return (said.rpartition(_END_THINK)[2] if message.role == "assistant" else said).strip()


def _strings(value: Json | Mapping[str, Json]) -> Iterator[str]:
    match value:
        case str():
            yield value.strip()
        case list():
            for each in value:
                yield from _strings(each)
        case Mapping():
            for each in value.values():
                yield from _strings(each)
