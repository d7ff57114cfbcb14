"""How this program was called: in a checkout it is on no search path, so advice that can be pasted names its file."""

import os
import sys
import time
from pathlib import Path

_NAME = "lego-rl"


def program() -> str:
    """The command as it was typed; its plain name where another program runs this one."""
    called = Path(sys.argv[0])
    return str(called) if called.name == _NAME else _NAME


def seconds_since_start() -> float:
    """How long this process has been there: from before its first import, which may take longer than what follows.

    Source: proc(5), field 22 of ``/proc/PID/stat``, in clock ticks since boot.
    """
    fields = Path("/proc/self/stat").read_text(errors="replace").rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def as_called(advice: str) -> str:
    """Advice that ends in a command of this program, with the command as it has to be typed here."""
    return advice.replace(f"run: {_NAME} ", f"run: {program()} ")
