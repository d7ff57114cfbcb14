"""Stand-alone program: the first process of a sandbox (pid 1 of its pid namespace).

Invariant: it does what the host asks over one socket and nothing else; when that socket closes, because the host closed
it or died, it exits, and the kernel kills everything in the sandbox with it. It never tells the host anything but
exit statuses, a socket and counted bytes, all of which the host treats as untrusted. No other process of the sandbox
can stop it, read or write its memory, or take its descriptors.

Run as ``python -I -S inside.py CONTROL PROCESSES DATA_BYTES FILE_BYTES [FILTER]``: a connected socket's descriptor, or
the path of one to connect to; resource limits, 0 for none; a file with a seccomp filter to put itself and all others
under, where whoever built the sandbox did not. With the standard library only, and as little of it as possible: every
trial pays for its imports. A request is a 4-byte length
and that many bytes of NUL-separated strings, the operation first, with descriptors attached (SCM_RIGHTS). The last
descriptor is the reply socket of this request alone; before it come standard input, output and error where a process
is started, whose wait status, a signed 32-bit integer, is then the reply.
"""

# pathlib, contextlib and what socket and signal import (enum, selectors) would be most of the start-up time.
# ruff: noqa: PTH103, PTH112, PTH115, PTH123, PTH208, SIM105

import _socket
import ctypes
import os
import resource
import select
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import IO
else:
    import _signal as signal

MAX_DESCRIPTORS = 4
RECORD = struct.Struct("!cHQI")
"""Head of a record: kind, permission bits, size of the content, length of the path; path and content follow."""
FILE, SYMLINK, DIRECTORY, DELETED = b"f", b"l", b"d", b"x"
CANNOT_START, NOT_FOUND = 126, 127
"""The exit statuses that shells have for a program that cannot be run, or is not there."""
PR_SET_DUMPABLE, PR_SET_SECCOMP = 4, 22
SECCOMP_MODE_FILTER = 2
FILTER_INSTRUCTION = 8
"""Bytes of a ``struct sock_filter``."""
OPEN_FILES = 4096
"""Most file descriptors of one process: what honest builds and servers have, and few enough for the host to look at
those of all processes, for what was unlinked and is still held takes up disk."""

running: "dict[int, _socket.socket]" = {}
last: "set[int]" = set()
"""Those of `running` with whose end everything else ends."""


def receive(control: _socket.socket) -> "tuple[list[str], list[int]] | None":
    """The next request's strings and descriptors, or ``None`` when the host has gone."""
    head, ancillary, _, _ = control.recvmsg(4, _socket.CMSG_SPACE(MAX_DESCRIPTORS * 4), _socket.MSG_CMSG_CLOEXEC)
    descriptors: list[int] = []
    for level, kind, data in ancillary:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            descriptors.extend(struct.unpack(f"{len(data) // 4}i", data[: len(data) // 4 * 4]))
    if len(head) < 4:
        return None
    (length,) = struct.unpack("!I", head)
    body = bytearray()
    while len(body) < length:
        piece = control.recv(min(1 << 16, length - len(body)))
        if not piece:
            return None
        body += piece
    return [os.fsdecode(field) for field in bytes(body).split(b"\0")], descriptors


def start(fields: "list[str]", descriptors: "list[int]") -> None:
    """``exec``: working directory, number of arguments, arguments, then ``KEY=value``."""
    cwd, count = fields[0], int(fields[1])
    argv, environment = fields[2 : 2 + count], dict(pair.split("=", 1) for pair in fields[2 + count :])
    fork(lambda: run(cwd, argv, environment), descriptors)


def start_last(fields: "list[str]", descriptors: "list[int]") -> None:
    """``last``: as ``exec``; when the program ends, every other process is killed before the reply."""
    before = set(running)
    start(fields, descriptors)
    last.update(set(running) - before)


def fork(work: "Callable[[], None]", descriptors: "list[int]") -> None:
    """Have a child process do `work` with the first three descriptors as its standard streams; reply when it ends.

    Where no process can be made (the agent's own are too many) the reply is the status that shells have for that.
    """
    reply = _socket.socket(fileno=descriptors[3])
    try:
        child = os.fork()
    except OSError:
        answer(reply, struct.pack("!i", CANNOT_START << 8))
    else:
        if child == 0:
            as_child(work, descriptors[:3])
        running[child] = reply
    for descriptor in descriptors[:3]:
        os.close(descriptor)


def as_child(work: "Callable[[], None]", streams: "list[int]") -> None:
    """Never returns."""
    status = 1
    try:
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        work()
        status = 0
    except Exception as error:  # noqa: BLE001  # whatever it is, the host is told and the child ends
        os.write(2, os.fsencode(f"{error}\n"))
    finally:
        os._exit(status)


def run(cwd: str, argv: "list[str]", environment: "dict[str, str]") -> None:
    """In a child: become the program."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files // 2, files // 2))
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(cwd)
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        os.write(2, os.fsencode(f"{error.filename or argv[0]}: {error.strerror}\n"))
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_START)


def listen(fields: "list[str]", descriptors: "list[int]") -> None:
    """``listen``: a port and an address of the loopback. The reply is one byte and, attached, the listening socket.

    Both sockets here are closed by their deletion.
    """
    reply = _socket.socket(fileno=descriptors[0])
    try:
        server = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        server.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        server.bind((fields[1], int(fields[0])))
        server.listen(128)
        reply.sendmsg([b"\0"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", server.fileno()))])
    except OSError as error:
        answer(reply, os.fsencode(f"{error.strerror}"))


def put(fields: "list[str]", descriptors: "list[int]") -> None:
    """``put``: a folder; records on standard input. Creates, replaces and deletes paths below the folder.

    No symbolic link below the folder is followed: a parent that is not a real directory is replaced by one.
    """

    def work() -> None:
        os.makedirs(fields[0], exist_ok=True)
        root = os.open(fields[0], os.O_DIRECTORY | os.O_RDONLY)
        with os.fdopen(0, "rb") as stream:
            while head := stream.read(RECORD.size):
                kind, mode, size, length = RECORD.unpack(head)
                write_record(root, kind, mode, os.fsdecode(stream.read(length)), stream.read(size))

    fork(work, descriptors)


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


def get(fields: "list[str]", descriptors: "list[int]") -> None:
    """``get``: a path, and how many bytes of the end of each file, all of it without that; records on standard output.

    A file is one record with an empty path. Links are sent as links, sockets, devices and pipes not at all.
    """

    def work() -> None:
        most = int(fields[1]) if len(fields) > 1 else None
        with os.fdopen(1, "wb") as stream:
            if os.path.isdir(fields[0]):
                send_folder(fields[0], "", stream, most)
            else:
                send_file(fields[0], "", stream, most)

    fork(work, descriptors)


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


def seal(fields: "list[str]", descriptors: "list[int]") -> None:
    """``seal``: what the host expects; on standard input programs that look for holes, with a NUL byte between them.

    One line for each hole, its kind first, goes to standard output. A program that fails is a request that failed,
    never a seal.
    """

    def work() -> None:
        with os.fdopen(0) as stream:
            programs = stream.read().split("\0")
        found: list[tuple[str, str]] = []
        for program in programs:
            names: dict[str, Callable[[list[str]], list[tuple[str, str]]]] = {}
            exec(program, names)
            found += names["holes"](fields)
        os.write(1, os.fsencode("\n".join(f"{kind} {' '.join(said.splitlines())}" for kind, said in found)))

    fork(work, descriptors)


def kill(fields: "list[str]", descriptors: "list[int]") -> None:
    """``kill``: end every process of the sandbox but this one. The reply, one byte, comes when all are gone.

    A killed process still exists for a moment. Whoever loses its parent becomes a child of this first process, and
    nothing but this process could start another: no child left means nothing left.
    """
    kill_all()
    answer(_socket.socket(fileno=descriptors[0]), b"\0")


def kill_all() -> None:
    """Kill every other process and wait until all are gone."""
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        pass
    reap(0)


def end(fields: "list[str]", descriptors: "list[int]") -> None:
    """``end``: ask every process of the sandbox but this one to end. The reply, one byte, does not wait for them."""
    try:
        os.kill(-1, signal.SIGTERM)
    except ProcessLookupError:
        pass
    answer(_socket.socket(fileno=descriptors[0]), b"\0")


def reap(options: int) -> None:
    """Collect ended processes and reply for those that the host started.

    With ``os.WNOHANG`` those that have ended already, with 0 all, however long they take.
    """
    while True:
        try:
            child, status = os.waitpid(-1, options)
        except ChildProcessError:
            return
        if child == 0:
            return
        reply = running.pop(child, None)
        if child in last:
            last.discard(child)
            kill_all()
        if reply is not None:
            answer(reply, struct.pack("!i", status))


def answer(reply: _socket.socket, message: bytes) -> None:
    """Send a reply, if anyone still waits for it."""
    try:
        reply.send(message)
    except OSError:
        pass
    reply.close()


REQUESTS = {
    "exec": start,
    "last": start_last,
    "listen": listen,
    "put": put,
    "get": get,
    "seal": seal,
    "end": end,
    "kill": kill,
}


def limit(processes: int, data: int, file: int) -> None:
    """Set the limits of everything that will run here; processes are counted per user namespace since Linux 5.14.

    Of open files `run` leaves half. Descriptors on their way through sockets are counted per user, and one more is
    refused where there are as many as its sender may open: this process, which sends one, must be able to have more of
    them than whatever runs in any sandbox, and the host's process, which sends many, more than this one.
    """
    _, host = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 2 * OPEN_FILES if host == resource.RLIM_INFINITY else min(2 * OPEN_FILES, host // 2)
    wanted = (
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_DATA, data),
        (resource.RLIMIT_FSIZE, file),
        (resource.RLIMIT_NOFILE, files),
    )
    for name, value in wanted:
        if value:
            resource.setrlimit(name, (value, value))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def close_to_tracers() -> None:
    """Take from every other process of the same user what ptrace(2) calls access to this one.

    A first process that another one had stopped would never answer the host again. What it executes is open as ever.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the first process cannot be closed to tracers")


class FilterProgram(ctypes.Structure):
    """``struct sock_fprog`` of linux/filter.h."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def refuse_calls(path: str) -> None:
    """Put this process, and so all that it will ever start, under the seccomp filter in a file."""
    with open(path, "rb") as stream:
        instructions = stream.read()
    program = FilterProgram(len(instructions) // FILTER_INSTRUCTION, instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the seccomp filter cannot be set")


def connect(control: str) -> _socket.socket:
    """The socket to the host: an inherited descriptor, or the path of a socket on which the host listens."""
    if control.startswith("/"):
        server = _socket.socket(_socket.AF_UNIX)
        server.connect(control)
        return server
    os.set_inheritable(int(control), False)
    return _socket.socket(fileno=int(control))


def main() -> None:
    """Serve requests until the host goes."""
    close_to_tracers()
    control = connect(sys.argv[1])
    wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit(*(int(text) for text in sys.argv[2:5]))
    os.umask(0o022)
    for path in sys.argv[5:]:
        refuse_calls(path)
    control.sendall(b"\0")
    silence = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(silence, number)
    events = select.poll()
    events.register(control, select.POLLIN)
    events.register(wake, select.POLLIN)
    while True:
        for descriptor, _ in events.poll():
            if descriptor == wake:
                os.read(wake, 512)
                reap(os.WNOHANG)
                continue
            request = receive(control)
            if request is None:
                return
            (operation, *fields), descriptors = request
            REQUESTS[operation](fields, descriptors)


if __name__ == "__main__":
    main()
