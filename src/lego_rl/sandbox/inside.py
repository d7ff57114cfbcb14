"""Stand-alone program: the first process of a sandbox (pid 1 of its pid namespace).

Invariant: it does what the host asks over one socket and nothing else; when that socket closes, because the host closed
it or died, it exits, and the kernel kills everything in the sandbox with it. It never tells the host anything but
exit statuses, a socket and counted bytes, all of which the host treats as untrusted. No other process of the sandbox
can stop it, read or write its memory, or take its descriptors.

Run as ``python -I -S inside.py CONTROL PROCESSES DATA_BYTES FILE_BYTES [FILTER]``: a connected socket's descriptor, or
the path of one to connect to; resource limits, 0 for none; a file with a seccomp filter to put itself and all others
under, where whoever built the sandbox did not. ``inside_files.py``, ``inside_guard.py`` and ``inside_wire.py``, which
says what a request is, lie beside it or are part of its byte code (`programs.compiled`). It imports as little as
possible beside them: every trial pays for it.
"""

# pathlib, contextlib and what socket and signal import (enum, selectors) would be most of the start-up time.
# ruff: noqa: SIM105

import _socket
import os
import select
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from lego_rl.sandbox import inside_files, inside_guard, inside_wire
else:
    import _signal as signal

    sys.path.insert(0, __file__.rpartition("/")[0])
    import inside_files
    import inside_guard
    import inside_wire

    del sys.path[0]

CANNOT_START, NOT_FOUND = 126, 127
"""The exit statuses that shells have for a program that cannot be run, or is not there."""

running: "dict[int, _socket.socket]" = {}
last: "set[int]" = set()
"""Those of `running` with whose end everything else ends."""


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
        inside_wire.answer(reply, struct.pack("!i", CANNOT_START << 8))
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
    inside_guard.leave_half_of_the_files()
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
        inside_wire.answer(reply, os.fsencode(f"{error.strerror}"))


def put(fields: "list[str]", descriptors: "list[int]") -> None:
    """``put``: a folder; records on standard input. Creates, replaces and deletes paths below the folder.

    No symbolic link below the folder is followed: a parent that is not a real directory is replaced by one.
    """

    def work() -> None:
        with os.fdopen(0, "rb") as stream:
            inside_files.write_folder(fields[0], stream)

    fork(work, descriptors)


def get(fields: "list[str]", descriptors: "list[int]") -> None:
    """``get``: a path, and how many bytes of the end of each file, all of it without that; records on standard output.

    A file is one record with an empty path. Links are sent as links, sockets, devices and pipes not at all.
    """

    def work() -> None:
        most = int(fields[1]) if len(fields) > 1 else None
        with os.fdopen(1, "wb") as stream:
            inside_files.send_path(fields[0], stream, most)

    fork(work, descriptors)


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
    inside_wire.answer(_socket.socket(fileno=descriptors[0]), b"\0")


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
    inside_wire.answer(_socket.socket(fileno=descriptors[0]), b"\0")


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
            inside_wire.answer(reply, struct.pack("!i", status))


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


def main() -> None:
    """Serve requests until the host goes."""
    inside_guard.close_to_tracers()
    control = inside_wire.connect(sys.argv[1])
    wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    inside_guard.limit(*(int(text) for text in sys.argv[2:5]))
    os.umask(0o022)
    for path in sys.argv[5:]:
        inside_guard.refuse_calls(path)
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
            request = inside_wire.receive(control)
            if request is None:
                return
            (operation, *fields), descriptors = request
            REQUESTS[operation](fields, descriptors)


if __name__ == "__main__":
    main()
