"""Unified diffs as data: read strictly, applied to the letter, turned round.

Invariant: nothing of a diff is passed over and nothing is guessed. A hunk has the lines that it says it has and fits
exactly where it says; a file is there or not there as the diff has it; a path is plain and below the tree, and is named
once. No git runs, and nothing is written: the result is content.

dulwich reads the text and applies the hunks; what it is lenient about is checked here.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dulwich.errors import ApplyDeltaError
from dulwich.pack import apply_delta
from dulwich.patch import FilePatch, PatchHunk, apply_patch_hunks, git_base85_decode, parse_unified_diff

MAX_BYTES = 16 << 20
"""Of a diff, and of each file that a binary one holds."""

_REGULAR = frozenset({None, 0o100644, 0o100755, 0o100664, 0o100600})
_GIT_HEADER = re.compile(rb"^diff --git ", re.MULTILINE)
_PLAIN_HEADER = re.compile(rb"^--- (\S[^\t\n]*)[^\n]*\n\+\+\+ (\S[^\t\n]*)[^\n]*\n(?=@@ )", re.MULTILINE)
_SIGNATURE = re.compile(rb"\n-- \n\d+\.\d[^\n]*\n*\Z")
"""What ends a mail of ``git format-patch``."""
_NOWHERE = b"/dev/null"


class DiffError(ValueError):
    """A diff that cannot be used; the message says why, in words that can follow ``its patch``."""


@dataclass(frozen=True)
class BaseFile:
    """A file that a diff changes.

    Attributes:
        content: What it holds.
        executable: Whether it is a program.
    """

    content: bytes
    executable: bool = False


@dataclass(frozen=True)
class PatchedFile:
    """What a diff makes of one path.

    Attributes:
        path: Relative to the tree.
        content: What is there afterwards; ``None`` for nothing.
        executable: Whether it is a program.
        is_new: Whether the content is not that of the file that it was made of.
    """

    path: str
    content: bytes | None
    executable: bool = False
    is_new: bool = True


type ReadBase = Callable[[str], BaseFile | None]
"""The file of a tree at a path, if there is one."""


@dataclass(frozen=True)
class FileDiff:
    """What a diff says of one file.

    Attributes:
        before: Its path before; ``None`` where it is made.
        after: Its path after; ``None`` where it is deleted.
        patch: The hunks and modes.
    """

    before: str | None
    after: str | None
    patch: FilePatch

    @property
    def removed(self) -> str | None:
        """The path at which nothing is left: of a deleted file, or of one that is called otherwise now."""
        return self.before if self.before != self.after and self.patch.copy_from is None else None

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that it touches."""
        return tuple(path for path in (self.removed, self.after) if path is not None)

    def apply(self, read: ReadBase) -> Iterator[PatchedFile]:
        """What it makes of a tree.

        Raises:
            DiffError: It does not fit.
        """
        base = None if self.before is None else read(self.before)
        if self.before is not None and base is None:
            raise DiffError(f"changes {self.before}, which is not there")
        if self.after is not None and self.after != self.before and read(self.after) is not None:
            raise DiffError(f"makes {self.after}, which is there already")
        before = b"" if base is None else base.content
        content = self._content(before)
        if self.removed is not None:
            yield PatchedFile(self.removed, None)
        if self.after is not None:
            mode = self.patch.new_mode
            executable = bool(mode & 0o100) if mode is not None else base is not None and base.executable
            yield PatchedFile(self.after, content, executable, is_new=base is None or content != before)
        elif content:
            raise DiffError(f"deletes {self.before} and leaves something of it")

    def made(self) -> bytes | None:
        """The whole content of a file that is made; ``None`` for any other."""
        return self._content(b"") if self.before is None else None

    def _content(self, before: bytes) -> bytes:
        if self.patch.binary:
            return b"" if self.after is None else _binary(self.patch, before)
        # Lines end with a line feed and with nothing else: a carriage return is a character of the line.
        applied = apply_patch_hunks(self.patch, re.findall(rb"[^\n]*\n|[^\n]+", before))
        if applied is None:
            raise DiffError(f"does not fit {self.before or self.after}")
        return b"".join(applied)


def read_diff(text: bytes) -> tuple[FileDiff, ...]:
    """Read a diff.

    Raises:
        DiffError: It is none, or holds what is refused here: a link, a submodule, a binary file without its data, a
            path that leads out of the tree or into a git directory, a path twice, a hunk that is cut short.
    """
    if len(text) > MAX_BYTES:
        raise DiffError(f"has more than {MAX_BYTES >> 20} MiB")
    text = _SIGNATURE.sub(b"\n", text)
    if not _GIT_HEADER.search(text):
        text = _PLAIN_HEADER.sub(_with_git_header, text)
    try:
        patches = parse_unified_diff(text)
    except (ValueError, IndexError) as error:
        raise DiffError(f"cannot be read: {error}") from error
    files = tuple(_file(patch) for patch in patches)
    if not files:
        raise DiffError("names no file")
    _check_nothing_lost(text, patches)
    paths = [path for file in files for path in file.paths]
    if len(set(paths)) < len(paths):
        raise DiffError(f"names {next(path for path in paths if paths.count(path) > 1)} twice")
    return files


def apply_diff(text: bytes, read: ReadBase) -> list[PatchedFile]:
    """What a diff makes of a tree, file by file, in its order.

    Raises:
        DiffError: As `read_diff`, or it does not fit the tree.
    """
    return [made for file in read_diff(text) for made in file.apply(read)]


def reversed_diff(text: bytes) -> bytes:
    """The diff that undoes a diff.

    Raises:
        DiffError: As `read_diff`, or it renames, copies or is of a binary file.
    """
    return b"".join(_reversed(file) for file in read_diff(text))


def _file(patch: FilePatch) -> FileDiff:
    if not {patch.old_mode, patch.new_mode} <= _REGULAR:
        raise DiffError(f"is of a link or submodule, {_shown(patch)}")
    if patch.binary and patch.binary_new is None and patch.new_path is not None:
        raise DiffError(f"is of a binary file without its data, {_shown(patch)}")
    source = patch.rename_from or patch.copy_from
    if source is not None:
        return FileDiff(_plain(source), _plain(patch.rename_to or patch.copy_to or b""), patch)
    before = None if patch.old_path is None else _stripped(patch.old_path, b"a/")
    after = None if patch.new_path is None else _stripped(patch.new_path, b"b/")
    if before is None and after is None:
        raise DiffError("names a file in no way that can be read")
    return FileDiff(before, after, patch)


def _stripped(path: bytes, prefix: bytes) -> str:
    if not path.startswith(prefix):
        raise DiffError(f"has paths that do not begin with a/ and b/, as {path[:200]!r}")
    return _plain(path[len(prefix) :])


def _plain(path: bytes) -> str:
    try:
        text = path.decode()
    except UnicodeDecodeError:
        raise DiffError(f"has a path that is no text, {path[:200]!r}") from None
    parts = text.split("/")
    if not {"", ".", ".."}.isdisjoint(parts) or "\0" in text:
        raise DiffError(f"leads out of the tree, to {text[:200]!r}")
    if any(part.lower() == ".git" for part in parts):
        raise DiffError(f"changes a git directory, {text[:200]!r}")
    return text


def _check_nothing_lost(text: bytes, patches: list[FilePatch]) -> None:
    """dulwich passes over what it does not understand; so every line has to be accounted for."""
    hunks = [hunk for patch in patches for hunk in patch.hunks]
    for hunk in hunks:
        signs = [line[:1] for line in hunk.lines]
        context = signs.count(b" ")
        if (context + signs.count(b"-"), context + signs.count(b"+")) != (hunk.old_count, hunk.new_count):
            raise DiffError(f"has a hunk of another length than it says, at line {hunk.new_start}")
    if not any(patch.binary for patch in patches) and len(re.findall(rb"(?m)^@@ ", text)) != len(hunks):
        raise DiffError("has a hunk that belongs to no file, or a damaged one")


def _with_git_header(found: re.Match[bytes]) -> bytes:
    """As git begins a file, for a diff that other tools wrote."""
    before, after = found[1].strip(), found[2].strip()
    name = after[2:] if after != _NOWHERE else before[2:]
    return b"diff --git a/%b b/%b\n%b" % (name, name, found[0])


def _binary(patch: FilePatch, before: bytes) -> bytes:
    try:
        reader = zlib.decompressobj()
        data = reader.decompress(git_base85_decode(patch.binary_new or b""), MAX_BYTES)
        if not reader.eof:
            raise DiffError(f"has a binary file that is damaged or too large, {_shown(patch)}")
        return b"".join(apply_delta(before, data)) if patch.binary_new_delta else data
    except (ValueError, zlib.error, ApplyDeltaError) as error:
        raise DiffError(f"has a binary file that cannot be read, {_shown(patch)}: {error}") from error


def _shown(patch: FilePatch) -> str:
    return repr(patch.new_path or patch.old_path or b"")


def _reversed(file: FileDiff) -> bytes:
    patch = file.patch
    if patch.binary or (file.before is not None and file.after is not None and file.before != file.after):
        raise DiffError(f"cannot be turned round: it renames or is binary, {_shown(patch)}")
    name = str(file.after or file.before).encode()
    lines = [b"diff --git a/%b b/%b" % (name, name)]
    old, new = patch.new_mode, patch.old_mode
    if file.before is None:
        lines.append(b"deleted file mode %o" % (old or 0o100644))
    elif file.after is None:
        lines.append(b"new file mode %o" % (new or 0o100644))
    elif old is not None and new is not None and old != new:
        lines += [b"old mode %o" % old, b"new mode %o" % new]
    if patch.hunks:
        lines.append(b"--- a/" + name if file.after is not None else b"--- " + _NOWHERE)
        lines.append(b"+++ b/" + name if file.before is not None else b"+++ " + _NOWHERE)
    for hunk in patch.hunks:
        lines += _reversed_hunk(hunk)
    return b"\n".join(lines) + b"\n"


def _reversed_hunk(hunk: PatchHunk) -> Iterator[bytes]:
    yield b"@@ -%d,%d +%d,%d @@" % (hunk.new_start, hunk.new_count, hunk.old_start, hunk.old_count)
    for line in hunk.lines:
        yield {b"+": b"-", b"-": b"+"}.get(line[:1], line[:1]) + line[1:]
