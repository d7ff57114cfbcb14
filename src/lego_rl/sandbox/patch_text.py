"""A change as the text of a patch that ``git apply`` takes.

Source: git's documentation of its patch format. Text is what is UTF-8 without NUL; anything else is a binary patch.
"""

import base64
import difflib
import hashlib
import os
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from lego_rl.sandbox.verdict import Change, Patch

_FILE, _EXECUTABLE, _LINK = "100644", "100755", "120000"
_LINE_BYTES = 52
_ZERO = "0" * 40
_ESCAPES = {ord("\t"): "\\t", ord("\n"): "\\n", ord('"'): '\\"', ord("\\"): "\\\\"}


def patch_text(patch: Patch, pristine: Path) -> bytes:
    """The text of a patch.

    Args:
        patch: The change.
        pristine: The tree that it changes.
    """
    return b"".join(line for change in patch.changes for line in _section(change, pristine))


def _section(change: Change, pristine: Path) -> Iterator[bytes]:
    """The lines about one path; a file that becomes a link, or the other way, is deleted and made."""
    old = _old(change.path, pristine)
    new = None if change.kind == "deleted" else (_mode_of(change), change.content)
    if old is not None and new is not None and (old[0] == _LINK) != (new[0] == _LINK):
        yield from _change(change.path, old, None)
        yield from _change(change.path, None, new)
    elif old != new:
        yield from _change(change.path, old, new)


def _mode_of(change: Change) -> str:
    if change.kind == "symlink":
        return _LINK
    return _EXECUTABLE if change.executable else _FILE


def _old(path: str, pristine: Path) -> tuple[str, bytes] | None:
    place = pristine / path
    if any(parent.is_symlink() for parent in place.parents if parent.is_relative_to(pristine) and parent != pristine):
        return None
    if place.is_symlink():
        return _LINK, os.fsencode(place.readlink())
    if not place.is_file():
        return None
    return (_EXECUTABLE if place.stat().st_mode & 0o100 else _FILE), place.read_bytes()


def _change(path: str, old: tuple[str, bytes] | None, new: tuple[str, bytes] | None) -> Iterator[bytes]:
    before, after = _quoted("a/" + path), _quoted("b/" + path)
    yield b"diff --git %s %s\n" % (before, after)
    if old is None and new is not None:
        yield b"new file mode %s\n" % new[0].encode()
    elif new is None and old is not None:
        yield b"deleted file mode %s\n" % old[0].encode()
    elif old is not None and new is not None and old[0] != new[0]:
        yield b"old mode %s\nnew mode %s\n" % (old[0].encode(), new[0].encode())
    was, now = old[1] if old else b"", new[1] if new else b""
    if was == now:
        return
    yield b"index %s..%s\n" % (_blob(old).encode(), _blob(new).encode())
    if _is_text(was) and _is_text(now):
        yield b"--- %s\n+++ %s\n" % (before if old else b"/dev/null", after if new else b"/dev/null")
        yield from _hunks(was, now)
    else:
        yield b"GIT binary patch\n"
        yield from _literal(now)
        yield from _literal(was)


def _is_text(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in content


def _hunks(was: bytes, now: bytes) -> Iterator[bytes]:
    lines = difflib.diff_bytes(difflib.unified_diff, _lines(was), _lines(now))
    for line in islice(lines, 2, None):  # without its head, which has no names here
        yield line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"


def _lines(content: bytes) -> list[bytes]:
    """Split at line feeds alone."""
    *whole, rest = content.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


def _literal(content: bytes) -> Iterator[bytes]:
    yield b"literal %d\n" % len(content)
    packed = zlib.compress(content)
    for start in range(0, len(packed), _LINE_BYTES):
        piece = packed[start : start + _LINE_BYTES]
        size = len(piece)
        letter = chr(ord("A") + size - 1) if size <= 26 else chr(ord("a") + size - 27)
        yield letter.encode() + base64.b85encode(piece, pad=True) + b"\n"
    yield b"\n"


def _blob(side: tuple[str, bytes] | None) -> str:
    if side is None:
        return _ZERO
    return hashlib.sha1(b"blob %d\0" % len(side[1]) + side[1], usedforsecurity=False).hexdigest()


def _quoted(name: str) -> bytes:
    """A name, in quotation marks where it holds what a line of a patch cannot."""
    raw = os.fsencode(name)
    if all(32 <= byte < 127 and byte not in _ESCAPES for byte in raw):
        return raw
    return ('"' + "".join(_ESCAPES.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in raw) + '"').encode()
