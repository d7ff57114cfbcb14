"""Sandboxes of a tiny task, in every environment. All files are below the tests' own temporary folders."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from sandbox_tools import DOCKERFILE, HIDDEN, REPOSITORY, SPEC, TASK_TOML, write_files

from lego_rl.sandbox.bubblewrap.image import BubblewrapImage
from lego_rl.sandbox.bubblewrap.provider import BubblewrapProvider
from lego_rl.sandbox.docker.image import DockerImage
from lego_rl.sandbox.docker.preflight import engine_of
from lego_rl.sandbox.docker.provider import DockerProvider
from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.outside_user import owner_uid
from lego_rl.sandbox.provider import Provider, TaskImage
from lego_rl.sandbox.sandbox import Phase, Sandbox
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import State
from lego_rl.sandbox.toolchain import Toolchain, prepare_toolchain
from lego_rl.tasks.task import Task


@pytest.fixture(scope="session")
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    return State(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def toolchain(state: State) -> Toolchain:
    return prepare_toolchain(state)


@pytest.fixture(scope="session", params=["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)])
def settings(request: pytest.FixtureRequest, state: State) -> SandboxSettings:
    """Of each environment, in turn."""
    docker = {"host": request.getfixturevalue("docker_host")} if request.param == "docker" else {}
    return SandboxSettings(environment=request.param, state=state.root, docker=docker)


@pytest.fixture(scope="session")
def provider(settings: SandboxSettings) -> Provider:
    return provider_of(settings)


@pytest.fixture(scope="session")
def uid(settings: SandboxSettings) -> int:
    """Who an agent is inside."""
    return 1000 if settings.environment == "bubblewrap" else owner_uid()


@pytest.fixture(scope="session")
def task_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tasks") / "hand-made-0"
    write_files(root / "environment" / "repo", REPOSITORY)
    write_files(root / "tests" / "files", HIDDEN)
    write_files(root, {"task.toml": TASK_TOML, "instruction.md": "add() subtracts.\n"})
    write_files(root, {"tests/spec.json": json.dumps(SPEC), "environment/Dockerfile": DOCKERFILE})
    write_files(root, {"tests/test.sh": "#!/bin/sh\nexit 1\n"})
    return root


@pytest.fixture(scope="session")
def task(task_dir: Path) -> Task:
    return Task.load(task_dir)


@pytest.fixture(scope="session")
def image(task_dir: Path, provider: Provider) -> TaskImage:
    return provider.prepare(task_dir / "environment", workdir="/app")


@pytest.fixture(scope="session")
def bubblewrapped(task_dir: Path, state: State) -> BubblewrapImage:
    """The same, for what only bubblewrap has."""
    return BubblewrapProvider(state).prepare(task_dir / "environment", workdir="/app")


@pytest.fixture(scope="session")
def contained(task_dir: Path, state: State, docker_host: str) -> DockerImage:
    """The same, for what only Docker has."""
    return DockerProvider(state, engine_of(docker_host)).prepare(task_dir / "environment", workdir="/app")


@pytest_asyncio.fixture
async def box(image: TaskImage) -> AsyncIterator[Sandbox]:
    sandbox = await image.start(Phase.AGENT, limits=Limits(memory_mb=512, processes=64, disk_mb=64))
    yield sandbox
    await sandbox.close()
