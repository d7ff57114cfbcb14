"""Stand-alone module of ``bridge.py``: what a keeper does itself.

Invariant: of the agent's files it reads names, sizes and bytes; it runs none, follows none of their links, and what it
is asked to read it reads when the work container is dead.
"""

# ruff: noqa: PTH100, PTH103, PTH115, PTH118, PTH120, PTH123, SIM105, RUF100

import errno
import hashlib
import os
import socket
import stat
import struct
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lego_rl.sandbox import inside_files
    from lego_rl.sandbox.kubernetes.frames import Request
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import inside_files

PIECE = 1 << 16
CONNECT_SECONDS = 30.0
REACH_SECONDS = 1.0
ACCEPT_PAUSE_SECONDS = 0.1
BLOCK = 4096
NAME_BYTES = 64
"""Of a name that is still to be looked at, besides its letters."""
MAX_NAMES_BYTES = 32 << 20
NOT_MEASURED_HERE = (errno.EACCES, errno.ENOENT, errno.ENOTDIR)
"""A folder that may not be entered, or has gone meanwhile."""
MAX_CONNECTIONS = 128
"""Twice what the host's listener takes: each costs this container two threads and their buffers."""
TREE = "/run/lego/tree"
REPORTS = "/run/lego/report"
MOUNTS = "/run/lego/mounts"
MAX_REPORT_BYTES = 32 << 20
TOLD_DEPTH = 110
"""Of what is told of a work tree: deeper than any diff goes (`lego_rl.sandbox.comparison.MAX_DEPTH`), so that the host,
which drops what is nested deeper, says so."""


def mount(request: "Request") -> None:
    """``mount``: a folder below the mounts; records on standard input. The work container can only read them."""
    os.makedirs(os.path.join(MOUNTS, request.fields[1]), exist_ok=True)
    root = os.open(os.path.join(MOUNTS, request.fields[1]), os.O_DIRECTORY | os.O_RDONLY)
    with os.fdopen(os.dup(request.input.fileno()), "rb") as stream:
        while head := stream.read(inside_files.RECORD.size):
            kind, mode, size, length = inside_files.RECORD.unpack(head)
            inside_files.write_record(root, kind, mode, os.fsdecode(stream.read(length)), stream.read(size))
    os.close(root)


def walk(path: str, relative: str, *, into_git: bool) -> "Iterator[tuple[str, str, os.stat_result]]":
    """Path, path relative to the tree and status of everything below `path`; of what may not be read, no more."""
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        name = f"{relative}/{entry.name}" if relative else entry.name
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        yield entry.path, name, status
        deep = name.count("/") >= TOLD_DEPTH
        if stat.S_ISDIR(status.st_mode) and not deep and (into_git or entry.name != ".git"):
            yield from walk(entry.path, name, into_git=into_git)


def listing(request: "Request") -> None:
    """``list``: a folder. One record for each path below it: of a file size and digest, of a link its target.

    A file that cannot be read has a size only, a folder that cannot no mode. Of the inside of a ``.git`` something is
    told only where the word ``git`` follows. What is neither file, link nor folder comes as a deletion with content.
    """
    if os.path.lexists(request.fields[1]) and not os.access(request.fields[1], os.R_OK | os.X_OK):
        raise ValueError(f"{request.fields[1]} may not be read")
    for path, name, status in walk(request.fields[1], "", into_git="git" in request.fields[2:]):
        kind, content, mode = inside_files.DELETED, b"special", status.st_mode
        if stat.S_ISREG(mode):
            kind, content = inside_files.FILE, struct.pack("!Q", status.st_size) + digest_of(path)
        elif stat.S_ISLNK(mode):
            kind, content = inside_files.SYMLINK, os.fsencode(os.readlink(path))
        elif stat.S_ISDIR(mode):
            kind, content = inside_files.DIRECTORY, b""
            if not os.access(path, os.R_OK | os.X_OK):
                mode = 0
        head(request, kind, mode, os.fsencode(name), len(content))
        request.write(content)


def head(request: "Request", kind: bytes, mode: int, path: bytes, size: int) -> None:
    """Begin a record; so many bytes of content follow."""
    request.write(inside_files.RECORD.pack(kind, stat.S_IMODE(mode) & 0o777, size, len(path)) + path)


def digest_of(path: str) -> bytes:
    """SHA-256 of a regular file, or nothing where it may not be read."""
    digest = hashlib.sha256()
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
    except OSError:
        return b""
    return digest.digest()


def fetch(request: "Request") -> None:
    """``fetch``: a folder; NUL-separated paths below it on standard input. A record for each file."""
    with os.fdopen(os.dup(request.input.fileno()), "rb") as stream:
        names = [name for name in stream.read().split(b"\0") if name]
    for name in names:
        path = os.path.join(os.fsencode(request.fields[1]), name)
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as source:
            status = os.fstat(source.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ValueError(f"{os.fsdecode(name)} is no file")
            head(request, inside_files.FILE, status.st_mode, name, status.st_size)
            left = status.st_size
            while left and (piece := source.read(min(left, 1 << 20))):
                request.write(piece)
                left -= len(piece)


def report(request: "Request") -> None:
    """``report``: a file that a test command left, or nothing: only a regular one of a bearable size counts."""
    try:
        path = os.path.join(REPORTS, request.fields[1].rpartition("/")[2])
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    with os.fdopen(os.dup(descriptor), "rb", closefd=True) as source:
        status = os.fstat(descriptor)
        os.close(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_REPORT_BYTES:
            request.write(source.read(MAX_REPORT_BYTES))


def relay(request: "Request") -> None:
    """``relay``: a port on this pod's loopback, and the address and port that its connections are joined to."""
    port, host, target = request.fields[1:4]
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", int(port)))
    server.listen(128)

    places = threading.Semaphore(MAX_CONNECTIONS)

    def carry_one(client: socket.socket) -> None:
        try:
            join(client, (host, int(target)))
        finally:
            places.release()

    def serve() -> None:
        while True:
            places.acquire()  # Whoever finds no place waits in the kernel.
            try:
                client, _ = server.accept()
            except OSError:
                places.release()
                time.sleep(ACCEPT_PAUSE_SECONDS)
                continue
            try:
                threading.Thread(target=carry_one, args=(client,), daemon=True).start()
            except RuntimeError:  # The pod has as many processes as it may have.
                client.close()
                places.release()

    threading.Thread(target=serve, daemon=True).start()


def join(client: socket.socket, address: "tuple[str, int]") -> None:
    """Carry bytes both ways until both have ended."""
    try:
        upstream = socket.create_connection(address, timeout=CONNECT_SECONDS)
        upstream.settimeout(None)
        back = threading.Thread(target=carry, args=(upstream, client), daemon=True)
        back.start()
    except (OSError, RuntimeError):
        client.close()
        return
    carry(client, upstream)
    back.join()
    client.close()
    upstream.close()


def carry(source: socket.socket, target: socket.socket) -> None:
    """Bytes of one direction; whichever end breaks, the other hears of it."""
    try:
        while piece := source.recv(PIECE):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def reach(request: "Request") -> None:
    """``reach``: a host and a port, from where the agent will be. An error where nothing takes a connection."""
    socket.create_connection((request.fields[1], int(request.fields[2])), timeout=REACH_SECONDS).close()


def resolver(request: "Request") -> None:
    """``resolver``: the name servers that the pod was given, one a line."""
    with open("/etc/resolv.conf") as stream:
        lines = [line.split() for line in stream]
    request.write("\n".join(words[1] for words in lines if words[:1] == ["nameserver"]).encode())


def environ(request: "Request") -> None:
    """``environ``: the variables that the image, and the cluster, give every container; NUL-separated."""
    request.write(b"\0".join(name + b"=" + value for name, value in os.environb.items()))


def size_of(folders: "list[str]", limit: int) -> int:
    """Bytes on the disk of everything below some folders; stops soon after `limit`.

    What is nested too deeply to be looked at counts as too large, and so do folders whose names would take this
    container's memory. What this user may not enter is left out: the node measures it.

    Raises:
        OSError: It cannot be measured.
    """
    total, names = 0, sum(NAME_BYTES + len(folder) for folder in folders)
    while folders and total <= limit:
        folder = folders.pop()
        names -= NAME_BYTES + len(folder)
        try:
            # One entry after the other: an agent may make more of them than fit into memory.
            with os.scandir(folder) as entries:
                for entry in entries:
                    is_folder, size = entry_size(entry)
                    total += size
                    if is_folder:
                        folders.append(entry.path)
                        names += NAME_BYTES + len(entry.path)
                    if total > limit or names > MAX_NAMES_BYTES:
                        return limit + 1
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return limit + 1
            if error.errno not in NOT_MEASURED_HERE:
                raise
    return total


def entry_size(entry: "os.DirEntry[str]") -> "tuple[bool, int]":
    """Whether it is a folder, and its bytes, at least a block."""
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False, 0
    return stat.S_ISDIR(status.st_mode), max(BLOCK, status.st_blocks * 512)


OPERATIONS: "dict[str, Callable[[Request], None]]" = {
    "mount": mount, "list": listing, "fetch": fetch, "report": report, "relay": relay, "reach": reach,
    "resolver": resolver, "environ": environ,
}  # fmt: skip
