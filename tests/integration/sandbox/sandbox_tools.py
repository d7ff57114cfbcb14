"""A tiny task made by hand, and what tests do with sandboxes."""

import _ctypes
import asyncio
import pyexpat
import shutil
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from lego_rl.sandbox.sandbox import Completed, Sandbox

REPOSITORY = {
    "calc/__init__.py": "from calc.core import add\n",
    "calc/core.py": "def add(a, b):\n    return a - b\n",
    "calc/data.txt": "one\n",
    "tests/test_visible.py": "from calc import add\n\n\ndef test_zero():\n    assert add(0, 0) == 0\n",
    "setup.cfg": "[tool:pytest]\naddopts = -q\n",
    "run.sh": "#!/bin/sh\necho run\n",
}
HIDDEN = {
    "tests/test_visible.py": REPOSITORY["tests/test_visible.py"],
    "tests/test_hidden.py": "from calc import add\n\n\nclass TestAdd:\n    def test_sum(self):\n"
    "        assert add(2, 3) == 5\n",
}
FIXED = "def add(a, b):\n    return a + b\n"
SPEC = {
    "FAIL_TO_PASS": ["tests/test_hidden.py::TestAdd::test_sum"],
    "PASS_TO_PASS": ["tests/test_visible.py::test_zero"],
    "command": "python -m pytest --junitxml=$LEGO_REPORT tests",
    "parser": "pytest-junit",
    "test_files": sorted(HIDDEN),
}
TASK_TOML = """schema_version = "1.4"
[metadata]
family = "hand-made"
grader = "tests"
[agent]
timeout_sec = 60.0
[verifier]
timeout_sec = 60.0
[environment]
network_mode = "no-network"
memory_mb = 512
workdir = "/app"
"""
DOCKERFILE = "FROM python:3.12-slim\nWORKDIR /app\nENV COLOUR=blue\nCOPY repo/ /app/\n"


def write_files(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    if (script := root / "run.sh").exists():
        script.chmod(0o755)


async def shell(box: Sandbox, script: str, **options: Any) -> Completed:
    """Run a script inside."""
    return await box.exec(["bash", "-c", script], **options)


async def under_way(box: Sandbox, script: str) -> asyncio.Task[Completed]:
    """A script inside that has begun."""
    begun = asyncio.Event()

    async def hear(*_: object) -> None:
        begun.set()

    running = asyncio.create_task(box.exec(["bash", "-c", f"echo begun; {script}"], sink=hear))
    await asyncio.wait_for(begun.wait(), 30)
    return running


async def python(box: Sandbox, code: str, **options: Any) -> Completed:
    """Run Python code inside."""
    return await box.exec(["python3", "-c", code], **options)


def processes_named(marker: str) -> list[int]:
    """Host ids of the processes whose command line holds `marker`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


PROGRAMS = ("bash", "sh", "cat", "ls", "sed", "touch", "rm", "mkdir", "ln", "chmod", "stat", "head", "sleep")


def least_root(root: Path) -> Path:
    """Fill a folder with the least that a shell and Python need, copied from this machine."""
    programs = [path for name in PROGRAMS if (path := shutil.which(name))]
    extensions = [module.__file__ for module in (_ctypes, pyexpat, zlib) if hasattr(module, "__file__")]
    wanted = {*programs, *_libraries_of([*programs, sys.executable, *extensions])}
    for name in ("usr/bin", "usr/lib", "usr/lib64", "etc", "opt", "app"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("bin", "lib", "lib64"):
        if Path("/", name).is_symlink():
            (root / name).symlink_to(Path("/", name).readlink())
    for name in sorted(wanted):
        if not name.startswith(sys.base_prefix):
            copy = root / name.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, copy)
    (root / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    return root


def _libraries_of(programs: list[str]) -> set[str]:
    listing = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    return {word for word in listing.split() if word.startswith("/") and not word.endswith(":")}
