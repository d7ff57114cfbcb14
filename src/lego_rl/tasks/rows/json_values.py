"""Where the values of a JSON text begin and end, told by brackets and quotes alone, a piece of the text at a time.

Invariant: what is held of a text is the value that is wanted and one piece, whatever the size of the text. What stands
between the brackets of a value is not looked at: one that is no JSON, or no text, ends where it ends, and the next one
begins after it.
"""

import re
from typing import IO

from lego_rl.tasks.rows import row

_PIECE = 1 << 20
_MAX_OPEN = 1 << 20
"""Brackets that may be open at once."""
_BLANKS = re.compile(rb"[ \t\r\n]*")
_SIGN = re.compile(rb'["{}\[\]]')
_AFTER_SCALAR = re.compile(rb"[\s,\]}]")
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_CLOSES = {b"}": b"{", b"]": b"["}


class DamagedError(ValueError):
    """A text whose brackets or quotes are not closed; the message says where, in words that can follow a file."""


class Values:
    """The values of a text.

    Args:
        stream: What it is read from, at its first value.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._before = stream.tell()
        self._text = b""
        self._place = 0
        self._start: int | None = None

    def peek(self) -> bytes:
        """The next byte that is no blank; none at the end."""
        while True:
            if found := _BLANKS.match(self._text, self._place):
                self._place = found.end()
            if self._place < len(self._text) or not self._more():
                return self._text[self._place : self._place + 1]

    def skip(self, sign: bytes) -> None:
        """Pass a byte that has to be the next one that is no blank.

        Raises:
            DamagedError: Another one is.
        """
        if self.peek() != sign:
            raise self._damaged(f"where {sign.decode()!r} has to be")
        self._place += 1

    def value(self) -> bytes | None:
        """The next value; ``None`` where it is longer than a row can be.

        Raises:
            DamagedError: It has no end.
        """
        self.peek()
        self._start = self._place
        try:
            self._pass()
            if self._start is None or self._place - self._start > row.MAX_ROW_BYTES:
                return None
            return self._text[self._start : self._place]
        finally:
            self._start = None

    def pass_value(self) -> None:
        """Pass the next value and hold nothing of it.

        Raises:
            DamagedError: It has no end.
        """
        self.peek()
        self._pass()

    def _pass(self) -> None:
        opened = bytearray()
        first = self._text[self._place : self._place + 1]
        if first not in (b'"', b"{", b"["):
            if first in (b"", b",", b":", b"}", b"]"):
                raise self._damaged("where a value has to be", ends=not first)
            self._seek(_AFTER_SCALAR)
            return
        while True:
            sign = self._seek(_SIGN)
            if not sign:
                raise self._damaged("in the middle of a value", ends=True)
            self._place += 1
            if sign == b'"':
                self._pass_string()
            elif sign in (b"{", b"["):
                opened += sign
            elif opened.pop() != _CLOSES[sign][0]:
                raise self._damaged(f"where {sign.decode()!r} closes what it did not open")
            if not opened:
                return
            if len(opened) > _MAX_OPEN:
                raise self._damaged(f"where more than {_MAX_OPEN} brackets are open")

    def _pass_string(self) -> None:
        while True:
            if found := _IN_STRING.match(self._text, self._place):
                self._place = found.end()
            if self._text[self._place : self._place + 1] == b'"':
                self._place += 1
                return
            if not self._more():
                raise self._damaged("in the middle of a string", ends=True)

    def _seek(self, signs: re.Pattern[bytes]) -> bytes:
        """Go to the next of some bytes; none of them is left at the end."""
        while (found := signs.search(self._text, self._place)) is None:
            self._place = len(self._text)
            if not self._more():
                return b""
        self._place = found.start()
        return found.group()

    def _more(self) -> bool:
        if self._start is not None and self._place - self._start > row.MAX_ROW_BYTES:
            self._start = None
        kept = self._place if self._start is None else self._start
        # As much again as is held, so that a long value is not copied over and over.
        piece = self._stream.read(max(_PIECE, len(self._text) - kept))
        self._text = self._text[kept:] + piece
        self._before += kept
        self._place -= kept
        if self._start is not None:
            self._start = 0
        return bool(piece)

    def _damaged(self, where: str, *, ends: bool = False) -> DamagedError:
        return DamagedError(f"{'ends' if ends else 'is damaged'} at byte {self._before + self._place}, {where}")
