"""Bundles of harnesses that are Python packages: the packages beside a Python of their own.

Invariant: what is built needs nothing of the host but glibc, and its byte code is valid wherever it is mounted and
whatever its files' times are.

    bin/python, lib/             see `lego_rl.harness.runtime`
    site-packages/               exactly the packages of a pins file
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files as resources
from pathlib import Path

from lego_rl.errors import HarnessError
from lego_rl.harness import packages, runtime
from lego_rl.harness.programs import run

COMPILE_SECONDS = 1800.0
CHECK_SECONDS = 300.0


@dataclass(frozen=True)
class PythonBundle:
    """How one such bundle is made.

    Attributes:
        name: Registry name of the harness, which its pins file has too.
        title: What people call it.
        version: What the check has to print.
        check: Program that imports the harness and prints its version as the last word; ``sys.path`` is set.
        env: Environment of the check.
        layout: Changes when the same pins would give other files.
    """

    name: str
    title: str
    version: str
    check: str
    env: Mapping[str, str] = field(default_factory=dict)
    layout: str = "layout 4"

    @property
    def pins(self) -> str:
        """Lines ``package==version``."""
        return (resources("lego_rl.harness") / "pins" / f"{self.name}.txt").read_text(encoding="utf-8")

    @property
    def digest(self) -> str:
        """Of everything the bundle is built from."""
        built_from = "\n".join((self.layout, runtime.version(), self.pins))
        return hashlib.sha256(built_from.encode()).hexdigest()

    def build(self, files: Path) -> None:
        """Fill an empty folder.

        Raises:
            HarnessError: A package cannot be fetched, or the result does not start or is of another version.
        """
        python = runtime.copy(files)
        site_packages = files / "site-packages"
        packages.fetch(self.pins, site_packages)
        # Start scripts with the absolute path of the installing Python in them.
        shutil.rmtree(site_packages / "bin", ignore_errors=True)
        runtime.add_libraries(files)
        _compile(python, files)
        self._check(python, files)

    def _check(self, python: Path, files: Path) -> None:
        program = f"import sys; sys.path.append(sys.argv[1]); {self.check}"
        with tempfile.TemporaryDirectory() as home:
            result = run(
                [python, "-I", "-S", "-B", "-c", program, files / "site-packages"],
                timeout=CHECK_SECONDS,
                env={**_environment(files), "HOME": home, "PATH": os.defpath, **self.env},
                cwd=home,
            )
        if result.returncode != 0 or result.stdout.split()[-1:] != [self.version]:
            said = " ".join((result.stdout + result.stderr).split())[-600:]
            raise HarnessError(
                f"{self.title} {self.version} does not start here: {said}", "report this with your Python"
            )


def _compile(python: Path, files: Path) -> None:
    """Write byte code that is valid whatever the time stamps: the import takes a third of the time with it.

    A few files are templates for other Python versions and do not compile, which is no error.
    """
    command = [str(python), "-PSBm", "compileall", "-qq", "--invalidation-mode", "unchecked-hash"]
    command += ["-s", str(files), "-p", "/opt/harness", str(files)]
    # One process and one hash seed: byte code depends on the order of set constants and on what was compiled before.
    environment = {**_environment(files), "PYTHONHASHSEED": "0"}
    run(command, timeout=COMPILE_SECONDS, env=environment)


def _environment(files: Path) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": str(files / "lib")}
