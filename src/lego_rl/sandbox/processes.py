"""The processes of a sandbox, as the host sees them: which there are, and the memory that they use.

Invariant: a process that ends meanwhile is left out, whatever it is called and however deep the tree is.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from lego_rl.sandbox.mountinfo import mounted
from lego_rl.sandbox.pace import Pace


def descendants(first: int) -> list[int]:
    """A process and everything below it."""
    family = [first]
    for pid in family:  # It grows while it is walked: the depth of the tree is the sandbox's to choose.
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                family += [int(child) for child in children.read_text().split()]
    return family


def users_of(folders: Iterable[str]) -> dict[str, list[int]]:
    """Folder → the processes in whose sandbox it is: it itself is bound somewhere in their mount namespace.

    The overlay of a container's work tree proves nothing. A daemon mounts it where everybody on the machine sees it,
    and leaves it there if it dies. And whatever is mounted, what shares the mounts of this process or of the machine's
    first one is in no sandbox.

    Args:
        folders: Names that no other folder has.
    """
    names = frozenset(folders)
    shared = {_mounts_of("self"), _mounts_of("1")}
    found: dict[str, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/mountinfo"):
        with suppress(OSError):  # it ends meanwhile, or is another user's
            if (path.parent / "ns" / "mnt").stat().st_ino in shared:
                continue
            bound = {part for mount in mounted(path) for part in mount.root.split("/")}
            for name in names & bound:
                found.setdefault(name, []).append(int(path.parent.name))
    return found


def _mounts_of(process: str) -> int | None:
    """Which mount namespace a process is in; ``None`` for one of another user."""
    with suppress(PermissionError):
        return Path("/proc", process, "ns", "mnt").stat().st_ino
    return None


def hides(family: Iterable[int]) -> bool:
    """Whether one of some processes of sandboxes keeps an ordinary user from seeing what it holds; root sees all.

    The first processes do, so that nothing inside can trace them, and what they are about to start: they are of a
    session that no other process can enter.
    """
    closed = [pid for pid in family if _is_closed(pid)]
    own = {_session(pid) for pid in closed if _inner_ids(pid)[-1:] == [1]}
    return any(_session(pid) not in own for pid in closed)


def in_namespaces() -> list[int]:
    """All processes of this user in process namespaces below this one."""
    user = os.geteuid()
    return [pid for pid in _every() if len(_inner_ids(pid)) > 1 and _owner(pid) == user]


def _every() -> Iterator[int]:
    yield from (int(path.name) for path in Path("/proc").glob("[0-9]*"))


def _is_closed(pid: int) -> bool:
    try:
        os.scandir(f"/proc/{pid}/fd").close()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _inner_ids(pid: int) -> list[int]:
    """Its ids in every namespace that it is in, the innermost last; none for one that has ended."""
    return [int(word) for word in _status(pid, b"NSpid:")]


def _owner(pid: int) -> int:
    return int(next(iter(_status(pid, b"Uid:")), b"-1"))


def _status(pid: int, key: bytes) -> list[bytes]:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
            if line.startswith(key):
                return line.split()[1:]
    return []


def _session(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[3]
    return b""


def exceeds(first: int, limit_kib: int, pace: Pace) -> bool:
    """Whether a process and its descendants use more than the limit; shared pages are divided among their users.

    The proportional size costs a walk of the page tables, so it is read only where the resident sizes alone exceed.

    Raises:
        TooMuchError: There is more to read than a look may take.
    """
    family = descendants(first)
    return resident_kib(family, pace) > limit_kib and proportional_kib(family, pace) > limit_kib


def resident_kib(family: list[int], pace: Pace) -> int:
    """Sizes of processes in KiB, what they share counted for each; see `exceeds`."""
    return sum(_kib(pid, "status", b"VmRSS:", pace) or 0 for pid in family)


def proportional_kib(family: list[int], pace: Pace) -> int:
    """Sizes of processes in KiB, what they share divided among them; see `exceeds`.

    One that does not show it to this user counts as if it shared nothing.
    """
    total = 0
    for pid in family:
        size = _kib(pid, "smaps_rollup", b"Pss:", pace)
        total += (_kib(pid, "status", b"VmRSS:", pace) or 0) if size is None else size
    return total


def _kib(pid: int, table: str, key: bytes, pace: Pace) -> int | None:
    """A size from a table of a process; 0 for one that has ended, ``None`` where it is not shown."""
    pace.step()
    try:
        lines = Path(f"/proc/{pid}/{table}").read_bytes().splitlines()  # A process may name itself in any bytes.
    except PermissionError:
        return None
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(key)), 0)
