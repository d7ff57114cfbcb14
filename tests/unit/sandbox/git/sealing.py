"""Seal a repository as an image does, and look at what came of it."""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from lego_rl.sandbox.git.layers import FileSystem, build_layers
from lego_rl.sandbox.git.manifest import HistorySeal
from lego_rl.sandbox.git.sources import Source
from lego_rl.tasks.history import History

WRITTEN = {"HEAD", "config", "index", "refs/heads/main"}


@dataclass(frozen=True)
class Sealed:
    """A task's repository, sealed."""

    root: Path
    seal: HistorySeal

    @property
    def agent(self) -> Path:
        return self.root / "agent" / "app"

    @property
    def grading(self) -> Path:
        return self.root / "grading" / "app"

    @property
    def pristine(self) -> Path:
        return self.root / "pristine"

    def work_tree(self) -> Path:
        """The agent's view: the pristine files with the layer's git directories laid over them."""
        both = self.root / "both"
        shutil.copytree(self.pristine, both, symlinks=True)
        shutil.copytree(self.agent, both, symlinks=True, dirs_exist_ok=True)
        return both


def seal(repo: Path, history: History | None = None, rootfs: Path | None = None) -> Sealed:
    root = repo.parent / f"sealed-of-{repo.name}"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(repo, root / "pristine", symlinks=True, ignore=shutil.ignore_patterns(".git"))
    files = FileSystem(root / "pristine", "/app", [Source(repo, "/app")], rootfs)
    return Sealed(root, build_layers(files, history or History(), root / "agent", root / "grading"))


def names_in(git_dir: Path) -> set[str]:
    """Every file in a git directory but its one pack and index, whose names must belong together."""
    names = {str(path.relative_to(git_dir)) for path in git_dir.rglob("*") if not path.is_dir()}
    packs = {name for name in names if name.startswith("objects/pack/pack-")}
    assert len(packs) == 2, names
    assert {Path(name).suffix for name in packs} == {".pack", ".idx"}
    return names - packs


def digest_of(ids: set[str]) -> str:
    return hashlib.sha256(b"".join(bytes.fromhex(name) for name in sorted(ids))).hexdigest()
