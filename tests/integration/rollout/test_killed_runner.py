"""``kill -9`` of the runner with eight trials in flight: the next start finds all of it, and touches nothing else."""

from pathlib import Path

import pytest

from lego_rl.sandbox.docker.preflight import engine_of
from tests.killed_runner import killed_at_random
from tests.leftovers_in_docker import InDocker

MOMENTS = 5
"""The long tests, which have the time, have thirty."""
MOMENTS_IN_DOCKER = 3


def test_nothing_is_left_of_a_killed_runner(tmp_path: Path) -> None:
    killed_at_random(tmp_path, MOMENTS)


@pytest.mark.docker
@pytest.mark.timeout(600)
def test_nothing_is_left_of_a_killed_runner_in_docker(tmp_path: Path, docker_host: str) -> None:
    docker = InDocker(engine_of(docker_host))
    killed_at_random(tmp_path, MOMENTS_IN_DOCKER, docker, environment="docker", docker={"host": docker_host})
