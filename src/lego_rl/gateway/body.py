"""Request bodies, of which hardly anything is new: harnesses send their whole history again and again.

Invariant: what is read is what `read_json` reads of the whole text; only the work differs. A body is split at its
top-level lists without reading their elements; an object whose bytes were read before is the value read then, the
very same one, so whatever was made of it need not be made again (`once`). What a list has in common with the one that
the last body had in its place is not even looked up. What is remembered of a session is bounded, and nothing here knows
a wire format.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from lego_rl.json_text import TooDeepError, read_json
from lego_rl.messages import Json

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_OVERHEAD = 1_000
"""Bytes that remembering an element costs besides its text, roughly."""


_COMMA, _SPACE, _END = b", ]"


class Known(dict[str, Json]):
    """A JSON object that is remembered.

    Attributes:
        made: Who made something of it last, and what.
    """

    __slots__ = ("made",)

    def __init__(self, value: Mapping[str, Json]) -> None:
        super().__init__(value)
        self.made: tuple[object, Any] = (None, None)


def once[T](make: Callable[[Mapping[str, Json], str], T], value: Mapping[str, Json], where: str) -> T:
    """``make(value, where)``, which for an object that is remembered happens only once.

    Args:
        make: Depends on nothing but `value`.
        value: Read, never written.
        where: Where it stands, for the text of an error.
    """
    if not isinstance(value, Known):
        return make(value, where)
    maker, made = value.made
    if maker is not make:
        made = make(value, where)
        value.made = (make, made)
    result: T = made
    return result


@dataclass
class _Elements:
    """The elements of a list: their bytes, and the values of the first ones, which were read before."""

    texts: list[bytes]
    values: list[Json]


@dataclass(frozen=True)
class Parts:
    """A body that is split, not read.

    Attributes:
        fields: Bytes of the top-level values; of a list, its elements.
        unread: Bytes that were not read before.
    """

    fields: dict[str, bytes | _Elements]
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
        self._last: dict[str, _Elements] = {}

    def split(self, content: bytes) -> Parts | None:
        """The parts of a body; ``None`` where it is no object, or no JSON: `read` says which."""
        fields: dict[str, bytes | _Elements] = {}
        unread = 0
        try:
            for name, raw in _FIELDS.decode(content).items():
                value = bytes(memoryview(raw))
                if value.startswith(b"["):
                    fields[name] = elements = self._elements(name, value)
                    new = elements.texts[len(elements.values) :]
                    unread += sum(len(each) for each in new if each not in self._known)
                else:
                    fields[name] = value
                    unread += len(value)
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
            self._last.clear()
            self._size = 0
        try:
            body = {name: self._value(part) for name, part in parts.fields.items()}
        except TooDeepError as error:
            raise TooDeepError(self._depth) from error
        self._last = {name: part for name, part in parts.fields.items() if isinstance(part, _Elements)}
        return body

    def _elements(self, name: str, text: bytes) -> _Elements:
        """The elements of a list, the first of them by comparison with those of the list that was there last."""
        last = self._last.get(name, _Elements([], []))
        at, same = 1, 0
        for each in last.texts:
            end = at + len(each)
            if not text.startswith(each, at) or text[end] not in {_COMMA, _END}:
                break
            same += 1
            if text[end] == _END:
                return _Elements(last.texts[:same], last.values[:same])
            at = end + 2 if text[end + 1] == _SPACE else end + 1
        new = [bytes(memoryview(each)) for each in _ELEMENTS.decode(b"[" + text[at:])]
        return _Elements(last.texts[:same] + new, last.values[:same])

    def _value(self, part: bytes | _Elements) -> Json:
        if isinstance(part, bytes):
            return self._parse(part, 1)
        part.values += [self._element(each) for each in part.texts[len(part.values) :]]
        return part.values

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
