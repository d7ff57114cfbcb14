"""Control groups of one sandbox: version 2 or 1, below the owner's own group, wherever that is writable.

Invariant: a group is made complete (all its limits written) or not at all.

Source: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/{memory,pids}.rst.
"""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from lego_rl.sandbox.limits import LimitHits, LimitReport, Limits, Mechanism
from lego_rl.sandbox.mountinfo import Mounted, mounted

REMOVE_ATTEMPTS = 200
REMOVE_PAUSE = 0.005


@dataclass
class Cgroups:
    """The control groups of one sandbox; empty where none can be made.

    Attributes:
        groups: Controller → its group.
        version: Which interface the files of `groups` follow.
    """

    groups: dict[str, Path] = field(default_factory=dict)
    version: Mechanism = "rlimit"

    @classmethod
    def create(cls, name: str, limits: Limits, hierarchies: "Hierarchies | None" = None) -> "Cgroups":
        """Make the groups called `name`, in the newest interface that holds both controllers."""
        hierarchies = hierarchies or Hierarchies.of_this_process()
        for parent in hierarchies.unified():
            with suppress(OSError):
                return cls(dict.fromkeys(("memory", "pids"), _make_v2(parent / name, limits)), "cgroup-v2")
        parents = hierarchies.legacy
        if {"memory", "pids"} <= parents.keys():
            with suppress(OSError):
                return cls(_make_v1({key: parents[key] / name for key in ("memory", "pids")}, limits), "cgroup-v1")
        return cls()

    @classmethod
    def of(cls, pid: int) -> "Cgroups":
        """The groups that a process was put into by somebody else.

        Raises:
            OSError: It has ended, or no group holds its memory and its processes.
        """
        memberships = Path(f"/proc/{pid}/cgroup").read_text()
        found = Hierarchies.parse(memberships, mounted())
        if {"memory", "pids"} <= found.legacy.keys():
            return cls({key: found.legacy[key] for key in ("memory", "pids")}, "cgroup-v1")
        if found.own_unified is None:
            raise FileNotFoundError("nothing holds memory and processes here")
        return cls(dict.fromkeys(("memory", "pids"), found.own_unified), "cgroup-v2")

    def held(self) -> tuple[int, int]:
        """The limits in force: bytes of memory, and processes.

        Raises:
            OSError: They cannot be read, or one of them is none.
        """
        memory = "memory.max" if self.version == "cgroup-v2" else "memory.limit_in_bytes"
        limits = [
            (self.groups[key] / name).read_text().strip() for key, name in (("memory", memory), ("pids", "pids.max"))
        ]
        if not all(limit.isdecimal() for limit in limits):
            raise FileNotFoundError(f"a limit is {' or '.join(limits)}")
        return int(limits[0]), int(limits[1])

    def used(self) -> int:
        """Bytes of memory in use.

        Raises:
            OSError: It cannot be read.
        """
        name = "memory.current" if self.version == "cgroup-v2" else "memory.usage_in_bytes"
        return int((self.groups["memory"] / name).read_text())

    @property
    def paths(self) -> list[Path]:
        """Every group, once."""
        return list(dict.fromkeys(self.groups.values()))

    def report(self) -> LimitReport:
        """What is in force."""
        return LimitReport(memory=self.version, processes=self.version)

    def hits(self) -> LimitHits:
        """The kernel's own counters."""
        if not self.groups:
            return LimitHits()
        return LimitHits(
            memory=self.memory_kills() or 0, processes=_counter(self.groups["pids"] / "pids.events", "max") or 0
        )

    def memory_kills(self) -> int | None:
        """Processes that the kernel killed for memory; ``None`` where it does not say."""
        events = "memory.events" if self.version == "cgroup-v2" else "memory.oom_control"
        return _counter(self.groups["memory"] / events, "oom_kill")

    def is_empty(self) -> bool:
        """Whether no process is left in any group."""
        return not any((path / "cgroup.procs").read_text().split() for path in self.paths if path.exists())

    def remove(self) -> None:
        """Kill what is left and remove the groups."""
        for path in self.paths:
            remove_cgroup(path)


@dataclass(frozen=True)
class Hierarchies:
    """Where this process stands: its group in version 2, and per controller in version 1."""

    own_unified: Path | None
    legacy: dict[str, Path]

    @classmethod
    def of_this_process(cls) -> "Hierarchies":
        """Read ``/proc/self``."""
        return cls.parse(Path("/proc/self/cgroup").read_text(), mounted())

    @classmethod
    def parse(cls, memberships: str, mounts: Iterable[Mounted]) -> "Hierarchies":
        """Join the two tables of proc(5): the group in each hierarchy, and where each hierarchy is mounted."""
        own = {key: path for _, key, path in (line.split(":", 2) for line in memberships.splitlines())}
        unified: Path | None = None
        legacy: dict[str, Path] = {}
        for mount in mounts:
            if mount.kind == "cgroup2" and "" in own:
                unified = _below(mount, own[""])
            elif mount.kind == "cgroup":
                for key, path in own.items():
                    if key and set(key.split(",")) <= set(mount.options):
                        legacy.update(dict.fromkeys(key.split(","), _below(mount, path)))
        return cls(unified, legacy)

    def candidates(self, name: str) -> list[Path]:
        """Every group that `Cgroups.create` may make under this name."""
        parents = [*self.unified(), *(self.legacy[key] for key in ("memory", "pids") if key in self.legacy)]
        return [parent / name for parent in dict.fromkeys(parents)]

    def unified(self) -> Iterator[Path]:
        """Groups of version 2 that may hold a new one: the owner's own, or the next one up; see `_make_v2`."""
        if self.own_unified is not None:
            yield self.own_unified
            yield self.own_unified.parent


def _below(mount: Mounted, path: str) -> Path:
    inner = path.removeprefix(mount.root) if mount.root != "/" else path
    return Path(mount.point) / inner.lstrip("/")


def _make_v2(group: Path, limits: Limits) -> Path:
    offered = (group.parent / "cgroup.subtree_control").read_text().split()
    if not {"memory", "pids"} <= set(offered):
        raise FileNotFoundError(f"{group.parent} does not hand on its controllers")
    group.mkdir()
    try:
        (group / "memory.max").write_text(str(limits.memory_mb << 20))
        (group / "pids.max").write_text(str(limits.processes))
        if (swap := group / "memory.swap.max").exists():
            swap.write_text("0")
    except OSError:
        group.rmdir()
        raise
    return group


def _make_v1(groups: dict[str, Path], limits: Limits) -> dict[str, Path]:
    made: list[Path] = []
    try:
        for group in groups.values():
            group.mkdir()
            made.append(group)
        (groups["memory"] / "memory.limit_in_bytes").write_text(str(limits.memory_mb << 20))
        if (swap := groups["memory"] / "memory.memsw.limit_in_bytes").exists():
            swap.write_text(str(limits.memory_mb << 20))
        (groups["pids"] / "pids.max").write_text(str(limits.processes))
    except OSError:
        for group in made:
            group.rmdir()
        raise
    return groups


def _counter(path: Path, key: str) -> int | None:
    """A count of the kernel's; ``None`` where it does not say, such as of a group that is gone."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return None
    return next((int(value) for name, value in lines if name == key), None)


def remove_cgroup(path: Path) -> None:
    """Kill every process in a control group and remove it; a group that is gone already is fine.

    Raises:
        OSError: The kernel still holds it after about a second; it needs a moment after the last process has gone.
    """
    with suppress(FileNotFoundError):
        for attempt in range(REMOVE_ATTEMPTS):
            if (at_once := path / "cgroup.kill").exists():  # version 2, since Linux 5.14: nothing forks past it
                at_once.write_text("1")
            for pid in (path / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            try:
                path.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                if attempt == REMOVE_ATTEMPTS - 1:
                    raise
                time.sleep(REMOVE_PAUSE)
            else:
                return
