"""Whether this machine has what trials that run at the same time may use together, before any of them begins.

Invariant: trials that keep to their limits cannot fill the disk of a run that began. Otherwise one of them could take
from the others what they were promised, and no row of the fault table would give it back to them: what the run's own
sandboxes hold is no shortage of the host's (`rollout.shortage`).
"""

import os
import resource
from collections.abc import Sequence

from lego_rl.errors import SandboxError
from lego_rl.sandbox.disk import existing, free_bytes
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.open_files import allow_enough
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import State

_MIB = 1 << 20
SANDBOXES_EACH = 2
"""That a trial has on the disk at one time: while a change is graded, what the agent wrote is still there."""
HANDLES, HANDLES_EACH = 64, 32
"""Files that a run has open, and each trial: its sandbox, its pipes, its connections to the gateway."""


def check_room(settings: SandboxSettings, state: State, allowed: Sequence[Limits], concurrency: int) -> str | None:
    """Compare what trials may use with what there is.

    Args:
        settings: How they are isolated; pods are on machines of their own.
        state: Where sandboxes keep their files.
        allowed: The limits of every task.
        concurrency: Trials at the same time; the key of that name in a recipe, whichever part of it holds it.

    Returns:
        What to be told of: they may use more memory than the machine has. Few ever do at the same time.

    Raises:
        SandboxError: They may write more than the disk has room for, or need more open files than a process may have.
    """
    allow_enough()
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    handles = HANDLES + concurrency * HANDLES_EACH
    if limit != resource.RLIM_INFINITY and limit < handles:
        raise SandboxError(
            f"{concurrency} trials at once need {handles} open files, and this process may have {limit}",
            f"raise it (ulimit -n {handles}) or lower the concurrency",
        )
    if settings.environment == "kubernetes":
        return None
    _check_disk(state, SANDBOXES_EACH * max(each.disk_mb for each in allowed), concurrency)
    memory, installed = concurrency * max(each.memory_mb for each in allowed), _installed_mb()
    if memory <= installed:
        return None
    return (
        f"{concurrency} trials at once may use {memory} MiB of memory and this machine has {installed}: "
        "if some are killed for it, lower the concurrency or memory_mb of the tasks"
    )


def _check_disk(state: State, each_mb: int, concurrency: int) -> None:
    free = free_bytes(existing(state.root)) // _MIB
    if free < concurrency * each_mb:
        fits = f"lower the concurrency to {free // each_mb}, " if free >= each_mb else ""
        raise SandboxError(
            f"{concurrency} trials at once may write {concurrency * each_mb} MiB, and {state.root} has room for {free}",
            f"{fits}lower sandbox.disk_mb (storage_mb of the tasks), or set sandbox.state to a folder on a larger disk",
        )


def _installed_mb() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MIB
