"""Whether somebody outside killed a sandbox, by how its first process ended, and in bubblewrap that one's own parent.

Invariant: nothing inside can bring about what counts here. The first process cannot be signalled from inside: the
kernel keeps every signal that has no handler from the first process of a namespace. bubblewrap is outside the
sandbox's process namespace, so nothing in it can name bubblewrap; nor is any command in bubblewrap's process group,
for `inside.py` gives each a session of its own. What is left are the kernel's own kills. Where it killed any process
for memory since the sandbox was started, as a control group or else the whole machine counts it, an end is not told
apart from that and does not count; nor does one of the first process where processor time is limited, as it can
be from outside only: the seccomp filter keeps the limits of the first process from all others.

It cannot tell a kill by a program that guards the machine's memory (systemd-oomd, earlyoom) from any other.
"""

import resource
import signal
from pathlib import Path

from lego_rl.sandbox.loss import Loss, LossCause

_SENT = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT}
"""Signals that somebody sends; others are a process's own doing, such as one that reads where it must not."""

_VMSTAT = Path("/proc/vmstat")


def oom_kills() -> int | None:
    """Processes that the kernel killed for memory since the machine was started; ``None`` where it does not say."""
    try:
        lines = _VMSTAT.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def increase(before: int | None, after: int | None) -> int | None:
    """How much a count of the kernel's grew; ``None`` where it does not say."""
    return None if before is None or after is None else after - before


def outside_kill(status: int | None) -> Loss | None:
    """The evidence that a sandbox was killed from outside, if its end is any; why nothing inside brings it about is
    said above. Whoever asks has seen that the kernel killed nothing for memory meanwhile.

    Args:
        status: Exit status of the first process, 128 and the number of the signal that ended it; of bubblewrap, which
            passes that on, minus the number of the signal that ended it itself; ``None`` where nothing has ended.
    """
    if status is None:
        return None
    if status < 0 and -status in _SENT:
        return Loss(LossCause.KILLED, f"bubblewrap was ended by {signal.Signals(-status).name}")
    _, processor_seconds = resource.getrlimit(resource.RLIMIT_CPU)
    if status == 128 + signal.SIGKILL and processor_seconds == resource.RLIM_INFINITY:
        return Loss(LossCause.KILLED, "the first process of the sandbox was ended by SIGKILL")
    return None
