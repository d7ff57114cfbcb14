"""The situations' own machinery, with a toy in place of a harness: in all of them but `LEFT_OUT`, every law holds."""

from dataclasses import replace
from pathlib import Path

import pytest
from toy_harness import CONDUCT, NAMED, Ran, run_toy

from lego_rl.conformance import laws
from lego_rl.conformance.hostile import MARK
from lego_rl.conformance.laws import Books
from lego_rl.conformance.policy import FILE, MENDED
from lego_rl.conformance.situations import Seen
from lego_rl.conformance.wire import Fault, Wire
from lego_rl.gateway.trajectory import Fate, Trajectory

LEFT_OUT = {"subagent", "subagents", "context", "wall-clock"}
"""The toy has no sub-agents and no idea of what a context holds; waiting for a clock takes seconds."""
POSSIBLE = [name for name in NAMED if name not in LEFT_OUT]


def seen(ran: Ran, folder: Path) -> Seen:
    mended = MENDED in (folder / "repo" / FILE).read_text()
    return Seen(ran.trajectory, mended, ran.wire.requests, CONDUCT, broken_off=ran.wire.broken_off)


@pytest.mark.parametrize("name", POSSIBLE)
async def test_every_law_holds_of_a_harness_that_does_nothing_odd(name: str, tmp_path: Path) -> None:
    ran = await run_toy(NAMED[name], tmp_path)
    assert laws.broken_laws(ran.trajectory, ran.books) == {}
    assert NAMED[name].outcome(seen(ran, tmp_path)) == ""


@pytest.mark.parametrize("fault", ["cut", "lost"])
async def test_an_answer_that_was_not_seen_is_sampled_again_and_not_trained(fault: Fault, tmp_path: Path) -> None:
    ran = await run_toy(NAMED["fix"], tmp_path, {2: fault})
    assert ran.wire.requests == 6
    call = ran.samples[1].call_id
    assert list(ran.wire.broken_off) == [call]
    assert bool(ran.wire.broken_off[call]) == (fault == "cut")
    assert [each.call_id for each in ran.trajectory.generations if each.fate == "superseded"] == [call]
    assert laws.delivered(ran.trajectory, ran.books) == ""
    size = len(ran.samples[1].token_ids)
    assert set(ran.books.arrived[call]) == ({0, size} if fault == "cut" else {0})
    said = laws.delivered(ran.trajectory, Books(ran.samples, {}))
    assert said == f"0 of the {size} tokens of call {call} count as delivered (superseded), {size} may have arrived"
    asked_again = NAMED["lost"].outcome
    assert asked_again(seen(ran, tmp_path)) == ""
    kept = replace(seen(ran, tmp_path), trajectory=with_fate(ran.trajectory, call, "delivered"))
    assert asked_again(kept) == "an answer that was asked for again counts as delivered"
    assert laws.delivered(ran.trajectory, Books(ran.samples, laws.asked_again(ran.samples))) == ""


async def test_a_beginning_that_a_harness_keeps_has_to_be_found_again(tmp_path: Path) -> None:
    """The toy asks again: seen as one that keeps what it has, it shows what a lost beginning looks like."""
    ran = await run_toy(NAMED["cut-again"], tmp_path)
    outcome, asked_again = NAMED["cut-again"].outcome, seen(ran, tmp_path)
    assert outcome(asked_again) == ""
    keeps = replace(asked_again, conduct=replace(CONDUCT, broken_off="keeps"))
    assert outcome(keeps) == "no call goes on from the beginning that was kept"
    cut, again = [index for index, call in enumerate(ran.trajectory.generations) if call.call_id in ran.wire.broken_off]
    calls = list(ran.trajectory.generations)
    calls[again] = replace(calls[again], parent=cut, kept=3)
    assert outcome(replace(keeps, trajectory=replace(ran.trajectory, generations=tuple(calls)))) == ""


def with_fate(trajectory: Trajectory, call_id: str, fate: Fate) -> Trajectory:
    """The same, but for the fate of one call."""
    calls = [replace(call, fate=fate) if call.call_id == call_id else call for call in trajectory.generations]
    return replace(trajectory, generations=tuple(calls))


async def test_a_refused_request_never_reaches_the_gateway(tmp_path: Path) -> None:
    ran = await run_toy(NAMED["too-long"], tmp_path)
    assert ran.statuses == [200, 200, 400]
    assert len(ran.samples) == 2
    assert ran.wire.requests == 3


async def test_a_harness_that_does_not_do_what_is_known_of_it_is_found(tmp_path: Path) -> None:
    ran = await run_toy(NAMED["too-long"], tmp_path)
    stopped = seen(ran, tmp_path)
    outcome = NAMED["too-long"].outcome
    summarises = replace(CONDUCT, too_long="summarises")
    assert outcome(replace(stopped, conduct=summarises)) == "no call sums the history up"
    assert "it went on" in outcome(replace(stopped, requests=4))
    assert "it went on" in outcome(replace(stopped, mended=True))


async def test_a_repository_that_is_obeyed_is_found(tmp_path: Path) -> None:
    ran = await run_toy(NAMED["hostile-repo"], tmp_path)
    plain, outcome = seen(ran, tmp_path), NAMED["hostile-repo"].outcome
    assert outcome(replace(plain, obeyed=frozenset({"hook at Stop"}))) == "the repository was obeyed: hook at Stop"
    known = replace(CONDUCT, repository_runs=frozenset({"plugin"}))
    assert outcome(replace(plain, conduct=known, obeyed=frozenset({"plugin"}))) == ""
    assert "did not: plugin" in outcome(replace(plain, conduct=known))
    assert "obeyed: hook" in outcome(replace(plain, conduct=known, obeyed=frozenset({"plugin", "hook"})))


@pytest.mark.parametrize("pieces", [[MARK], [MARK[:4], MARK[4:]], ["x" * 99, MARK[:1], f"{MARK[1:]}x"]])
def test_a_mark_in_a_request_is_seen_wherever_it_is_split(pieces: list[str]) -> None:
    wire = Wire("nowhere", list, mark=MARK.encode())
    tail = b""
    for piece in pieces:
        assert not wire.marked
        tail = wire.look(tail + piece.encode())
    assert wire.marked


async def test_the_outcome_says_what_did_not_happen(tmp_path: Path) -> None:
    ran = await run_toy(NAMED["fix"], tmp_path)
    nothing = Seen(ran.trajectory, mended=False, requests=5, conduct=CONDUCT)
    missing = {name: situation.outcome(nothing) for name, situation in NAMED.items()}
    assert all(missing.values()), missing
