"""A real cluster for the tests of a session, and a tiny task on it."""

import json
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).parents[2] / "integration" / "sandbox"))

from kube_cluster import Cluster
from kube_policies import PolicyAgent
from kube_tools import LIMITS, documented_role, settings_for
from sandbox_tools import DOCKERFILE, HIDDEN, REPOSITORY, SPEC, TASK_TOML, write_files

from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.kubernetes.image import KubernetesImage
from lego_rl.sandbox.kubernetes.pod import PodSandbox
from lego_rl.sandbox.kubernetes.provider import KubernetesProvider
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.tasks.task import Task


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("kubernetes")
    running = Cluster.start(folder)
    try:
        access = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        running.ask("POST", f"{access}/roles", documented_role())
        binding = {
            "metadata": {"name": "runner"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "lego-rl"},
            "subjects": [{"kind": "User", "name": "runner", "apiGroup": "rbac.authorization.k8s.io"}],
        }
        running.ask("POST", f"{access}/rolebindings", binding)
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def policies(cluster: Cluster) -> Iterator[PolicyAgent]:
    agent = PolicyAgent(cluster)
    yield agent
    agent.stop()


@pytest.fixture(scope="session")
def settings(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> SandboxSettings:
    return settings_for(cluster, tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def provider(settings: SandboxSettings, policies: PolicyAgent) -> KubernetesProvider:
    found = provider_of(settings)
    assert isinstance(found, KubernetesProvider)
    return found


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
def image(task_dir: Path, provider: KubernetesProvider) -> KubernetesImage:
    return provider.prepare(task_dir / "environment", workdir="/app")


@pytest_asyncio.fixture
async def box(image: KubernetesImage) -> AsyncIterator[PodSandbox]:
    sandbox = await image.start(Phase.AGENT, limits=LIMITS)
    yield sandbox
    await sandbox.close()
