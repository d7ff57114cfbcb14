"""The situations' own machinery, with a toy in place of a harness: every fault happens, and every law holds."""

from pathlib import Path

import pytest
from toy_harness import NAMED, run_toy

from lego_rl.conformance import laws
from lego_rl.conformance.policy import FILE, MENDED
from lego_rl.conformance.situations import Seen

POSSIBLE = ["fix", "malformed", "unknown-tool", "unavailable", "cut", "lost", "turns"]


@pytest.mark.parametrize("name", POSSIBLE)
async def test_every_law_holds_of_a_harness_that_does_nothing_odd(name: str, tmp_path: Path) -> None:
    situation = NAMED[name]
    ran = await run_toy(situation, tmp_path)
    mended = MENDED in (tmp_path / "repo" / FILE).read_text()
    assert laws.exact(ran.trajectory, ran.samples) == ""
    assert laws.accounted(ran.trajectory, ran.samples) == ""
    assert laws.delivered(ran.trajectory, situation.unseen) == ""
    assert situation.outcome(Seen(ran.trajectory, mended, ran.wire.requests)) == ""


@pytest.mark.parametrize("fault", ["cut", "lost"])
async def test_an_answer_that_was_not_seen_is_sampled_again_and_not_trained(fault: str, tmp_path: Path) -> None:
    ran = await run_toy(NAMED["fix"], tmp_path, {2: fault})  # type: ignore[dict-item]
    assert ran.wire.requests == 6
    assert [call.fate for call in ran.trajectory.generations].count("superseded") == 1
    assert laws.delivered(ran.trajectory, ()) != ""
    assert laws.delivered(ran.trajectory, ("superseded",)) == ""


async def test_a_refused_request_never_reaches_the_gateway(tmp_path: Path) -> None:
    ran = await run_toy(NAMED["too-long"], tmp_path)
    assert ran.statuses == [200, 200, 200, 400]
    assert len(ran.samples) == 3
    assert ran.wire.requests == 4


async def test_the_outcome_says_what_did_not_happen(tmp_path: Path) -> None:
    ran = await run_toy(NAMED["fix"], tmp_path)
    seen = Seen(ran.trajectory, mended=False, requests=5)
    missing = {name: situation.outcome(seen) for name, situation in NAMED.items() if name != "too-long"}
    assert all(missing.values()), missing
