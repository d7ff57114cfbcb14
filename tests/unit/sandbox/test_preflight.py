"""What is missing on a machine is named with the one command that mends it."""

from pathlib import Path

import pytest

from lego_rl.errors import SandboxError
from lego_rl.sandbox.bubblewrap import preflight


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_no_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError) as caught:
        preflight.check_machine()
    assert caught.value.problem == "bubblewrap is not installed"
    assert caught.value.fix == "run: apt-get install bubblewrap"


def test_no_user_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "bwrap", "echo 'No permissions to create new namespace' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SandboxError, match="does not work here: No permissions to create new namespace") as caught:
        preflight.check_machine()
    assert "user namespaces" in caught.value.fix


def test_a_kernel_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "OLDEST_KERNEL", (99, 0))
    with pytest.raises(SandboxError, match=r"need Linux 99\.0 or later, and this is ") as caught:
        preflight.check_machine()
    assert caught.value.fix.startswith("install a newer kernel (apt-get install ")


def test_this_machine_can() -> None:
    preflight.check_machine()
