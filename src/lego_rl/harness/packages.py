"""Fetching a harness from the Python package index with uv, into a folder of its own."""

import sys
from pathlib import Path

from uv import find_uv_bin

from lego_rl.errors import HarnessError
from lego_rl.harness.programs import run

FETCH_SECONDS = 3600.0
"""A harness with all its packages is some 300 MB, and networks are slow; what takes longer hangs."""


def fetch(requirements: str, target: Path) -> None:
    """Install exactly the packages named, without their dependencies, into `target`.

    Files are copied, not linked, so that sealing a bundle leaves uv's own cache as it is.

    Args:
        requirements: Lines of the form ``name==version``; everything that is to be there is named.
        target: A folder that becomes importable.

    Raises:
        HarnessError: uv is missing, a package could not be fetched or built, or it took more than `FETCH_SECONDS`.
    """
    command = ["pip", "install", "--quiet", "--no-deps", "--link-mode", "copy", "--python", sys.executable]
    try:
        uv = find_uv_bin()
    except FileNotFoundError as error:
        raise HarnessError("the uv program is missing", "install it into this environment: pip install uv") from error
    result = run(
        [uv, *command, "--target", str(target), "--requirement", "-"],
        timeout=FETCH_SECONDS,
        stdin=requirements,
        slow="check that the package index answers (uv pip install --dry-run ...) and run the command again",
    )
    if result.returncode != 0:
        said = " ".join((result.stdout + result.stderr).split())[-600:]
        raise HarnessError(
            f"uv could not install {requirements.split(maxsplit=1)[0]}: {said}",
            "check that the package index is reachable (uv pip install --dry-run ...) and run the command again",
        )
