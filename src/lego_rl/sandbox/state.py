"""Where sandboxes keep what outlives a process: caches, and one folder for each running sandbox.

Invariant: a run folder names its owner (process id and start time), so that whatever a killed owner left behind can be
told from what is in use and removed by the next one. What cannot be removed is logged and left, never raised: a trial's
result must not depend on it.
"""

import logging
import os
import shutil
import signal
import subprocess
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lego_rl.cache import cache_folder

SANDBOX_UID = 1_900_000_001
"""What a sandbox is on the host when root starts it: an id in the range that no tool hands out
(systemd's "Users, Groups, UIDs and GIDs" lists 1879048192 to 2147483647 as unused)."""

REMOVE_ATTEMPTS = 200
REMOVE_PAUSE = 0.005

_log = logging.getLogger(__name__)


def outside_uid() -> int | None:
    """The identity that a sandbox gets on the host: `SANDBOX_UID` as root, ``None`` (the user's own) otherwise."""
    return SANDBOX_UID if os.geteuid() == 0 else None


def owner_uid() -> int:
    """Who owns what sandboxes write: `outside_uid`, or else the user."""
    uid = outside_uid()
    return os.geteuid() if uid is None else uid


@dataclass(frozen=True)
class State:
    """The folder of caches and run folders; its file system must be able to hold an overlay's upper layer."""

    root: Path

    @classmethod
    def default(cls) -> "State":
        """In the user's cache folder."""
        return cls(cache_folder("sandbox"))

    @property
    def pristine(self) -> Path:
        """Work trees as tasks ship them."""
        return self.root / "pristine"

    @property
    def toolchains(self) -> Path:
        """Python packages that sandboxes are given."""
        return self.root / "toolchain"

    @property
    def runs(self) -> Path:
        """One folder for each running sandbox."""
        return self.root / "runs"

    def new_run(self) -> "RunFolder":
        """Make the folder of a new sandbox, owned by this process."""
        self.root.mkdir(parents=True, exist_ok=True)
        # What a sandbox leaves may be set-user-id: nobody else on the host may come near it.
        self.runs.mkdir(mode=0o700, exist_ok=True)
        folder = RunFolder(self.runs / uuid.uuid4().hex[:16])
        folder.path.mkdir()
        folder.path.chmod(0o711)
        folder.owner.write_text(own_stamp())
        for layer in (folder.upper, folder.work, folder.root_upper, folder.root_work):
            layer.mkdir()
            layer.chmod(0o755)
            give_to_sandbox(layer)
        folder.control.mkdir()
        folder.control.chmod(0o755)
        # The grader's own: as root a test can add a report, but neither replace nor empty the folder.
        folder.report.mkdir()
        folder.report.chmod(0o1777)
        return folder

    def reap_stale(self) -> list[str]:
        """Remove what killed owners left: processes, control groups, folders.

        Returns:
            The names of the run folders that were removed.
        """
        return [folder.path.name for folder in self.stale() if folder.remove()]

    def stale(self) -> list["RunFolder"]:
        """The run folders of dead owners."""
        folders = map(RunFolder, self.runs.iterdir() if self.runs.is_dir() else ())
        return [folder for folder in folders if folder.is_stale()]


@dataclass(frozen=True)
class RunFolder:
    """What one sandbox writes on the host."""

    path: Path

    @property
    def owner(self) -> Path:
        """Process id and start time of the owner."""
        return self.path / "owner"

    @property
    def cgroups(self) -> Path:
        """The control groups in use, one path a line."""
        return self.path / "cgroups"

    @property
    def cgroup_name(self) -> str:
        """What every control group of the sandbox is called."""
        return f"lego-{self.path.name}"

    @property
    def upper(self) -> Path:
        """The work tree's overlay: everything the sandbox changed in it."""
        return self.path / "upper"

    @property
    def work(self) -> Path:
        """Scratch of the kernel for `upper`."""
        return self.path / "work"

    @property
    def root_upper(self) -> Path:
        """The root file system's overlay, where the root is a folder."""
        return self.path / "root-upper"

    @property
    def root_work(self) -> Path:
        """Scratch of the kernel for `root_upper`."""
        return self.path / "root-work"

    @property
    def control(self) -> Path:
        """Where the host listens for a first process that inherits no socket."""
        return self.path / "control"

    @property
    def hosts(self) -> Path:
        """Host names of a sandbox whose tests have some."""
        return self.path / "hosts"

    @property
    def report(self) -> Path:
        """Where a test command writes its report."""
        return self.path / "report"

    def is_stale(self) -> bool:
        """Whether the owner is dead, as far as can be told: it may be new, or of another pid namespace.

        What names no owner, such as a folder whose stamp was cut short or a stray file, is nobody's to remove.
        """
        try:
            return is_dead(self.owner.read_text())
        except (OSError, ValueError):
            return False

    def remove(self) -> bool:
        """Kill what is left in the control groups and remove them and the folder.

        Returns:
            Whether all of it is gone. What is not was logged and stays for `State.reap_stale`, once the owner is dead.
        """
        try:
            self._remove()
        except OSError as error:
            _log.warning("the sandbox folder %s is left for the next run to remove: %s", self.path, error)
            return False
        return True

    def _remove(self) -> None:
        for scratch in (self.work, self.root_work):
            _remove_kernels_own(scratch / "work")
        if self.cgroups.is_file():
            for line in self.cgroups.read_text(errors="replace").splitlines():
                # Never another group, such as the parent whose path a list that was cut short ends in.
                if Path(line).name == self.cgroup_name:
                    remove_cgroup(Path(line))
        remove_tree(self.path)


def _remove_kernels_own(folder: Path) -> None:
    """Remove what the kernel makes below an overlay's work folder: without any permission, and its mounter's."""
    with suppress(FileNotFoundError):
        try:
            folder.rmdir()
        except OSError:
            folder.chmod(0o700)


def remove_cgroup(path: Path) -> None:
    """Kill every process in a control group and remove it; a group that is gone already is fine.

    Raises:
        OSError: The kernel still holds it after about a second; it needs a moment after the last process has gone.
    """
    with suppress(FileNotFoundError):
        for attempt in range(REMOVE_ATTEMPTS):
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


def give_to_sandbox(path: Path) -> None:
    """Make the sandbox's identity the owner of `path`, without following a link; nothing to do as an ordinary user."""
    uid = outside_uid()
    if uid is not None:
        os.chown(path, uid, uid, follow_symlinks=False)


def remove_tree(path: Path) -> None:
    """Remove a folder that a sandbox wrote, whatever modes and depth it has; links are removed, never followed.

    Raises:
        OSError: Something in it cannot be removed.
    """
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        # Folders without permissions, or nested beyond what a path can name: the system's tools walk by descriptor.
        subprocess.run(["chmod", "-R", "u+rwX", "--", path], check=False, capture_output=True)
        done = subprocess.run(["rm", "-rf", "--", path], check=False, capture_output=True, text=True, errors="replace")
        if done.returncode != 0:
            raise OSError(done.stderr.strip().partition("\n")[0]) from None


def own_stamp() -> str:
    """What tells this process from every other: ``PID STARTTIME NAMESPACE``."""
    return _stamp(os.getpid())


def is_dead(stamp: str) -> bool:
    """Whether the process of a stamp is dead for certain: not where the stamp is none, or of another pid namespace."""
    try:
        pid, started, namespace = stamp.split()
        owner = int(pid), int(started)
    except ValueError:
        return False
    return min(owner) > 0 and namespace == _pid_namespace() and _stamp(owner[0]) != stamp


def _stamp(pid: int) -> str:
    """The stamp of a process, or nothing where there is no such process (proc(5): field 22 of stat)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")  # A process may name itself in any bytes.
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return f"{pid} {text.rpartition(')')[2].split()[19]} {_pid_namespace()}"


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())
