"""Property tests draw the same cases in every run, however slow the machine is; and a daemon for whoever needs one."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

DOCKERD = Path(__file__).parents[1] / "scripts" / "dockerd.sh"

settings.register_profile(
    "same-every-run",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("same-every-run")


@pytest.fixture(scope="session")
def docker_host() -> Iterator[str]:
    """A daemon of the tests' own, or the machine's where one runs; without Docker its script says how to get it."""
    folder = tempfile.mkdtemp(prefix="lego-dockerd-")
    started = subprocess.run([DOCKERD, "start", folder], capture_output=True, text=True, check=False)
    assert started.returncode == 0, started.stderr
    yield started.stdout.strip().partition("DOCKER_HOST=")[2]
    subprocess.run([DOCKERD, "stop", folder], capture_output=True, check=True)
    shutil.rmtree(folder)
