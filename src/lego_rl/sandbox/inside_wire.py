"""Stand-alone module of ``inside.py``: requests of the host and replies to it.

A request is a 4-byte length and that many bytes of NUL-separated strings, the operation first, with descriptors
attached (SCM_RIGHTS). The last descriptor is the reply socket of this request alone; before it come standard input,
output and error where a process is started, whose wait status, a signed 32-bit integer, is then the reply. The other
end is ``channel.py``.
"""

# contextlib, and what socket imports (enum, selectors), would be most of the start-up time.
# ruff: noqa: SIM105

import _socket
import os
import struct

MAX_DESCRIPTORS = 4


def connect(control: str) -> _socket.socket:
    """The socket to the host: an inherited descriptor, or the path of a socket on which the host listens."""
    if control.startswith("/"):
        server = _socket.socket(_socket.AF_UNIX)
        server.connect(control)
        return server
    os.set_inheritable(int(control), False)
    return _socket.socket(fileno=int(control))


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


def answer(reply: _socket.socket, message: bytes) -> None:
    """Send a reply, if anyone still waits for it."""
    try:
        reply.send(message)
    except OSError:
        pass
    reply.close()
