"""Where sandboxes keep what outlives a process: caches, and one folder for each running sandbox.

Invariant: everything temporary carries its owner in its name (`lego_rl.owner`), from the moment it exists, so that
whatever a killed owner left behind can be told from what is in use and removed by the next one. What cannot be removed
is logged and left, never raised: a trial's result must not depend on it.
"""

import logging
import os
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from lego_rl.cache import cache_folder
from lego_rl.owner import is_dead, is_of_another_boot, named_in, own_stamp, owned_folder
from lego_rl.sandbox.cgroups import remove_cgroup
from lego_rl.sandbox.file_systems import LOCAL_FILE_SYSTEMS, file_system
from lego_rl.sandbox.lingering import end_users
from lego_rl.sandbox.outside_user import give_to_sandbox
from lego_rl.sandbox.removal import remove_kernels_own, remove_tree

NESTED = "state"
"""In a temporary folder: a state folder of its own, whose sandboxes are the temporary folder's owner's."""
_log = logging.getLogger(__name__)


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
    def image_trees(self) -> Path:
        """Work trees as images bring them."""
        return self.root / "image-trees"

    @property
    def toolchains(self) -> Path:
        """Python packages that sandboxes are given."""
        return self.root / "toolchain"

    @property
    def programs(self) -> Path:
        """Byte code of the programs that build a sandbox and serve in it."""
        return self.root / "programs"

    @property
    def runs(self) -> Path:
        """One folder for each running sandbox."""
        return self.root / "runs"

    def new_run(self) -> "RunFolder":
        """Make the folder of a new sandbox, owned by this process."""
        self.root.mkdir(parents=True, exist_ok=True)
        # What a sandbox leaves may be set-user-id: nobody else on the host may come near it.
        self.runs.mkdir(mode=0o700, exist_ok=True)
        folder = RunFolder(self.runs / f"{own_stamp()}-{uuid.uuid4().hex[:8]}")
        folder.path.mkdir()
        folder.path.chmod(0o711)
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

    def building(self, parent: Path, prefix: str = "build-") -> AbstractContextManager[Path]:
        """A temporary folder in one of the caches, or beside them, which `reap_stale` finds if it is left behind."""
        parent.mkdir(parents=True, exist_ok=True)
        return owned_folder(parent, prefix)

    @contextmanager
    def making(self, folder: Path) -> Iterator[Path]:
        """An empty folder to fill, which then becomes `folder` in one of the caches, unless somebody was faster."""
        with self.building(folder.parent) as scratch:
            made = scratch / "made"
            made.mkdir()
            yield made
            try:
                made.rename(folder)
            except OSError:
                if not folder.is_dir():
                    raise

    def reap_stale(self) -> list[str]:
        """Remove what killed owners left: processes, control groups, folders of sandboxes, half-made caches.

        Several processes may do so at once.

        Returns:
            The names of the folders that were removed.
        """
        stale = self._stale()
        end_users({path.name for path in stale})
        return [path.name for path in stale if RunFolder(path).remove()]

    def sandboxes(self) -> list["RunFolder"]:
        """The folders of all sandboxes, whosever they are."""
        return [RunFolder(path) for path in _folders_in(self.runs) if named_in(path.name) is not None]

    def stale(self) -> list["RunFolder"]:
        """The run folders of dead owners."""
        return [RunFolder(path) for path in self._stale() if path.parent == self.runs]

    def _stale(self) -> list[Path]:
        return [path for path in self._temporary() if self._is_stale(path)]

    def _temporary(self) -> Iterator[Path]:
        """Everything that carries an owner: below the root and in each of its folders, no deeper."""
        for folder in (self.root, *_folders_in(self.root)):
            yield from (path for path in _folders_in(folder) if named_in(path.name) is not None)

    def _is_stale(self, path: Path) -> bool:
        stamp = named_in(path.name)
        if stamp is None:
            return False
        return is_dead(stamp) or (is_of_another_boot(stamp) and file_system(self.root) in LOCAL_FILE_SYSTEMS)


@dataclass(frozen=True)
class RunFolder:
    """What one sandbox writes on the host."""

    path: Path

    @property
    def cgroups(self) -> Path:
        """The control groups that the sandbox may have, one path a line: written before the first of them is made."""
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

    @property
    def written(self) -> tuple[Path, ...]:
        """All that the sandbox itself can write to."""
        return (self.upper, self.root_upper, self.report)

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
        for nested in State(self.path / NESTED).sandboxes():
            if named_in(nested.path.name) == named_in(self.path.name):
                nested._remove()
        for scratch in (self.work, self.root_work):
            remove_kernels_own(scratch / "work")
        if self.cgroups.is_file():
            for line in self.cgroups.read_text(errors="replace").splitlines():
                # Never another group, such as the parent whose path a list that was cut short ends in.
                if Path(line).name == self.cgroup_name:
                    remove_cgroup(Path(line))
        remove_tree(self.path)


def _folders_in(folder: Path) -> list[Path]:
    """The real folders in a folder that may be gone, or be none."""
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
