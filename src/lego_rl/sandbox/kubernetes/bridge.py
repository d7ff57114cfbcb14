"""Stand-alone program: runs in the keeper of a pod and joins the host's stream to the work container beside it.

Invariant: it lives in another process namespace than the agent, which can neither stop, trace nor reach it; it starts
nothing that the agent wrote and follows no link of the agent's. To kill, it needs no new process or thread, which an
agent could leave no room for. When the host's stream ends, it hangs up, and the work container ends with that.

Run as ``python -I -S bridge.py [SOCKET]`` beside ``frames.py``, ``keeper.py`` and ``inside.py``, with the standard
library only. SOCKET is the path on which process 1 of the work container listens.
"""

# ruff: noqa: PTH100, PTH120

import os
import resource
import selectors
import socket
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lego_rl.sandbox.kubernetes import frames, keeper
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import frames
    import keeper

PIECE = 1 << 16
CONNECT_SECONDS = 30.0
MEASURE_SECONDS = 1.0
UNMEASURED = 1
PASSED_ON = ("exec", "last", "put", "get", "seal", "end", "kill")
"""What process 1 of the work container does."""
WITHOUT_OUTPUT = ("end", "kill")
OWN = ("sever", "bound")
"""What the bridge does itself; all else is `keeper`'s."""


class Bridge:
    """Everything between one stream and one work container."""

    def __init__(self, control: "socket.socket | None") -> None:
        self.control = control
        self.selector = selectors.DefaultSelector()
        self.buffer = bytearray()
        self.requests: dict[int, frames.Request] = {}
        self.bounds: list[tuple[frames.Request, int]] = []
        self.measured = 0.0
        os.set_blocking(0, False)
        self.selector.register(0, selectors.EVENT_READ, self.receive)

    def run(self) -> None:
        """Serve requests until the host goes."""
        while True:
            for key, _ in self.selector.select(MEASURE_SECONDS if self.bounds else None):
                handle: Callable[[], None] = key.data
                handle()
            if self.bounds and time.monotonic() - self.measured >= MEASURE_SECONDS:
                self.measure()

    def receive(self) -> None:
        """Take frames of the host's."""
        try:
            piece = os.read(0, 1 << 20)
        except BlockingIOError:
            return
        if not piece:
            os._exit(0)
        self.buffer += piece
        position = 0
        while len(self.buffer) - position >= frames.FRAME.size:
            number, letter, length = frames.FRAME.unpack_from(self.buffer, position)
            start = position + frames.FRAME.size
            if len(self.buffer) - start < length:
                break
            position = start + length
            self.frame(number, letter, bytes(self.buffer[start:position]))
        del self.buffer[:position]

    def frame(self, number: int, letter: bytes, body: bytes) -> None:
        """Do what a frame says."""
        if letter == b"R":
            try:
                self.requests[number] = frames.Request(number, [os.fsdecode(field) for field in body.split(b"\0")])
            except OSError as error:  # The node's disk may be full.
                self.refuse(number, error)
            return
        request = self.requests.get(number)
        if request is None:
            return
        if letter == b"I" and not request.failure:
            try:
                view = memoryview(body)
                while view:
                    view = view[request.input.write(view) :]
            except OSError as error:  # The node's disk may be full.
                request.failure = str(error)
        elif letter == b"C":
            request.unread = True
        elif letter == b"E":
            request.input.seek(0)
            self.start(request)

    def refuse(self, number: int, error: OSError) -> None:
        """Say that a request cannot be taken."""
        frames.say(number, b"e", os.fsencode(f"{error}\n"))
        frames.say(number, b"O")
        frames.say(number, b"e")
        frames.say(number, b"S", struct.pack("!i", 1 << 8))

    def start(self, request: frames.Request) -> None:
        """Begin a request whose input is whole."""
        operation = request.fields[0]
        if request.failure:
            request.say(b"e", os.fsencode(request.failure))
            request.end(1)
        elif operation in PASSED_ON and self.control is not None:
            self.pass_on(request, self.control)
        elif operation == "sever" and self.control is not None:
            self.control.shutdown(socket.SHUT_RDWR)
            request.say(b"S", b"\0")
        elif operation == "bound":
            self.bounds.append((request, int(request.fields[1])))
        else:
            status = 1
            try:
                keeper.OPERATIONS[operation](request)
                status = 0
            except (OSError, ValueError, KeyError, RuntimeError) as error:
                request.say(b"e", os.fsencode(f"{error}\n"))
            request.end(status)

    def pass_on(self, request: frames.Request, control: socket.socket) -> None:
        """Have process 1 of the work container do it, with pipes for its output."""
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        handed = [theirs.fileno()]
        if request.fields[0] not in WITHOUT_OUTPUT:
            (output, output_end), (errors, errors_end) = os.pipe(), os.pipe()
            handed = [request.input.fileno(), output_end, errors_end, *handed]
            self.watch(output, lambda: self.pump(request, output, b"O"))
            self.watch(errors, lambda: self.pump(request, errors, b"e"))
        body = b"\0".join(os.fsencode(field) for field in request.fields)
        try:
            socket.send_fds(control, [struct.pack("!I", len(body))], handed)
            control.sendall(body)
        except OSError:
            pass  # The reply's socket ends, which says so.
        for descriptor in handed[1:-1]:
            os.close(descriptor)
        theirs.close()
        request.input.close()
        self.watch(mine.fileno(), lambda: self.reply(request, mine))

    def watch(self, descriptor: int, handle: "Callable[[], None]") -> None:
        """Call `handle` when there is something to read."""
        self.selector.register(descriptor, selectors.EVENT_READ, handle)

    def pump(self, request: frames.Request, descriptor: int, letter: bytes) -> None:
        """Send what came out of a pipe to the host, as long as that reads it."""
        piece = os.read(descriptor, PIECE)
        if piece and request.unread:
            return
        request.say(letter, piece)
        if not piece:
            self.selector.unregister(descriptor)
            os.close(descriptor)

    def reply(self, request: frames.Request, mine: socket.socket) -> None:
        """Send the reply to the host, or that there will be none."""
        self.selector.unregister(mine.fileno())
        with mine:
            try:
                message = mine.recv(64)
            except OSError:
                message = b""
        request.say(b"S" if message else b"X", message)

    def measure(self) -> None:
        """Answer the requests whose bound is crossed, or cannot be measured."""
        for request, limit in list(self.bounds):
            try:
                status = 0 if keeper.size_of([keeper.TREE, keeper.REPORTS], limit) > limit else None
            except OSError:
                status = UNMEASURED
            if status is not None:
                self.bounds.remove((request, limit))
                request.end(status)
        self.measured = time.monotonic()


def connect(path: str) -> socket.socket:
    """The socket to process 1 of the work container, once that listens and says that it is ready."""
    until = time.monotonic() + CONNECT_SECONDS
    while True:
        control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            control.connect(path)
        except OSError:
            control.close()
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            if control.recv(1) != b"\0":
                raise OSError("process 1 of the work container ended")
            return control


def allow_enough_descriptors() -> None:
    """Have more descriptors on their way through sockets than whatever runs in any pod of the node can.

    They are counted per user, and pods without user namespaces are one user: one more is refused where there are as
    many as its sender may open. Process 1 of each pod leaves an agent a quarter of what containers may open at most.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    """Serve one stream."""
    allow_enough_descriptors()
    control = connect(sys.argv[1]) if len(sys.argv) > 1 else None
    bridge = Bridge(control)
    frames.say(0, b"S", b"\0")
    bridge.run()


if __name__ == "__main__":
    main()
