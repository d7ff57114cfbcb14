"""The work tree that an image brings, taken out of it once.

Invariant: nothing of the image is executed for it, the daemon's archive is unpacked without following a link that it
holds, and it is bounded in size.
"""

import http.client
import shutil
import tarfile
from pathlib import Path
from typing import IO

from lego_rl.errors import SandboxError
from lego_rl.sandbox.docker.engine import DaemonError, Engine
from lego_rl.sandbox.docker.labels import Mark
from lego_rl.sandbox.docker.root import Root
from lego_rl.sandbox.image_trees import check_size, place_of
from lego_rl.sandbox.records import is_plain
from lego_rl.sandbox.state import State


def tree_of(engine: Engine, root: Root, workdir: str, state: State) -> Path | None:
    """A folder with what an image has at `workdir`; ``None`` where it has nothing there.

    Raises:
        SandboxError: It is larger than a work tree may be.
    """
    if root.is_host:
        return None
    folder = place_of(state, root.image, workdir)
    if not folder.is_dir():
        with state.making(folder) as made:
            _take_out(engine, root.image, workdir, made, Mark.of_this_process(state))
    return folder


def _take_out(engine: Engine, image: str, workdir: str, target: Path, mark: Mark) -> None:
    name = mark.name("tree")
    # It is never started; the command only has to be one.
    config = {"Image": image, "Entrypoint": ["none"], "HostConfig": {"NetworkMode": "none"}}
    engine.create(name, config, mark.labels)
    try:
        with engine.archive(name, workdir) as stream:
            unpack(stream, target)
    except DaemonError as error:
        if error.status != http.client.NOT_FOUND:
            raise
    finally:
        engine.remove(name)


def unpack(stream: IO[bytes], target: Path) -> None:
    """Unpack a tar of one folder, whatever it is called, so that its content lies in `target`.

    Raises:
        SandboxError: It is too large, or names a path that is not below a folder of its own.
    """
    try:
        _unpack(stream, target)
    except tarfile.TarError as error:
        raise SandboxError(
            f"Docker sent no tar of the image's work tree: {error}", "look at the daemon's log"
        ) from error


def _unpack(stream: IO[bytes], target: Path) -> None:
    folders, files, taken = {""}, set[str](), set[str]()
    size = 0
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for count, entry in enumerate(tar, start=1):
            path = _below_first(entry.name)
            size += entry.size
            check_size(size, count)
            if path == "":
                continue
            # Every folder was made here, so no link of the image is on the way to anything that is written.
            if not is_plain(path) or path.rpartition("/")[0] not in folders or path in taken:
                raise SandboxError(f"the image's work tree holds {entry.name[:200]!r} in no folder", "make it anew")
            taken.add(path)
            if entry.isdir():
                (target / path).mkdir()
                folders.add(path)
            elif entry.issym():
                (target / path).symlink_to(entry.linkname)
            elif entry.islnk():
                first = _below_first(entry.linkname)
                if first not in files:
                    raise SandboxError(f"the image's work tree links {path!r} to {first[:200]!r}", "make it anew")
                shutil.copy(target / first, target / path)
                files.add(path)
            elif entry.isreg() and (content := tar.extractfile(entry)) is not None:
                with (target / path).open("xb") as file:
                    shutil.copyfileobj(content, file)
                (target / path).chmod(0o755 if entry.mode & 0o100 else 0o644)
                files.add(path)


def _below_first(name: str) -> str:
    """A plain path without its first part; the archive's own folder is empty."""
    return name.strip("/").partition("/")[2]
