"""Bundles: installed harnesses on the host, each a read-only folder with a manifest of every file.

Invariant: a bundle's final path holds all of a verified bundle or nothing. It is built in a staging folder beside it,
sealed (modes, manifest, hash) and renamed into place under a lock, so an interrupted install leaves no half bundle and
two installs at once give one. What is built from something else lies beside it, so that no running sandbox loses what
it has mounted to another checkout's install; only a bundle whose content was altered is replaced.

    ROOT/NAME/VERSION-BUILD/bundle.json     name, version, hash …, and path → [mode, size, mtime, SHA-256] of every file
    ROOT/NAME/VERSION-BUILD/files/          what is mounted into the sandbox
"""

import contextlib
import errno
import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from lego_rl.cache import cache_folder
from lego_rl.errors import HarnessError
from lego_rl.harness.base import BundleSpec, HarnessBundle
from lego_rl.harness.bundle_record import Record, hash_of, scan

_STAGING = ".staging-"


def default_root() -> Path:
    """Where bundles are kept unless a path is given."""
    return cache_folder("bundles")


def install(root: Path, spec: BundleSpec, build: Callable[[Path], None]) -> HarnessBundle:
    """Install a bundle unless an intact one is there.

    Args:
        root: Bundle root; made if missing.
        spec: What to install.
        build: Fills an empty folder with the bundle's files and checks them.

    Raises:
        HarnessError: `build` failed, or a file cannot be read or written; the message names it.
    """
    home = root / spec.name
    final = home / spec.folder
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _lock(home / ".lock"):
            _sweep(home)
            present = _reusable(final, spec)
            if present is not None:
                return present
            staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=home))
            try:
                files = staging / "files"
                files.mkdir()
                build(files)
                _seal(files, spec, staging / "bundle.json")
                staging.chmod(0o755)
                _replace(staging, final)
            finally:
                _remove(staging)
    except OSError as error:
        raise HarnessError(f"cannot install {spec.name} under {root}: {error}", _mend(error, spec)) from error
    return load(root, spec)


def _mend(error: OSError, spec: BundleSpec) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return "free space or name another folder"
        case errno.EACCES | errno.EPERM | errno.EROFS | errno.ENOTDIR | errno.EEXIST:
            return "name a folder that you may write"
        case _:
            return f"mend what the message names and run: lego-rl harness install {spec.name}"


def load(root: Path, spec: BundleSpec) -> HarnessBundle:
    """The installed bundle that `spec` asks for, after a check of sizes, modes and times (no content is read).

    Raises:
        HarnessError: It is missing or was altered.
    """
    folder = root / spec.name / spec.folder
    again = f"run: lego-rl harness install {spec.name}"
    if not (folder / "bundle.json").is_file():
        raise HarnessError(f"{spec.name} {spec.version} is not installed under {root}", again)
    record = Record.read(folder)
    altered = record.altered(folder / "files") if record.is_of(spec) else "bundle.json"
    if altered:
        raise HarnessError(f"the bundle of {spec.name} {spec.version} was altered: {altered}", again)
    return record.bundle(folder / "files")


def installed(root: Path) -> list[HarnessBundle | HarnessError]:
    """Every bundle under `root`, sorted by name and version; none is checked. Where a record cannot be read, why."""
    records = sorted(root.glob("*/*/bundle.json")) if root.is_dir() else []
    folders = [path.parent for path in records if not path.parent.name.startswith(_STAGING)]
    return [_bundle_in(folder) for folder in folders]


def _bundle_in(folder: Path) -> HarnessBundle | HarnessError:
    try:
        return Record.read(folder).bundle(folder / "files")
    except HarnessError as error:
        return error


def verify(bundle: HarnessBundle) -> None:
    """Read every file of a bundle and compare it with the manifest.

    Raises:
        HarnessError: Names the first path that differs.
    """
    record = Record.read(bundle.path.parent)
    actual = scan(bundle.path) if bundle.path.is_dir() else {}
    differing = sorted(
        path
        for path in record.files.keys() | actual.keys()
        if path not in actual or path not in record.files or not actual[path].same_content(record.files[path])
    )
    if differing or not bundle.hash == record.hash == hash_of(actual):
        raise HarnessError(
            f"the bundle of {bundle.name} {bundle.version} was altered: {differing[0] if differing else 'bundle.json'}",
            f"run: lego-rl harness install {bundle.name}",
        )


def _reusable(final: Path, spec: BundleSpec) -> HarnessBundle | None:
    """The bundle at `final` if it is what `spec` asks for, by times or, where those differ, by content."""
    if not (final / "bundle.json").is_file():
        return None
    try:
        record = Record.read(final)
    except HarnessError:
        return None
    files = final / "files"
    if not record.is_of(spec) or not files.is_dir():
        return None
    if not record.altered(files):
        return record.bundle(files)
    actual = scan(files)
    if hash_of(actual) != record.hash:
        return None
    renewed = Record(record.name, record.version, record.licence, record.build, record.hash, actual)
    partial = final / "bundle.json.new"
    renewed.write(partial)
    partial.rename(final / "bundle.json")
    return renewed.bundle(files)


def _seal(files: Path, spec: BundleSpec, record: Path) -> None:
    """Take away every write permission and write the manifest."""
    for folder, _, names in files.walk(top_down=False):
        for name in names:
            path = folder / name
            if not path.is_symlink():
                path.chmod(0o555 if path.stat().st_mode & 0o111 else 0o444)
        folder.chmod(0o555)
    entries = scan(files)
    if not entries:
        raise HarnessError(f"the bundle of {spec.name} {spec.version} would be empty", "report this with the log above")
    Record(spec.name, spec.version, spec.licence, spec.build, hash_of(entries), entries).write(record)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`; the kernel lets go of it when the process dies."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sweep(home: Path) -> None:
    """Remove what an interrupted install left; the caller holds the lock, so nobody is using it."""
    for leftover in home.glob(f"{_STAGING}*"):
        _remove(leftover)


def _replace(staging: Path, final: Path) -> None:
    """Put `staging` where `final` is."""
    if final.exists():
        old = Path(tempfile.mkdtemp(prefix=_STAGING, dir=final.parent))
        final.rename(old / "old")
        staging.rename(final)
        _remove(old)
    else:
        staging.rename(final)


def _remove(tree: Path) -> None:
    """Delete a folder whose own folders may be read-only."""
    if not tree.exists():
        return
    for folder, _, _ in tree.walk():
        folder.chmod(0o755)
    shutil.rmtree(tree)
