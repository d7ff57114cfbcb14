"""Every attack that is counted succeeds once its one defence is gone; in containers, the long tests show it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from live import check, check_history, one_after_the_other

from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.selfcheck.attack import Defence
from lego_rl.selfcheck.ground import Ground, prepared


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ground(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ground]:
    async with prepared(SandboxSettings(state=tmp_path_factory.mktemp("selfcheck") / "state")) as made:
        yield made


@pytest.mark.asyncio(loop_scope="module")
@one_after_the_other
async def test_without_one_defence_its_attacks_succeed(ground: Ground, defence: Defence, tmp_path: Path) -> None:
    await check(ground, defence, tmp_path)


async def test_without_the_seal_of_history_the_fix_is_found(tmp_path: Path) -> None:
    await check_history(SandboxSettings(), tmp_path)
