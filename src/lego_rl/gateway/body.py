"""Request bodies, of which hardly anything is new: harnesses send their whole history again and again.

Invariant: what is read is what `read_json` reads of the whole text; only the work differs. A body is split at its
top-level lists without reading their elements; an object whose bytes were read before is the value read then, the
very same one, so whatever was made of it need not be made again (`once`). What is remembered of a session is
bounded, and nothing here knows a wire format.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import msgspec

from lego_rl.gateway.json_text import TooDeepError, read_json
from lego_rl.messages import Json

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_OVERHEAD = 1_000
"""Bytes that remembering an element costs besides its text, roughly."""


class Known(dict[str, Json]):
    """A JSON object that is remembered, and what was made of it."""

    __slots__ = ("made",)
    made: tuple[object, object]
    """Who made something of it last, and what."""


def once[T](make: Callable[[Mapping[str, Json], str], T], value: Mapping[str, Json], where: str) -> T:
    """``make(value, where)``, which for an object that is remembered happens only once.

    Args:
        make: Depends on nothing but `value`.
        value: Read, never written.
        where: Where it stands, for the text of an error.
    """
    if not isinstance(value, Known):
        return make(value, where)
    maker, made = getattr(value, "made", (None, None))
    if maker is not make:
        made = make(value, where)
        value.made = (make, made)
    return cast("T", made)


@dataclass(frozen=True)
class Parts:
    """A body that is split, not read.

    Attributes:
        fields: Bytes of the top-level values; of a list, those of its elements.
        unread: Bytes that were not read before.
    """

    fields: dict[str, bytes | list[bytes]]
    unread: int


class BodyReader:
    """Reads the bodies of one session.

    Args:
        depth: Most lists and objects inside each other.
        most: Bytes to remember; when there are more, all are forgotten.
    """

    def __init__(self, *, depth: int, most: int) -> None:
        self._depth = depth
        self._most = most
        self._size = 0
        self._known: dict[bytes, Known] = {}

    def split(self, content: bytes) -> Parts | None:
        """The parts of a body; ``None`` where it is no object, or no JSON: `read` says which."""
        fields: dict[str, bytes | list[bytes]] = {}
        unread = 0
        try:
            for name, raw in _FIELDS.decode(content).items():
                value = memoryview(raw)
                if bytes(value[:1]) != b"[":
                    fields[name] = bytes(value)
                    unread += len(value)
                    continue
                elements = [bytes(memoryview(each)) for each in _ELEMENTS.decode(raw)]
                fields[name] = elements
                unread += sum(len(each) for each in elements if each not in self._known)
        except (msgspec.MsgspecError, RecursionError):
            return None
        return Parts(fields, unread)

    def read(self, content: bytes, parts: Parts | None) -> Json:
        """The value of a body.

        Args:
            content: The whole body.
            parts: What `split` made of it.

        Raises:
            ValueError: As `read_json`.
        """
        if parts is None:
            return read_json(content.decode("utf-8"), depth=self._depth)
        if self._size > self._most:
            self._known.clear()
            self._size = 0
        try:
            return {
                name: [self._element(each) for each in value] if isinstance(value, list) else self._parse(value, 1)
                for name, value in parts.fields.items()
            }
        except TooDeepError as error:
            raise TooDeepError(self._depth) from error

    def _element(self, text: bytes) -> Json:
        known = self._known.get(text)
        if known is not None:
            return known
        value = self._parse(text, 2)
        if not isinstance(value, dict):
            return value
        known = self._known[text] = Known(value)
        self._size += len(text) + _OVERHEAD
        return known

    def _parse(self, text: bytes, level: int) -> Json:
        return read_json(text.decode("utf-8"), depth=self._depth - level)
