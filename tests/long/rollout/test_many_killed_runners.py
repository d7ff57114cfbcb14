"""``kill -9`` of the runner at thirty random moments, with eight trials in flight."""

from pathlib import Path

import pytest

from lego_rl.sandbox.docker.preflight import engine_of
from tests.killed_runner import killed_at_random
from tests.leftovers_in_docker import InDocker

MOMENTS = 30


@pytest.mark.timeout(1800)
def test_nothing_is_left_of_thirty_killed_runners(tmp_path: Path) -> None:
    killed_at_random(tmp_path, MOMENTS)


@pytest.mark.timeout(3600)
def test_nothing_is_left_of_thirty_killed_runners_in_docker(tmp_path: Path, docker_host: str) -> None:
    docker = InDocker(engine_of(docker_host))
    killed_at_random(tmp_path, MOMENTS, docker, environment="docker", docker={"host": docker_host})
