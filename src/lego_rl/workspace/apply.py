"""Applying a change to a workspace: all of it or nothing, and never over what the user has.

Invariant: a path is touched only where it holds what was handed over, and one that is made only where nothing is. What
is replaced is moved aside first, into a folder of the workspace with a plan of how to put it back: an error or Ctrl-C
undoes what was done, and after a kill or a power cut `recover` does.
"""

import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from lego_rl.documents import read_json
from lego_rl.durable import sync_folder
from lego_rl.errors import LegoError
from lego_rl.sandbox.verdict import Change, Patch
from lego_rl.workspace.listing import UNDO
from lego_rl.workspace.stage import Entry, entry_of

_PLAN = "plan.json"


class NotAppliedError(LegoError):
    """A change that was not applied; the workspace is as it was."""


def apply(patch: Patch, root: Path, handed: Mapping[str, Entry]) -> None:
    """Make a change.

    Args:
        patch: The change.
        root: The workspace.
        handed: What the changed files were when they were handed over.

    Raises:
        NotAppliedError: A path is not as it was, or the change would lead out of the workspace.
    """
    for change in patch.changes:
        _check(change, root, handed, patch)
    undo = root / UNDO
    try:
        undo.mkdir(mode=0o700)
        try:
            _make(patch, root, handed)
        finally:
            if not (undo / _PLAN).exists():
                shutil.rmtree(undo, ignore_errors=True)
    except FileExistsError as error:
        raise NotAppliedError(f"{error.filename or error} is in the way", "move it away, and run again") from error
    except OSError as error:
        raise NotAppliedError(f"nothing was applied: {error}", "mend that, and apply the printed patch") from error


def _make(patch: Patch, root: Path, handed: Mapping[str, Entry]) -> None:
    undo = root / UNDO
    numbered = list(enumerate(patch.changes))
    for number, change in numbered:
        if change.kind != "deleted":
            _write(change, undo / f"new-{number}", root / change.path)
    with _undone_on_error(root):
        _plan(undo, patch, root)
        for number, change in numbered:
            if change.path in handed:
                aside = undo / f"old-{number}"
                (root / change.path).rename(aside)
                if entry_of(aside) != handed[change.path]:
                    raise _refused(f"{change.path} was changed meanwhile")
        _remove_empty_folders(root, patch)
        for number, change in numbered:
            if change.kind != "deleted":
                _place(undo / f"new-{number}", root, change.path)
        _sync(root, patch)
        (undo / _PLAN).unlink()  # from here on it is done


def recover(root: Path) -> bool:
    """Undo a change of which a killed process applied a part.

    Returns:
        Whether there was one.
    """
    undo = root / UNDO
    if not undo.is_dir():
        return False
    if (undo / _PLAN).is_file():
        _undo(root)
    shutil.rmtree(undo, ignore_errors=True)
    return True


def _check(change: Change, root: Path, handed: Mapping[str, Entry], patch: Patch) -> None:
    place = root / change.path
    known = handed.get(change.path)
    if _leads_out(change):
        raise _refused(f"{change.path} would be a link that leads out of the workspace")
    gone = {each.path for each in patch.changes if each.kind == "deleted" or each.path in handed}
    for parent in PurePosixPath(change.path).parents:
        folder = root / parent
        if str(parent) not in gone and (folder.is_symlink() or (os.path.lexists(folder) and not folder.is_dir())):
            raise _refused(f"{parent} is no folder of the workspace any more")
    if known is None:
        if os.path.lexists(place) and not (
            place.is_dir() and not place.is_symlink() and _only_handed(place, root, gone)
        ):
            raise _refused(f"{change.path} exists, and was not handed over")
        return
    try:
        now = entry_of(place)
    except OSError:
        now = None
    if now != known:
        raise _refused(f"{change.path} was changed meanwhile")


def _only_handed(folder: Path, root: Path, gone: set[str]) -> bool:
    """Whether a folder holds nothing but what the change takes away."""
    files = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return all(file.relative_to(root).as_posix() in gone for file in files)


def _leads_out(change: Change) -> bool:
    if change.kind != "symlink":
        return False
    target = os.fsdecode(change.content)
    inside = os.path.normpath(os.path.join("/w", os.path.dirname(change.path), target))  # noqa: PTH118, PTH120
    return os.path.isabs(target) or not (inside + "/").startswith("/w/")  # noqa: PTH117


def _refused(why: str) -> NotAppliedError:
    return NotAppliedError(
        f"nothing was applied: {why}", "apply the printed patch yourself: git apply FILE (--output FILE writes it)"
    )


def _write(change: Change, place: Path, replaced: Path) -> None:
    """Write what is new beside the workspace's files, with the permissions of what it replaces."""
    if change.kind == "symlink":
        place.symlink_to(os.fsdecode(change.content))
        return
    with place.open("xb") as file:
        file.write(change.content)
        file.flush()
        os.fsync(file.fileno())
    old = replaced if replaced.is_file() and not replaced.is_symlink() else place
    mode = stat.S_IMODE(old.stat().st_mode) & ~0o111
    place.chmod(mode | (mode & 0o444) >> 2 if change.executable else mode)


def _plan(undo: Path, patch: Patch, root: Path) -> None:
    """How to put everything back; written before the first path is touched."""
    folders = {parent for change in patch.changes for parent in PurePosixPath(change.path).parents}
    missing = sorted((str(folder) for folder in folders if not (root / folder).exists()), reverse=True)
    made = [change.kind != "deleted" for change in patch.changes]
    steps = [{"path": change.path, "makes": makes} for change, makes in zip(patch.changes, made, strict=True)]
    pending = undo / f".{_PLAN}"
    with pending.open("w", encoding="ascii") as file:
        json.dump({"steps": steps, "missing": missing}, file)
        file.flush()
        os.fsync(file.fileno())
    pending.rename(undo / _PLAN)
    sync_folder(undo)


@contextmanager
def _undone_on_error(root: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:  # Ctrl-C, too
        if (root / UNDO / _PLAN).exists():
            _undo(root)
        raise


def _undo(root: Path) -> None:
    undo = root / UNDO
    plan = read_json((undo / _PLAN).read_text(encoding="ascii"))
    steps = list(enumerate(plan["steps"]))
    for number, step in steps:
        # What is new was renamed into place, so its name here is gone exactly where it stands there.
        if step["makes"] and not os.path.lexists(undo / f"new-{number}"):
            (root / step["path"]).unlink(missing_ok=True)
    for folder in plan["missing"]:
        with suppress(OSError):  # never made, or somebody has put something in it
            (root / folder).rmdir()
    for number, step in steps:
        if os.path.lexists(undo / f"old-{number}"):
            place = root / step["path"]
            place.parent.mkdir(parents=True, exist_ok=True)
            (undo / f"old-{number}").rename(place)
    (undo / _PLAN).unlink()


def _place(made: Path, root: Path, path: str) -> None:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(place):
        raise FileExistsError(f"{path} exists")
    made.rename(place)


def _remove_empty_folders(root: Path, patch: Patch) -> None:
    """Folders that the change has emptied, so that files can stand in their place."""
    for change in patch.changes:
        if change.kind == "deleted":
            for parent in PurePosixPath(change.path).parents:
                if str(parent) == "." or any((root / parent).iterdir() if (root / parent).is_dir() else [0]):
                    break
                (root / parent).rmdir()


def _sync(root: Path, patch: Patch) -> None:
    for parent in {(root / change.path).parent for change in patch.changes}:
        if parent.is_dir():
            sync_folder(parent)
