"""How much of the machine one sandbox may use, by which means that is enforced, and which limit it ran into.

Invariant: a limit is never silently absent; `LimitReport` says what holds it.
"""

from dataclasses import dataclass
from typing import Literal

type Mechanism = Literal["cgroup-v2", "cgroup-v1", "rlimit", "pod"]
"""What enforces a limit. ``rlimit``: memory per process, processes per sandbox (per user namespace, Linux 5.14).
``pod``: the node's control groups, as the pod's resources and the kubelet's ``podPidsLimit`` say."""


@dataclass(frozen=True)
class Limits:
    """Limits of one sandbox.

    Attributes:
        memory_mb: Memory of all processes and of temporary files, in MiB.
        processes: Processes and threads at one time.
        disk_mb: Size of the changes to the work tree and to a folder root and of the report, all together, in MiB.
            No file may be larger, wherever it is.
        scratch_mb: Size of each of ``/tmp``, ``/var/tmp``, ``/dev/shm``, the home directory and ``/logs``, in MiB.
        output_bytes: Kept of each output stream of a command; the middle of longer output is left out.
    """

    memory_mb: int = 2048
    processes: int = 512
    disk_mb: int = 1024
    scratch_mb: int = 256
    output_bytes: int = 1 << 20


DEFAULT_LIMITS = Limits()
"""Where neither a task nor a recipe says anything."""


@dataclass(frozen=True)
class LimitReport:
    """Which mechanism is in force for which limit."""

    memory: Mechanism
    processes: Mechanism


@dataclass(frozen=True)
class LimitHits:
    """Evidence from the host that a sandbox ran into its own limits.

    Attributes:
        memory: Processes that the kernel killed for memory; where ``rlimit`` is in force, 1 if the whole sandbox was
            killed for the sum of its processes (one process alone sees its allocation fail instead).
        processes: Forks that the kernel refused (0 where ``rlimit`` is in force); 1 of a pod that was evicted for them.
        disk: Whether the sandbox was killed for the size of its changes.
        unmeasured: Whether the sandbox was killed because its limits could not be measured. What is measured is the
            agent's own files and processes, so alone this is no evidence of a fault of the host.
    """

    memory: int = 0
    processes: int = 0
    disk: bool = False
    unmeasured: bool = False
