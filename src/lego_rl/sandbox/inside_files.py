"""Stand-alone module of ``inside.py``: file trees as a stream of records, written and read by descriptor.

Invariant: what is written stays below its folder, whatever links stand in the way; what is sent is what lies there,
links as links. The other end is ``records.py``.
"""

# pathlib would be most of the start-up time.
# ruff: noqa: PTH103, PTH112, PTH115, PTH208

import os
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

RECORD = struct.Struct("!cHQI")
"""Head of a record: kind, permission bits, size of the content, length of the path; path and content follow."""
FILE, SYMLINK, DIRECTORY, DELETED = b"f", b"l", b"d", b"x"


def write_folder(path: str, stream: "IO[bytes]") -> None:
    """Create, replace and delete paths below the folder `path` as the records of a stream say."""
    os.makedirs(path, exist_ok=True)
    root = os.open(path, os.O_DIRECTORY | os.O_RDONLY)
    while head := stream.read(RECORD.size):
        kind, mode, size, length = RECORD.unpack(head)
        write_record(root, kind, mode, os.fsdecode(stream.read(length)), stream.read(size))
    os.close(root)


def write_record(root: int, kind: bytes, mode: int, path: str, content: bytes) -> None:
    """Make `path` below the directory `root` what the record says."""
    *parents, name = path.split("/")
    folder = os.dup(root)
    for parent in parents:
        if not is_directory(parent, folder):
            if kind == DELETED:
                os.close(folder)
                return
            remove(parent, folder)
            os.mkdir(parent, 0o755, dir_fd=folder)
        inner = os.open(parent, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    if kind != DIRECTORY or not is_directory(name, folder):
        remove(name, folder)
    if kind == FILE:
        target = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode & 0o777, dir_fd=folder)
        with os.fdopen(target, "wb") as stream:
            stream.write(content)
    elif kind == SYMLINK:
        os.symlink(os.fsdecode(content), name, dir_fd=folder)
    elif kind == DIRECTORY and not is_directory(name, folder):
        os.mkdir(name, mode & 0o777, dir_fd=folder)
    os.close(folder)


def is_directory(name: str, folder: int) -> bool:
    """Whether `name` in the open directory is a real directory, not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode)
    except FileNotFoundError:
        return False


def remove(name: str, folder: int) -> None:
    """Remove whatever `name` is in the open directory, if anything."""
    if is_directory(name, folder):
        inner = os.open(name, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_RDONLY, dir_fd=folder)
        for entry in os.listdir(inner):
            remove(entry, inner)
        os.close(inner)
        os.rmdir(name, dir_fd=folder)
        return
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


def send_path(path: str, stream: "IO[bytes]", most: "int | None") -> None:
    """Records of a folder or a file; of files no more than the last `most` bytes."""
    if os.path.isdir(path):
        send_folder(path, "", stream, most)
    else:
        send_file(path, "", stream, most)


def send_folder(path: str, relative: str, stream: "IO[bytes]", most: "int | None") -> None:
    """Records of everything below `path`, named relative to it; what vanishes or may not be read is left out."""
    for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
        name = f"{relative}/{entry.name}" if relative else entry.name
        try:
            if entry.is_symlink():
                send(stream, SYMLINK, 0, name, os.fsencode(os.readlink(entry.path)))
            elif entry.is_dir():
                send(stream, DIRECTORY, 0o755, name, b"")
                send_folder(entry.path, name, stream, most)
            elif entry.is_file():
                send_file(entry.path, name, stream, most)
        except (FileNotFoundError, PermissionError):
            continue


def send_file(path: str, name: str, stream: "IO[bytes]", most: "int | None") -> None:
    """One record with the content of a regular file as it is now, or with its end and a line that says so."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as source:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path}: not a regular file")
        mark = b""
        if most is not None and status.st_size > most:
            mark = b"[... %d bytes left out ...]\n" % (status.st_size - most)
            source.seek(-most, os.SEEK_END)
        send(stream, FILE, stat.S_IMODE(status.st_mode) & 0o777, name, mark + source.read(-1 if most is None else most))


def send(stream: "IO[bytes]", kind: bytes, mode: int, name: str, content: bytes) -> None:
    """Write one record."""
    path = os.fsencode(name)
    stream.write(RECORD.pack(kind, mode, len(content), len(path)) + path + content)
