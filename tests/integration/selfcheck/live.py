"""Taking one defence away, and seeing that each of its attacks then succeeds: none of them is a dud."""

import asyncio
from pathlib import Path

import pytest
from weakened import is_taken_away, without

from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.selfcheck.attack import Attack, Defence
from lego_rl.selfcheck.attacks import ATTACKS
from lego_rl.selfcheck.ground import Ground, prepared
from lego_rl.selfcheck.suite import Attacked, attacked

one_after_the_other = pytest.mark.parametrize(
    "defence", [each for each in Defence if each is not Defence.HISTORY], ids=lambda each: each.name.lower()
)
"""Every defence but that of the history, which is in the image of the task."""


def shown(defence: Defence, environment: str) -> list[Attack]:
    """Attacks that hang on a defence, and are shown to succeed without it here."""
    return [attack for attack in ATTACKS if attack.defence is defence and attack.is_shown_on(environment)]


async def check(ground: Ground, defence: Defence, scratch: Path) -> None:
    """See that all attacks that hang on a defence succeed without it."""
    environment = ground.runtime.sandbox.environment
    if not shown(defence, environment):
        assert not is_taken_away(defence, environment), "its attacks could be shown here"
        return
    # On the host's network all gateways would listen on one port.
    turns = asyncio.Semaphore(1 if defence is Defence.NETWORK_NAMESPACE else 4)

    async def one(attack: Attack) -> Attacked:
        async with turns:
            return await attacked(ground, attack)

    async with without(defence, ground.host.folder, scratch, environment):
        tried = await asyncio.gather(*(one(attack) for attack in shown(defence, environment)))
    assert {each.attack.id: each.ended for each in tried if not each.why} == {}, "they do not succeed"


async def check_history(settings: SandboxSettings, folder: Path) -> None:
    """The same of the history."""
    own = settings.model_copy(update={"state": folder / "state"})
    async with without(Defence.HISTORY, folder, folder, own.environment), prepared(own) as ground:
        tried = [await attacked(ground, attack) for attack in shown(Defence.HISTORY, own.environment)]
    assert [each.attack.id for each in tried if not each.why] == []
