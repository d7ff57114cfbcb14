"""Processes of a pool that end with whoever started it."""

import os
import signal
import threading
import time

_LOOK_SECONDS = 0.5
"""Between two looks of a process for its parent."""


def begin_child(parent: int) -> None:
    """In each process of a pool: interrupts are the parent's, and where that is gone nobody asks for work any more.

    Args:
        parent: The process that started it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    # A pool's processes wait for more work for ever, whoever was to give it; a killed parent says nothing.
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)
