"""Stand-alone module of ``bridge.py``: what it and the host say to each other.

Frames on standard input and output are a 4-byte request number, one letter, a 4-byte length and that many bytes. From
the host: ``R`` NUL-separated strings, the operation first; ``I`` a piece of its standard input; ``E`` its standard
input is whole: go; ``C`` nobody reads its output any more. To the host: ``O`` and ``e`` pieces of output and error
output, empty at their end; ``S`` the reply (a wait status, or one byte); ``X`` process 1 is gone. A frame whose number
is no request's is passed over: the host sends some so that nobody in between takes the stream for an idle one.
"""

# ruff: noqa: SIM115, RUF100

import os
import struct
import tempfile

FRAME = struct.Struct("!IcI")
SPOOL = "/run/lego/spool"


def say(number: int, letter: bytes, body: "bytes | memoryview" = b"") -> None:
    """Send a frame to the host."""
    data = memoryview(FRAME.pack(number, letter, len(body)) + body)
    while data:
        data = data[os.write(1, data) :]


class Request:
    """One request of the host's; `keeper` writes its output."""

    def __init__(self, number: int, fields: "list[str]") -> None:
        self.number = number
        self.fields = fields
        self.input = tempfile.TemporaryFile(dir=SPOOL, buffering=0)
        self.unread = False
        self.failure = ""

    def write(self, data: "bytes | memoryview") -> None:
        """Send output."""
        view = memoryview(data)
        for start in range(0, len(view), 1 << 20):
            self.say(b"O", view[start : start + (1 << 20)])

    def say(self, letter: bytes, body: "bytes | memoryview" = b"") -> None:
        """Send a frame to the host."""
        say(self.number, letter, body)

    def end(self, status: int) -> None:
        """Say that all is said."""
        self.say(b"O")
        self.say(b"e")
        self.say(b"S", struct.pack("!i", status << 8))
        self.input.close()
