"""Every attack that is counted on Docker succeeds in a container once its one defence is gone."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).parents[2] / "integration" / "selfcheck"))

from live import check, check_history, one_after_the_other

from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.selfcheck.attack import Defence
from lego_rl.selfcheck.ground import Ground, prepared


@pytest.fixture(scope="module")
def settings(docker_host: str) -> SandboxSettings:
    return SandboxSettings.model_validate({"environment": "docker", "docker": {"host": docker_host}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ground(settings: SandboxSettings, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ground]:
    own = {"state": tmp_path_factory.mktemp("selfcheck") / "state"}
    async with prepared(settings.model_copy(update=own)) as made:
        yield made


@pytest.mark.asyncio(loop_scope="module")
@one_after_the_other
async def test_without_one_defence_its_attacks_succeed(ground: Ground, defence: Defence, tmp_path: Path) -> None:
    await check(ground, defence, tmp_path)


async def test_without_the_seal_of_history_the_fix_is_found(settings: SandboxSettings, tmp_path: Path) -> None:
    await check_history(settings, tmp_path)
