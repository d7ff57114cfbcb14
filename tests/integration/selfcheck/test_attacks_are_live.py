"""Every attack that is counted succeeds once its one defence is gone: none of them is a dud."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from weakened import without

from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.selfcheck.attack import Attack, Defence, Kind
from lego_rl.selfcheck.attacks import ATTACKS
from lego_rl.selfcheck.ground import Ground, prepared
from lego_rl.selfcheck.report import Attacked, attacked

PROVEN = [attack for attack in ATTACKS if attack.defence is not None]


def settings(folder: Path) -> SandboxSettings:
    return SandboxSettings(state=folder / "state")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ground(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ground]:
    async with prepared(settings(tmp_path_factory.mktemp("selfcheck"))) as made:
        yield made


async def duds(ground: Ground, defence: Defence, scratch: Path) -> dict[str, str]:
    """Attacks that do not succeed without `defence`, and how they ended."""
    # On the host's network all gateways would listen on one port.
    turns = asyncio.Semaphore(1 if defence is Defence.NETWORK_NAMESPACE else 4)

    async def one(attack: Attack) -> Attacked:
        async with turns:
            return await attacked(ground, attack)

    async with without(defence, ground.host.folder, scratch):
        tried = await asyncio.gather(*(one(attack) for attack in PROVEN if attack.defence is defence))
    assert tried
    return {each.attack.id: each.ended for each in tried if not each.why}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "defence", [each for each in Defence if each is not Defence.HISTORY], ids=lambda d: d.name.lower()
)
async def test_without_one_defence_its_attacks_succeed(ground: Ground, defence: Defence, tmp_path: Path) -> None:
    assert await duds(ground, defence, tmp_path) == {}


async def test_without_the_seal_of_history_the_fix_is_found(tmp_path: Path) -> None:
    async with without(Defence.HISTORY, tmp_path, tmp_path), prepared(settings(tmp_path)) as open_ground:
        assert await duds(open_ground, Defence.HISTORY, tmp_path) == {}


def test_there_are_enough_of_them() -> None:
    assert len(PROVEN) >= 40
    assert min(Counter(attack.kind for attack in PROVEN)[kind] for kind in Kind) >= 3
    assert len({attack.id for attack in ATTACKS}) == len(ATTACKS)
