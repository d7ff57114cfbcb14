"""What a `SealError` says to do fits what is open."""

from pathlib import Path
from typing import cast

import pytest

from lego_rl.sandbox.git.manifest import HistorySeal
from lego_rl.sandbox.hole import Hole, HoleKind
from lego_rl.sandbox.kubernetes.pod import NETWORK_ADVICE
from lego_rl.sandbox.sandbox import Sandbox
from lego_rl.sandbox.seal import BUG, SealError, verify_seal
from lego_rl.sandbox.seal_request import SealRequest, Surroundings


class Opened:
    """A sandbox with holes."""

    image = type("Image", (), {"pristine": Path("/nowhere"), "workdir": "/app", "history": HistorySeal()})

    def __init__(self, *kinds: HoleKind) -> None:
        self.kinds = kinds
        self.surroundings = Surroundings(network_advice=NETWORK_ADVICE)

    async def holes(self, _: SealRequest) -> list[Hole]:
        return [Hole(kind, f"a {kind} is open") for kind in self.kinds]


async def advice(*kinds: HoleKind) -> str:
    with pytest.raises(SealError) as caught:
        await verify_seal(cast("Sandbox", Opened(*kinds)), None)
    assert all(f"a {kind} is open" in caught.value.problem for kind in kinds)
    return str(caught.value).removeprefix(caught.value.problem)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (HoleKind.HIDDEN, "remove the path from environment/"),
        (HoleKind.SHOWN, "visible of [metadata]"),
        (HoleKind.STRAY, "remove it from the image"),
        (HoleKind.KEY, "remove the variable"),
        (HoleKind.REACHED, "enforces NetworkPolicy"),
        (HoleKind.NAME, "enforces NetworkPolicy"),
        (HoleKind.INTERFACE, "enforces NetworkPolicy"),
        (HoleKind.GIT, BUG),
        (HoleKind.SOCKET, BUG),
        (HoleKind.KERNEL, BUG),
    ],
)
async def test_each_kind_has_its_own(kind: HoleKind, words: str) -> None:
    said = await advice(kind)
    assert words in said
    assert (BUG in said) == (words == BUG)
    assert "\n" not in said.strip()


async def test_all_of_them_are_said_once() -> None:
    said = await advice(HoleKind.STRAY, HoleKind.KERNEL, HoleKind.STRAY)
    assert said.count("remove it from the image") == said.count(BUG) == 1
