"""How much of an answer can be read in the bytes of its response that arrived.

Invariant: never less than a client can have understood. It looks for the texts of the answer, which every dialect sends
as JSON strings, and knows nothing else of any dialect.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence

from lego_rl.messages import Json

type Decode = Callable[[Sequence[int]], str]
"""Sampled ids to their text."""

_MARKUP = re.compile(r"\s*(?:(?:</?think>|</?tool_call>|</?function[^>]*>|</?parameter[^>]*>|<\|im_end\|>)\s*)*")
"""What stands between the texts of an answer as a policy of the situations writes it; no client is sent it."""


def tokens_heard(token_ids: Sequence[int], raw: bytes, decode: Decode) -> int:
    """Sampled tokens whose text is in `raw`, the beginning of an HTTP response that streams them; all, if all are.

    A response that does not stream is one JSON value: without its end, nothing of it can be read.
    """
    text = decode(token_ids)
    end = _heard(text, sorted(set(_strings_of(raw)), key=len, reverse=True))
    if end == len(text):
        return len(token_ids)
    return max(count for count in range(len(token_ids)) if len(decode(token_ids[:count])) <= end)


def _heard(text: str, told: Sequence[str]) -> int:
    """Where the last text ends that was told; the longest come first in `told`."""
    end = at = 0
    while True:
        at = _skip(text, at)
        found = next((each for each in told if text.startswith(each, at)), None)
        if found is None:
            return len(text) if at == len(text) and end else end
        at += len(found)
        end = at


def _skip(text: str, at: int) -> int:
    found = _MARKUP.match(text, at)
    return found.end() if found else at


def _strings_of(raw: bytes) -> Iterator[str]:
    """Every text in the events that arrived whole."""
    head, _, body = raw.partition(b"\r\n\r\n")
    events = _unchunked(body) if b"chunked" in head.lower() else body
    for line in events.splitlines():
        if line.startswith(b"data:"):
            try:
                yield from _strings(json.loads(line.removeprefix(b"data:")))
            except ValueError:
                continue  # the last one, in which it broke off, or one that is no JSON


def _unchunked(body: bytes) -> bytes:
    """The content of a body in chunks, as far as it goes."""
    content = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        content += body[: int(size or b"0", 16)]
        body = body[int(size or b"0", 16) + 2 :]
    return content


def _strings(value: Json) -> Iterator[str]:
    """The texts in a JSON value, and the values of arguments, which are a JSON text in it."""
    match value:
        case str():
            yield from [stripped] if (stripped := value.strip()) else []
            if value.startswith("{"):
                try:
                    yield from _strings(json.loads(value))
                except ValueError:
                    return  # a text that begins like one
        case dict():
            for each in value.values():
                yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)
        case _:
            yield json.dumps(value)
