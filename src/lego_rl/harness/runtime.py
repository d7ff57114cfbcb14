"""A Python that runs wherever it is mounted: a copy of the interpreter Lego-RL itself runs on.

Invariant: what is copied needs nothing of the host but glibc. An interpreter finds its standard library relative to its
own program; the shared libraries that it and its extension modules link to lie in one folder, for ``LD_LIBRARY_PATH``.

    bin/python                   the interpreter
    lib/pythonX.Y/               standard library and extension modules
    lib/*.so*                    shared libraries
"""

import re
import shutil
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from lego_rl.errors import HarnessError
from lego_rl.harness.programs import run

LIST_SECONDS = 300.0

# Development files, other packages and graphical programs: a headless harness uses none of them.
_UNUSED = ("test", "tests", "idlelib", "idle_test", "turtledemo", "tkinter", "ensurepip", "lib2to3", "config-*")
_UNUSED_PACKAGES = ("site-packages", "dist-packages", "__pycache__", "_tkinter*", "_test*")

# Parts of glibc: these must be the ones of the system whose loader starts the program.
_GLIBC = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv|anl|nsl|nss_.*|BrokenLocale|thread_db|mvec))\.so.*")


def version() -> str:
    """The running interpreter's version and build, as a bundle built from it should remember."""
    return f"{sysconfig.get_platform()} {sys.version}"


def copy(target: Path) -> Path:
    """Copy the running interpreter and its standard library into `target`.

    Returns:
        The new interpreter's path.

    Raises:
        HarnessError: The running Python's files are not where its configuration says.
    """
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    program = Path(sys.base_prefix) / "bin" / name
    library = Path(sysconfig.get_path("stdlib"))
    if not (program.is_file() and (library / "os.py").is_file()):
        raise HarnessError(
            f"{sys.executable} has no {program} or no standard library in {library}",
            f"install the complete {name} (Debian: apt-get install {name} {name}-venv) and run scripts/setup.sh again",
        )
    copied = target / "bin" / "python"
    copied.parent.mkdir(parents=True)
    shutil.copy(program.resolve(), copied)
    ignore = shutil.ignore_patterns(*_UNUSED, *_UNUSED_PACKAGES)
    shutil.copytree(library, target / "lib" / name, ignore=ignore)
    return copied


def add_libraries(target: Path) -> None:
    """Copy every shared library that the programs and extension modules below `target` load from outside it."""
    objects = [*(target / "bin").iterdir(), *target.rglob("*.so"), *target.rglob("*.so.*")]
    for path in sorted(_linked([path for path in objects if path.is_file()])):
        if not path.is_relative_to(target.resolve()):
            copied = target / "lib" / path.name
            shutil.copy(path, copied)
            copied.chmod(0o755)


def _linked(objects: Iterable[Path]) -> set[Path]:
    """Resolved libraries other than glibc's that the loader would take for `objects`.

    Libraries of libraries are listed too. What the loader does not find is a module that the host cannot load either.
    """
    result = run(["ldd", *objects], timeout=LIST_SECONDS)
    found = re.findall(r"^\s+(\S+) => (/\S+) \(0x", result.stdout, flags=re.MULTILINE)
    return {Path(path).parent.resolve() / name for name, path in found if not _GLIBC.fullmatch(name)}
