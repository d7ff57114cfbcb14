"""Fetching a harness from the npm registry: tarballs that are pinned by their content.

Invariant: nothing is unpacked but the very bytes that are pinned, no script of a package runs, and nothing that a
package depends on comes along unless it is pinned too. Which registry it is, is up to the user's own npm configuration.
"""

import base64
import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lego_rl.errors import HarnessError
from lego_rl.harness import node
from lego_rl.harness.programs import run

FETCH_SECONDS = 3600.0
"""A harness is up to 150 MB, and networks are slow; what takes longer hangs."""

_QUIET = ("--silent", "--ignore-scripts", "--no-update-notifier")


@dataclass(frozen=True)
class Tarball:
    """One version of an npm package.

    Attributes:
        name: Such as ``opencode-linux-x64`` or ``@qwen-code/qwen-code``.
        version: Exact.
        integrity: Its tarball's ``dist.integrity``, as ``npm view NAME@VERSION dist.integrity`` prints it: ``sha512-``
            and base64 (Subresource Integrity, W3C).
    """

    name: str
    version: str
    integrity: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


def fetch(tarball: Tarball, target: Path) -> None:
    """Unpack a package into `target`, a folder that is not there yet.

    Raises:
        HarnessError: There is no npm, the package could not be fetched, or it is not what is pinned.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="npm-") as folder:
        scratch = Path(folder)
        _pack(tarball, scratch)
        archive = next(scratch.glob("*.tgz"), None)
        if archive is None or integrity(archive) != tarball.integrity:
            raise HarnessError(f"{tarball} is not the package that is pinned", "clear npm's cache and install again")
        _unpack(archive, scratch / "unpacked", tarball)
        shutil.move(scratch / "unpacked" / "package", target)


def integrity(path: Path) -> str:
    """A file's digest as npm writes it."""
    with path.open("rb") as file:
        return f"sha512-{base64.b64encode(hashlib.file_digest(file, 'sha512').digest()).decode()}"


def _pack(tarball: Tarball, scratch: Path) -> None:
    """Have npm download the tarball, which it names as it likes, into `scratch`."""
    installed = shutil.which("npm")
    client = [installed] if installed else [str(part) for part in node.npm(scratch / "node")]
    result = run(
        [*client, "pack", *_QUIET, str(tarball)],
        timeout=FETCH_SECONDS,
        env=_environment(),
        cwd=str(scratch),
        slow="check that the npm registry answers (npm view ...) and run the command again",
    )
    if result.returncode != 0:
        said = " ".join((result.stdout + result.stderr).split())[-600:]
        raise HarnessError(
            f"npm could not fetch {tarball}: {said or 'it does not say why'}",
            f"check that the npm registry is reachable (npm view {tarball}) and run the command again",
        )


def _environment() -> Mapping[str, str]:
    # Errors are worth reading, whatever the user's configuration silences.
    return {**os.environ, "NPM_CONFIG_LOGLEVEL": "error"}


def _unpack(archive: Path, target: Path, tarball: Tarball) -> None:
    try:
        with tarfile.open(archive, "r:gz") as opened:
            opened.extractall(target, filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise HarnessError(f"{tarball} cannot be unpacked: {error}", "report this with the package's name") from error
    if not (target / "package").is_dir():
        raise HarnessError(f"{tarball} holds no folder named package", "report this with the package's name")
