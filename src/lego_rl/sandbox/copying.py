"""Copies of files on the host, without what `shutil.copytree` does about errors.

Invariant: the first error is raised as it is, so that a full disk is known by its number, where `shutil.copytree` goes
on and raises all of them as text. Nothing is written through a link that is there already.
"""

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from lego_rl.sandbox.dockerfile import NeedsBuildError

type Wanted = Callable[[Path, int], bool]
"""Whether a path with this mode is to be copied, with all below it."""


def copy_tree(source: Path, target: Path, wanted: Wanted) -> None:
    """Copy a file, a link as a link, or a folder over what is there.

    Args:
        source: What to copy; it is asked for like everything below it.
        target: Where it is to be.
        wanted: Asked before anything is copied; it must not want what is neither a file, a folder nor a link.

    Raises:
        NeedsBuildError: A folder would come to lie behind a link, or a folder and a file in each other's place.
        OSError: The first error there is.
    """
    mode = source.lstat().st_mode
    if not wanted(source, mode):
        return
    is_folder = stat.S_ISDIR(mode)
    if not target.is_symlink() and target.exists() and target.is_dir() != is_folder:
        kinds = "folder {}", "file {}"
        there, new = reversed(kinds) if is_folder else kinds
        raise NeedsBuildError(
            f"the {new.format(source)} would be copied in place of the {there.format(target.name)}",
            "name a destination for it that ends in /, or another one",
        )
    if not is_folder:
        target.unlink(missing_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
        return
    if target.is_symlink():
        raise NeedsBuildError(
            f"{source} would be copied behind the link {target.name}, which needs an image build",
            "copy it to where the link leads, or use Docker",
        )
    target.mkdir(exist_ok=True)
    with os.scandir(source) as entries:
        for entry in entries:
            copy_tree(Path(entry.path), target / entry.name, wanted)
    shutil.copystat(source, target)


def is_plain(mode: int) -> bool:
    """Whether it is the mode of a file, a folder or a link."""
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
