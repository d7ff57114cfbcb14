"""Stand-alone program: runs in the keeper of a pod and joins the host's stream to the work container beside it.

Invariant: it lives in another process namespace than the agent, which can neither stop, trace nor reach it; it starts
nothing that the agent wrote and follows no link of the agent's. When the host's stream ends, it hangs up, and the work
container ends with that.

Run as ``python -I -S bridge.py [NAME]`` beside ``inside.py``, with the standard library only; NAME is the abstract name
of the socket on which process 1 of the work container listens. Frames on standard input and output are a 4-byte request
number, one letter, a 4-byte length and that many bytes. From the host: ``R`` NUL-separated strings, the operation
first; ``I`` a piece of its standard input; ``E`` its standard input is whole: go; ``C`` nobody reads its output any
more. To the host: ``O`` and ``e`` pieces of output and error output, empty at their end; ``S`` the reply (a wait
status, or one byte); ``X`` process 1 is gone.
"""

# ruff: noqa: PTH100, PTH103, PTH115, PTH118, PTH120, PTH123, SIM105, SIM115, B905

import errno
import hashlib
import os
import socket
import stat
import struct
import sys
import tempfile
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lego_rl.sandbox import inside
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import inside

FRAME = struct.Struct("!IcI")
PIECE = 1 << 16
CONNECT_SECONDS = 30.0
REACH_SECONDS = 1.0
MEASURE_SECONDS = 1.0
BLOCK = 4096
SPOOL = "/run/lego/spool"
TREE = "/run/lego/tree"
REPORT = "/run/lego/report/report"
MOUNTS = "/run/lego/mounts"
MAX_REPORT_BYTES = 32 << 20
MAX_DEPTH = 110
"""Of what is told of a work tree; the host drops what is nested as deep as that."""
PASSED_ON = ("exec", "put", "get", "seal", "kill")
"""What process 1 of the work container does."""

output_lock = threading.Lock()
control_lock = threading.Lock()
unread: "set[int]" = set()
"""Requests whose output nobody reads any more."""


def say(number: int, letter: bytes, body: bytes = b"") -> None:
    """Send a frame to the host."""
    with output_lock:
        data = memoryview(FRAME.pack(number, letter, len(body)) + body)
        while data:
            data = data[os.write(1, data) :]


def read_exactly(size: int) -> bytes:
    """The next bytes from the host; ends the process when there are none."""
    parts = []
    while size:
        piece = os.read(0, min(size, 1 << 20))
        if not piece:
            os._exit(0)
        parts.append(piece)
        size -= len(piece)
    return b"".join(parts)


class Request:
    """One request of the host's."""

    def __init__(self, number: int, fields: "list[str]") -> None:
        self.number = number
        self.fields = fields
        self.input = tempfile.TemporaryFile(dir=SPOOL, buffering=0)

    def pump(self, descriptor: int, letter: bytes) -> None:
        """Send what comes out of a pipe to the host, as long as that reads it."""
        while piece := os.read(descriptor, PIECE):
            if self.number not in unread:
                say(self.number, letter, piece)
        os.close(descriptor)
        say(self.number, letter)

    def pass_on(self, control: socket.socket) -> None:
        """Have process 1 of the work container do it."""
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        handed = [theirs.fileno()]
        if self.fields[0] != "kill":
            self.input.seek(0)
            pipes = [os.pipe(), os.pipe()]
            handed = [self.input.fileno(), pipes[0][1], pipes[1][1], *handed]
            for (read, _), letter in zip(pipes, (b"O", b"e")):
                threading.Thread(target=self.pump, args=(read, letter), daemon=True).start()
        body = b"\0".join(os.fsencode(field) for field in self.fields)
        try:
            with control_lock:
                socket.send_fds(control, [struct.pack("!I", len(body))], handed)
                control.sendall(body)
        except OSError:
            say(self.number, b"X")
            return
        finally:
            for descriptor in handed[1:3] if len(handed) > 1 else ():
                os.close(descriptor)
            theirs.close()
            self.input.close()
        try:
            message = mine.recv(64)
        except OSError:
            message = b""
        say(self.number, b"S" if message else b"X", message)
        mine.close()

    def answer(self) -> None:
        """Do it here; errors are told as a program tells them."""
        status = 1
        try:
            self.input.seek(0)
            OPERATIONS[self.fields[0]](self)
            status = 0
        except (OSError, ValueError) as error:
            say(self.number, b"e", os.fsencode(f"{error}\n"))
        finally:
            self.input.close()
            say(self.number, b"O")
            say(self.number, b"e")
            say(self.number, b"S", struct.pack("!i", status << 8))

    def write(self, data: bytes) -> None:
        """Send output."""
        for start in range(0, len(data), 1 << 20):
            say(self.number, b"O", data[start : start + (1 << 20)])

    def record(self, kind: bytes, mode: int, path: bytes, content: bytes) -> None:
        """Send a record."""
        self.write(inside.RECORD.pack(kind, stat.S_IMODE(mode) & 0o777, len(content), len(path)) + path + content)


def mount(request: Request) -> None:
    """``mount``: a folder below the mounts; records on standard input. The work container can only read them."""
    os.makedirs(os.path.join(MOUNTS, request.fields[1]), exist_ok=True)
    root = os.open(os.path.join(MOUNTS, request.fields[1]), os.O_DIRECTORY | os.O_RDONLY)
    with os.fdopen(os.dup(request.input.fileno()), "rb") as stream:
        while head := stream.read(inside.RECORD.size):
            kind, mode, size, length = inside.RECORD.unpack(head)
            inside.write_record(root, kind, mode, os.fsdecode(stream.read(length)), stream.read(size))
    os.close(root)


def walk(path: str, relative: str) -> "Iterator[tuple[str, str, os.stat_result]]":
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
        if stat.S_ISDIR(status.st_mode) and entry.name != ".git" and name.count("/") < MAX_DEPTH:
            yield from walk(entry.path, name)


def listing(request: Request) -> None:
    """``list``: a folder. One record for each path below it: of a file size and digest, of a link its target.

    A file that cannot be read has a size only, a folder that cannot no mode. Nothing is told of the inside of a
    ``.git``. What is neither file, link nor folder comes as a deletion with content.
    """
    for path, name, status in walk(request.fields[1], ""):
        kind, content = inside.DELETED, b"special"
        if stat.S_ISREG(status.st_mode):
            kind, content = inside.FILE, struct.pack("!Q", status.st_size) + digest_of(path)
        elif stat.S_ISLNK(status.st_mode):
            kind, content = inside.SYMLINK, os.fsencode(os.readlink(path))
        elif stat.S_ISDIR(status.st_mode):
            kind, content = inside.DIRECTORY, b""
        mode = status.st_mode
        if kind == inside.DIRECTORY and not os.access(path, os.R_OK | os.X_OK):
            mode = 0
        request.record(kind, mode, os.fsencode(name), content)


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


def fetch(request: Request) -> None:
    """``fetch``: a folder; NUL-separated paths below it on standard input. A record for each file."""
    with os.fdopen(os.dup(request.input.fileno()), "rb") as stream:
        names = [name for name in stream.read().split(b"\0") if name]
    for name in names:
        path = os.path.join(os.fsencode(request.fields[1]), name)
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as source:
            mode = os.fstat(source.fileno()).st_mode
            if stat.S_ISREG(mode):
                request.record(inside.FILE, mode, name, source.read())


def report(request: Request) -> None:
    """``report``: the report of a test command, or nothing: only a regular file of a bearable size is one."""
    try:
        descriptor = os.open(REPORT, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    with os.fdopen(descriptor, "rb") as source:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_REPORT_BYTES:
            request.write(source.read(MAX_REPORT_BYTES))


def relay(request: Request) -> None:
    """``relay``: a port on this pod's loopback, and the address and port that its connections are joined to."""
    port, host, target = request.fields[1:4]
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", int(port)))
    server.listen(128)

    def serve() -> None:
        while True:
            client, _ = server.accept()
            threading.Thread(target=join, args=(client, (host, int(target))), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()


def join(client: socket.socket, address: "tuple[str, int]") -> None:
    """Carry bytes both ways until both have ended."""
    try:
        upstream = socket.create_connection(address, timeout=CONNECT_SECONDS)
    except OSError:
        client.close()
        return
    upstream.settimeout(None)
    back = threading.Thread(target=carry, args=(upstream, client), daemon=True)
    back.start()
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


def reach(request: Request) -> None:
    """``reach``: addresses, ``HOST PORT``. A line for each that takes a connection, from where the agent will be."""
    found: list[str] = []

    def attempt(address: str) -> None:
        host, port = address.split(" ")
        try:
            socket.create_connection((host, int(port)), timeout=REACH_SECONDS).close()
        except OSError:
            return
        found.append(address)

    threads = [threading.Thread(target=attempt, args=(address,)) for address in request.fields[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    request.write(os.fsencode("\n".join(sorted(found))))


def resolver(request: Request) -> None:
    """``resolver``: the name servers that the pod was given, one a line."""
    with open("/etc/resolv.conf") as stream:
        lines = [line.split() for line in stream]
    request.write("\n".join(words[1] for words in lines if words[:1] == ["nameserver"]).encode())


def environ(request: Request) -> None:
    """``environ``: the variables that the image, and the cluster, give every container; NUL-separated."""
    request.write(b"\0".join(name + b"=" + value for name, value in os.environb.items()))


def bound(request: Request) -> None:
    """``bound``: a number of bytes. Returns when the work tree and the report together are larger."""
    limit = int(request.fields[1])
    while size_of([TREE, os.path.dirname(REPORT)], limit) <= limit:
        time.sleep(MEASURE_SECONDS)


def size_of(folders: "list[str]", limit: int) -> int:
    """Bytes on the disk of everything below some folders; stops soon after `limit`.

    What is nested too deeply to be looked at counts as too large.
    """
    total = 0
    while folders and total <= limit:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return limit + 1
            continue
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            total += max(BLOCK, status.st_blocks * 512)
            if stat.S_ISDIR(status.st_mode):
                folders.append(entry.path)
    return total


OPERATIONS: "dict[str, Callable[[Request], None]]" = {
    "mount": mount, "list": listing, "fetch": fetch, "report": report, "relay": relay, "reach": reach,
    "resolver": resolver, "bound": bound, "environ": environ,
}  # fmt: skip


def connect(name: str) -> socket.socket:
    """The socket to process 1 of the work container, once that listens and says that it is ready."""
    until = time.monotonic() + CONNECT_SECONDS
    while True:
        control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            control.connect(f"\0{name}")
        except OSError:
            control.close()
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            if control.recv(1) != b"\0":
                raise OSError("process 1 of the work container ended")
            return control


def main() -> None:
    """Serve requests until the host goes."""
    control = connect(sys.argv[1]) if len(sys.argv) > 1 else None
    say(0, b"S", b"\0")
    requests: dict[int, Request] = {}
    while True:
        number, letter, length = FRAME.unpack(read_exactly(FRAME.size))
        body = read_exactly(length)
        if letter == b"R":
            requests[number] = Request(number, [os.fsdecode(field) for field in body.split(b"\0")])
        elif letter == b"C":
            unread.add(number)
        elif letter == b"I":
            view = memoryview(body)
            while view:
                view = view[requests[number].input.write(view) :]
        elif letter == b"E":
            request = requests.pop(number)
            if request.fields[0] == "sever" and control is not None:
                control.shutdown(socket.SHUT_RDWR)
                say(number, b"S", b"\0")
            elif request.fields[0] in PASSED_ON and control is not None:
                threading.Thread(target=request.pass_on, args=(control,), daemon=True).start()
            else:
                threading.Thread(target=request.answer, daemon=True).start()


if __name__ == "__main__":
    main()
