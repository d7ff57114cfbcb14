"""Programs that an installation runs: a missing one and one that hangs are said in two lines."""

import time
from pathlib import Path

import pytest

from lego_rl.errors import HarnessError
from lego_rl.harness import packages, runtime
from lego_rl.harness.programs import run


def test_its_output_and_its_status() -> None:
    done = run(["sh", "-c", "cat; echo no >&2; exit 3"], timeout=60, stdin="yes")
    assert (done.returncode, done.stdout, done.stderr) == (3, "yes", "no\n")


def test_one_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    with pytest.raises(HarnessError, match="cannot start ldd") as raised:
        runtime.add_libraries(tmp_path)
    assert "install" in raised.value.fix


def test_one_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = tmp_path / "uv"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(packages, "find_uv_bin", lambda: str(hanging))
    monkeypatch.setattr(packages, "FETCH_SECONDS", 0.2)
    started = time.monotonic()
    with pytest.raises(HarnessError, match="uv did not end within") as raised:
        packages.fetch("alpha==1.0", tmp_path / "target")
    assert time.monotonic() - started < 30
    assert "package index" in raised.value.fix
