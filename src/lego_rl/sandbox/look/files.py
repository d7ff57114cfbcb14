"""What git objects the sandbox's file system holds, and whether hidden paths are there.

Everything below the root is walked but for the folders that the host names: the kernel's, and those that it put there
itself, read-only and not from the task (its programs, Python, the harness). They are large, and no task can write them
or choose what is in them. What files hold is told by their names here, and by their first bytes where a name suspects
them; the host opened every file of the work tree when it made the image.

Fields: ``hidden:PATH`` that must not exist, ``skip:PATH``, ``fixture:PATH`` that the base commit has as files,
``content:SIZE SHA256 NAME`` of a file that must be nowhere, ``repository:GIT_DIR`` followed by its
``objects:COUNT DIGEST`` and one ``file:SIZE SHA256 NAME`` for each of its files.
"""

# pathlib would be most of the run time.
# ruff: noqa: PTH118, PTH119, PTH123, PTH202

import os
import struct
import zlib

try:
    from _sha2 import sha256  # type: ignore[import-not-found]  # hashlib would take longer to import than everything here takes to run
except ImportError:
    from hashlib import sha256

HIDDEN, GIT, STRAY, SHOWN = "hidden", "git", "stray", "shown"
MAX_READ_BYTES = 1 << 30
"""Of files that are read because they are as large as one that must be nowhere."""
MAX_NAMED = 10
"""Most holes that are named; more of them say nothing new."""
SUFFIXES = (".pack", ".idx", ".bundle")
MAGIC = (b"PACK\0\0\0\2", b"PACK\0\0\0\3", b"\xfftOc", b"# v2 git bundle", b"# v3 git bundle")
"""How a pack, a pack's index and a bundle begin (gitformat-pack, gitformat-bundle)."""
BARE = frozenset({"HEAD", "objects", "refs"})
"""What makes a git directory of a folder, by git's own criterion. The host asks by the same names: this is the one
place for them, for what runs inside can import nothing of the host's."""
KINDS = (b"commit ", b"tree ", b"blob ", b"tag ")
HEAD_BYTES = 64
INDEX_HEAD = 8 + 256 * 4
"""Magic, version and fan-out table of a pack's index, version 2; the sorted ids follow (gitformat-pack)."""
DIGITS = set("0123456789abcdef")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Repository:
    """What the host expects of one git directory."""

    def __init__(self, git_dir: str) -> None:
        self.git_dir = git_dir
        self.objects = ""
        self.files: dict[str, tuple[int, str]] = {}


def holes(fields: "list[str]") -> "list[tuple[str, str]]":
    """Kinds and sentences: hidden paths, repositories that are not as expected, and git objects outside of them."""
    found: list[tuple[str, str]] = []
    skip, fixtures = set(), set()
    content = Content()
    repositories: dict[str, Repository] = {}
    for field in fields:
        kind, _, value = field.partition(":")
        if kind == "hidden" and os.path.lexists(value):
            found.append((HIDDEN, f"{value} is visible"))
        elif kind == "skip":
            skip.add(value)
        elif kind == "fixture":
            fixtures.add(value)
        elif kind == "content":
            size, digest, name = value.split(" ", 2)
            content.expect(int(size), digest, name)
        elif kind == "repository":
            current = repositories[value] = Repository(value)
        elif kind == "objects":
            current.objects = value
        elif kind == "file":
            size, digest, name = value.split(" ", 2)
            current.files[name] = (int(size), digest)
    seen = set()
    for path in suspects("/", skip, content):
        if path in repositories:
            seen.add(path)
            found += [(GIT, said) for said in differences(repositories[path])]
        elif path not in fixtures:
            found.append((STRAY, f"{path} holds git objects that it must not"))
        if len(found) > MAX_NAMED:
            return [*found[:MAX_NAMED], (STRAY, "and more")]
    return (
        found
        + [(SHOWN, said) for said in content.found[:MAX_NAMED]]
        + [(GIT, f"{path} is missing") for path in sorted(set(repositories) - seen)]
    )


class Content:
    """What files must not hold, and those that do."""

    def __init__(self) -> None:
        self.expected: dict[int, dict[str, str]] = {}
        self.found: list[str] = []
        self.left = MAX_READ_BYTES

    def expect(self, size: int, digest: str, name: str) -> None:
        """Add what must be nowhere."""
        self.expected.setdefault(size, {})[digest] = name

    def look(self, entry: "os.DirEntry[str]") -> None:
        """See whether a file holds it; only one of the same size is read."""
        if not self.expected or not entry.is_file(follow_symlinks=False):
            return
        size = entry.stat(follow_symlinks=False).st_size
        if size not in self.expected:
            return
        self.left -= size
        if self.left < 0:
            self.expected.clear()
            self.found.append(f"more than {MAX_READ_BYTES >> 20} MiB of files are as large as one that is hidden")
            return
        try:
            with open(entry.path, "rb") as stream:
                name = self.expected[size].get(sha256(stream.read()).hexdigest())
        except OSError:  # The agent, the same user, cannot read it either.
            return
        if name is not None:
            self.found.append(f"{entry.path} is {name} of the task")


def suspects(root: str, skip: "set[str]", content: Content) -> "Iterator[str]":
    """Git directories, and files that hold git objects; what is in a git directory is not told.

    Every other file on the way is held against `content`.
    """
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:  # What the first process may not read the agent, the same user, may not either.
            continue
        names = {entry.name for entry in entries}
        if names >= BARE:
            yield folder
            continue
        in_fanout = len(os.path.basename(folder)) == 2 and set(os.path.basename(folder)) <= DIGITS
        for entry in entries:
            name, path = entry.name, entry.path
            if name == ".git":
                yield path
            elif entry.is_dir(follow_symlinks=False):
                if path not in skip:
                    folders.append(path)
            else:
                content.look(entry)
                if (name.endswith(SUFFIXES) or (in_fanout and len(name) >= 38)) and holds_objects(path):
                    yield path


def holds_objects(path: str) -> bool:
    """Whether a file begins like a pack, an index, a bundle or a loose object."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        head = os.read(descriptor, HEAD_BYTES)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    if head.startswith(MAGIC):
        return True
    try:
        return zlib.decompressobj().decompress(head, 16).startswith(KINDS)
    except zlib.error:
        return False


def differences(expected: Repository) -> "list[str]":
    """How a git directory differs from what the host expects, its objects counted and digested."""
    top, found, present, regular = expected.git_dir, [], set(), []
    folders = [""]
    while folders:
        below = folders.pop()
        for entry in os.scandir(os.path.join(top, below)):
            name = os.path.join(below, entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(name)
                continue
            present.add(name)
            if name not in expected.files:
                found.append(f"{entry.path} must not be there")
                continue
            if entry.is_file(follow_symlinks=False):
                regular.append(name)
            if name not in regular or not same(entry.path, *expected.files[name]):
                found.append(f"{entry.path} is not what was sealed")
    found += [f"{top}/{name} is missing" for name in sorted(set(expected.files) - present)]
    ids, packed = object_ids(top, regular)
    told = f"{len(ids) // 20} {sha256(ids).hexdigest()}"
    if told != expected.objects:
        found.append(f"{top} has {len(ids) // 20} objects, not the {expected.objects.split(' ')[0]} of its base commit")
    if packed != len(ids) // 20:
        found.append(f"the packs in {top} have {packed} objects, their indices name {len(ids) // 20}")
    return found[:MAX_NAMED]


def same(path: str, size: int, digest: str) -> bool:
    """Whether a file has a size and, where one is given, a digest."""
    if os.path.getsize(path) != size:
        return False
    if not digest:
        return True
    with open(path, "rb") as stream:
        return str(sha256(stream.read()).hexdigest()) == digest


def object_ids(git_dir: str, names: "list[str]") -> "tuple[bytes, int]":
    """The ids that the indices of packs have, sorted, 20 bytes each, and how many objects the packs say they have."""
    ids, packed = [], 0
    for name in names:
        path = os.path.join(git_dir, name)
        if name.endswith(".idx"):
            ids.append(ids_in(path))
        elif name.endswith(".pack"):
            with open(path, "rb") as stream:
                packed += struct.unpack("!4sII", stream.read(12))[2]
    if len(ids) == 1:
        return ids[0], packed
    every = b"".join(ids)
    return b"".join(sorted(every[start : start + 20] for start in range(0, len(every), 20))), packed


def ids_in(path: str) -> bytes:
    """The sorted ids of a pack's index, 20 bytes each."""
    with open(path, "rb") as stream:
        head = stream.read(INDEX_HEAD)
        magic, version, count = struct.unpack("!4sI1020xI", head)
        if (magic, version) != (b"\xfftOc", 2):
            raise ValueError(f"{path} is no index of version 2")
        return stream.read(20 * count)
