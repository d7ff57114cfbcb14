"""Names of agent-loop workers: verl gives each a number and a random part, and its folder has the number."""

import re

_WORKER = re.compile(r"agent_loop_worker_(\d+)_")
LOCAL = "local"
"""Folder of a process that is no such worker."""


def is_worker(actor: str) -> bool:
    """Whether an actor's name is of an agent-loop worker."""
    return _WORKER.match(actor) is not None


def worker_of(actor: str) -> str:
    """The folder of the worker that an actor's name is of."""
    found = _WORKER.match(actor)
    return f"{int(found[1]):03d}" if found else LOCAL
