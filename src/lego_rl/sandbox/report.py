"""The file in which a test command says what passed.

Invariant: it is read on the host, after every process that could write it is dead, and as the bytes it holds: no link
is followed, no device opened, and nothing of an unbearable size is read.
"""

import os
import stat
from pathlib import Path

REPORT_FOLDER = "/run/report"
"""Inside."""
REPORT_NAME = "report"
REWARD_TEXT, REWARD_JSON = "reward.txt", "reward.json"
"""What the script of a Harbor task writes; the second one counts where there are both."""
MAX_REPORT_BYTES = 32 << 20


def read_report(path: Path) -> bytes:
    """The report, or nothing where there is none: only a regular file of a bearable size is one, a link is not."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_REPORT_BYTES:
            return b""
        with open(descriptor, "rb", closefd=False) as stream:  # only now: of a folder it would keep the descriptor
            return stream.read(MAX_REPORT_BYTES)
    finally:
        os.close(descriptor)
