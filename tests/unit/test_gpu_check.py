"""The check of a GPU, at a tiny size on the CPU: every part runs and its figures are what they are called."""

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_check.sh"


def run(python: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHON": python, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [SCRIPT, "--size", "tiny", "--device", "cpu", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_reports_fidelity_speed_and_memory() -> None:
    done = run(sys.executable)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["gate"] == "passed"
    assert report["fidelity"]["pearson_logprobs"] > 0.999
    assert report["fidelity"]["route_coverage"] == 1
    assert report["fidelity"]["k3"] < 2e-3
    assert 0.9 < report["pearson_without_replay"] <= 1
    assert report["long_tokens"] == 319
    assert report["long_mean_abs"] < 0.04
    assert set(report["seconds"]) == set(report["peak_memory_gib"])
    assert len(report["seconds"]) == 5


def test_a_python_that_lacks_something_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    done = run(str(python))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[1].startswith("  fix: PYTHON=")
