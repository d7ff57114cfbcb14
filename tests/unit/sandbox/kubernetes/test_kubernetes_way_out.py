"""How long a pod waits for its policies: by the kinds of what is open, not by its words."""

import pytest

from lego_rl.errors import SandboxError
from lego_rl.sandbox.hole import Hole, HoleKind
from lego_rl.sandbox.kubernetes import way_out
from lego_rl.sandbox.kubernetes.way_out import settled_holes


class Pod:
    """Shows one list of holes after the other; the last one stays."""

    def __init__(self, *shown: list[Hole], reaches: bool = True) -> None:
        self.shown = list(shown)
        self.looks = 0
        self.reaches = reaches

    async def look(self) -> list[Hole]:
        self.looks += 1
        return self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]

    async def reaches_gateway(self) -> bool:
        return self.reaches


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(way_out, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(way_out, "SETTLE_SECONDS", 0.3)


async def holes(pod: Pod) -> list[Hole]:
    return await settled_holes(pod.look, pod.reaches_gateway, "10.0.0.1")


@pytest.mark.parametrize("kind", list(HoleKind))
async def test_only_what_policies_hold_is_waited_for(kind: HoleKind) -> None:
    hole = Hole(kind, "it answers, whatever it is")
    pod = Pod([hole], [hole], [])
    waits = kind in (HoleKind.REACHED, HoleKind.NAME)
    assert await holes(pod) == ([] if waits else [hole])
    assert pod.looks == (3 if waits else 1)


async def test_what_stays_open_is_a_hole() -> None:
    hole = Hole(HoleKind.NAME, "the name example.com resolves to 192.0.2.1")
    pod = Pod([hole])
    assert await holes(pod) == [hole]
    assert pod.looks > 3


async def test_a_gateway_that_is_not_reached_is_an_error() -> None:
    with pytest.raises(SandboxError, match=r"pods cannot reach this machine at 10\.0\.0\.1; set sandbox\.kubernetes"):
        await holes(Pod([], reaches=False))
