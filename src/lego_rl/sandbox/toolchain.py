"""The Python that every sandbox of a Python task has: the one Lego-RL runs on, with pytest and nothing else.

Invariant: agent phase and grading see the same interpreter and the same packages, and both are read-only. Packages that
the host's Python has besides are hidden.

The interpreter may live anywhere on the host (pyenv, uv), so it is shown at ``/opt/python``; a Python of the system
(below ``/usr``) is used where it is.
"""

import compileall
import hashlib
import importlib.metadata
import py_compile
import shutil
import site
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from packaging.requirements import Requirement

from lego_rl.errors import SandboxError
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.state import State

PYTHON_MOUNT = "/opt/python"
TOOLCHAIN_MOUNT = "/opt/toolchain"
ROOT_PACKAGE = "pytest"
LAYOUT = "1"
"""Changes when the folder's contents would change for the same packages."""


@dataclass(frozen=True)
class Toolchain:
    """An interpreter and its packages, as mounts.

    Attributes:
        prefix: The interpreter's installation on the host.
        inside: Where it is inside the sandbox.
        folder: The prepared folder with ``bin/`` and ``site/``.
    """

    prefix: Path
    inside: str
    folder: Path

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """Everything a sandbox must be shown, outer mounts first."""
        shown = () if self.inside == str(self.prefix) else (Mount(self.prefix, self.inside),)
        covers = [
            Mount(self.folder / "site", self.inside + str(site_packages).removeprefix(str(self.prefix)))
            for site_packages in _site_packages(self.prefix)
        ]
        return (*shown, *covers, Mount(self.folder, TOOLCHAIN_MOUNT))

    @property
    def path(self) -> str:
        """The folder to put first on ``PATH``."""
        return f"{TOOLCHAIN_MOUNT}/bin"

    @property
    def interpreter(self) -> str:
        """The interpreter's binary inside the sandbox; it may need `library_path`."""
        return f"{self.inside}/bin/{_binary_name()}"

    @cached_property
    def library_path(self) -> str | None:
        """Where the loader finds ``libpython`` if the binary names its old place, else ``None``."""
        moved = self.inside != str(self.prefix)
        return f"{self.inside}/lib" if moved and sysconfig.get_config_var("Py_ENABLE_SHARED") else None


def prepare_toolchain(state: State, *, below_folder_root: bool = False) -> Toolchain:
    """Build the toolchain's folder once per set of package versions, or find it.

    Args:
        state: Where it is kept.
        below_folder_root: The sandbox's root is an unpacked image, so the host's ``/usr`` is not there.

    Raises:
        SandboxError: pytest is not installed beside Lego-RL, or the interpreter cannot be shown below such a root.
    """
    prefix = Path(sys.base_prefix)
    if below_folder_root and prefix == Path("/usr"):
        raise SandboxError(
            "the system's Python cannot be shown below another root file system",
            "run Lego-RL on a Python of its own: uv python install 3.12",
        )
    in_place = prefix.is_relative_to("/usr") and not below_folder_root
    toolchain = Toolchain(prefix, str(prefix) if in_place else PYTHON_MOUNT, Path())
    distributions = _closure(ROOT_PACKAGE)
    versions = sorted(f"{distribution.name}=={distribution.version}" for distribution in distributions)
    identity = "\n".join([LAYOUT, sys.version, str(prefix), toolchain.interpreter, *versions])
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    folder = state.toolchains / key
    if not folder.is_dir():
        _build(folder, toolchain, distributions, state)
    return Toolchain(prefix, toolchain.inside, folder)


def _build(
    folder: Path, toolchain: Toolchain, distributions: tuple[importlib.metadata.Distribution, ...], state: State
) -> None:
    with state.making(folder) as made:
        (made / "bin").mkdir()
        (made / "site").mkdir()
        for distribution in distributions:
            _copy(distribution, made / "site")
        # Never checked against the source: sandboxes share the folder read-only, and nothing in it changes.
        compileall.compile_dir(made / "site", quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
        _write_programs(made / "bin", toolchain)
        for path in (made, *made.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)


def _write_programs(folder: Path, toolchain: Toolchain) -> None:
    for name in ("python", "python3", _binary_name()):
        if toolchain.library_path is None:
            (folder / name).symlink_to(toolchain.interpreter)
        else:
            libraries = f"{toolchain.library_path}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
            (folder / name).write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {toolchain.interpreter} "$@"\n')
    for name in ("pytest", "py.test"):
        (folder / name).write_text(
            f"#!{TOOLCHAIN_MOUNT}/bin/python3\nimport sys\n\nfrom pytest import console_main\n\n"
            "sys.exit(console_main())\n"
        )


@cache
def _closure(root: str) -> tuple[importlib.metadata.Distribution, ...]:
    """The installed distributions that `root` needs, itself included; a process's packages do not change."""
    found: dict[str, importlib.metadata.Distribution] = {}
    open_names = [root]
    while open_names:
        name = open_names.pop()
        if name in found:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError as error:
            raise SandboxError(f"{name} is not installed beside Lego-RL", f"uv pip install {root}") from error
        found[name] = distribution
        requirements = [Requirement(text) for text in distribution.requires or ()]
        open_names += [need.name for need in requirements if need.marker is None or need.marker.evaluate({"extra": ""})]
    return tuple(found.values())


def _copy(distribution: importlib.metadata.Distribution, target: Path) -> None:
    for file in distribution.files or ():
        if ".." in file.parts or file.is_absolute() or file.suffix == ".pyc":
            continue
        copy = target / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(distribution.locate_file(file)), copy)


def _binary_name() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def _site_packages(prefix: Path) -> list[Path]:
    """Every package folder that the interpreter searches: one, but up to three where Debian built it."""
    candidates = [Path(path) for path in site.getsitepackages([str(prefix)])]
    existing = [path for path in candidates if path.is_dir() and path.is_relative_to(prefix)]
    if not existing:
        raise SandboxError(
            f"the Python in {prefix} has no package folder ({candidates[0]} is missing)", f"mkdir -p {candidates[0]}"
        )
    return existing
