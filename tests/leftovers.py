"""What a killed process can leave behind on a machine, and foreign things that look like it.

Source: proc(5), cgroups(7).
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lego_rl.owner import own_stamp
from lego_rl.sandbox.cgroups import Hierarchies
from lego_rl.sandbox.state import State

SETTLE_SECONDS = 15.0
"""How long the kernel may take to take down what was killed; on a machine that is busy it needs more than a moment."""
FINISHED = re.compile(r"[a-z-]+|etc-\d+|[0-9a-f]{16,24}|[a-z]+-[0-9a-f]{16}\.pyc")
"""How a cache is named, once it is whole."""


@dataclass(frozen=True)
class Killed:
    """A process that was killed, and where it kept its files.

    Attributes:
        pid: Its id.
        state: Folder of its sandboxes.
        temporary: What it took for the system's temporary folder.
        known: What was there before it (`entries`).
        marker: Words in the command line of every process of its sandboxes' programs.
    """

    pid: int
    state: State
    temporary: Path
    known: frozenset[Path]
    marker: str = ""

    def left(self) -> list[str]:
        """Everything of it that is still there, once the kernel has had time to take it down."""
        end = time.monotonic() + SETTLE_SECONDS
        while (found := [*self._processes(), *self._groups()]) and time.monotonic() < end:
            time.sleep(0.02)
        return [*found, *self._files()]

    def _processes(self) -> Iterator[str]:
        """Those with a mount of its sandboxes, which are all in their namespaces, and those that say that they are."""
        mine = f"{self.pid}.".encode()
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                mounts, said = (path / "mountinfo").read_bytes(), (path / "cmdline").read_bytes()
                named = any(os.fsencode(self.state.root.name) in line and mine in line for line in mounts.splitlines())
                if named or (self.marker and self.marker.encode() in said):
                    yield f"process {path.name}: {said[:200]!r}"

    def _groups(self) -> Iterator[str]:
        for folder in dict.fromkeys(path.parent for path in Hierarchies.of_this_process().candidates("x")):
            yield from (f"control group {path}" for path in folder.glob(f"lego-{self.pid}.*"))

    def _files(self) -> Iterator[str]:
        yield from (f"{path}" for path in entries(self.state) - self.known if not FINISHED.fullmatch(path.name))
        yield from (f"temporary file {path}" for path in self.temporary.iterdir())


def entries(state: State) -> frozenset[Path]:
    """What is in the folder of sandboxes and in each of its folders of caches and runs."""
    below = [path for path in state.root.glob("*") if path.is_dir() and not path.name.startswith("etc-")]
    return frozenset(path for folder in (state.root, *below) for path in folder.glob("*"))


@contextmanager
def foreign(state: State) -> Iterator[None]:
    """Look-alikes of other owners, living or unknown, all of which must be there at the end."""
    run = state.new_run()  # this process lives
    (run.upper / "work").write_text("of a living owner")
    without = [state.runs / "0123456789abcdef", state.runs / f"{own_stamp()[:-3]}-cut", state.root / "build-by-hand"]
    without += [state.runs / f"1.1.1.1.{'0' * 12}x-1", state.pristine / f"lego-{own_stamp()}"]
    for folder in without:
        (folder / "inner").mkdir(parents=True)
    groups = [path for path in Hierarchies.of_this_process().candidates(f"lego-{os.getpid()}.1-x") if _made(path)]
    with subprocess.Popen(["bash", "-c", "exec -a bwrap sleep 1000"]) as process:
        for group in groups:
            (group / "cgroup.procs").write_text(str(process.pid))
        try:
            yield
            assert process.poll() is None, "a process that is called like ours was killed"
            assert all(group.is_dir() for group in groups), "a group that is called like ours is gone"
            assert (run.upper / "work").read_text() == "of a living owner"
            assert all((folder / "inner").is_dir() for folder in without)
        finally:
            process.kill()
            process.wait()
            for group in groups:
                _unmade(group)
            run.remove()


def _made(group: Path) -> bool:
    try:
        group.mkdir()
    except OSError:  # where no group may be made there is none to look like
        return False
    return True


def _unmade(group: Path) -> None:
    with suppress(OSError):  # what is no group of the kernel's, but a folder beside them, holds a plain file
        (group / "cgroup.procs").unlink()
    for _ in range(200):
        with suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.01)
