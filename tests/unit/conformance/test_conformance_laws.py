"""A law that is broken is seen to be broken."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_harness import NAMED, Ran, run_toy

from lego_rl.conformance import laws
from lego_rl.conformance.laws import Books, Law
from lego_rl.engine.protocol import WeightSpan
from lego_rl.gateway.trajectory import Generation, Segment, Trajectory


@pytest.fixture
async def ran(tmp_path: Path) -> Ran:
    return await run_toy(NAMED["fix"], tmp_path)


def altered(trajectory: Trajectory, change: Callable[[Segment], Segment]) -> Trajectory:
    return replace(trajectory, segments=tuple(map(change, trajectory.segments)))


def other_id(segment: Segment) -> Segment:
    ids = segment.token_ids.copy()
    ids[np.flatnonzero(segment.loss_mask)[-1]] += 1
    return replace(segment, token_ids=ids)


def other_prompt(segment: Segment) -> Segment:
    ids = segment.token_ids.copy()
    ids[0] += 1
    return replace(segment, token_ids=ids)


def other_logprob(segment: Segment) -> Segment:
    logprobs = segment.logprobs.copy()
    logprobs[np.flatnonzero(segment.loss_mask)[0]] -= 0.5
    return replace(segment, logprobs=logprobs)


def other_version(segment: Segment) -> Segment:
    versions = segment.versions.copy()
    versions[np.flatnonzero(segment.loss_mask)[3]] += 1
    return replace(segment, versions=versions)


def other_route(segment: Segment) -> Segment:
    assert segment.routes is not None
    routes = segment.routes.copy()
    routes[7] = (routes[7] + 1) % 8
    return replace(segment, routes=routes)


def context_with_a_logprob(segment: Segment) -> Segment:
    logprobs = segment.logprobs.copy()
    logprobs[0] = -0.5
    return replace(segment, logprobs=logprobs)


def context_with_a_version(segment: Segment) -> Segment:
    versions = segment.versions.copy()
    versions[0] = 1
    return replace(segment, versions=versions)


def untrained(segment: Segment) -> Segment:
    nothing = np.full_like(segment.versions, -1)
    return replace(
        segment,
        loss_mask=np.zeros_like(segment.loss_mask),
        logprobs=np.zeros_like(segment.logprobs),
        versions=nothing,
        call_ids=nothing,
        call_positions=nothing,
    )


def junk(segment: Segment) -> Segment:
    mask = segment.loss_mask.copy()
    mask[0] = 1
    return replace(segment, loss_mask=mask)


def unknown_call(segment: Segment) -> Segment:
    return replace(segment, calls=("nobody's", *segment.calls[1:]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (other_id, "not those sampled"),
        (other_prompt, "do not stand after the prompt"),
        (other_logprob, "not those recorded"),
        (junk, "names no call"),
        (unknown_call, "was never answered"),
        (other_version, "weight versions"),
        (other_route, "routes of position 7"),
        (lambda segment: replace(segment, routes=None), "routes are missing"),
        (lambda segment: replace(segment, routes_recorded=segment.routes_recorded - 1), "routes cover 0."),
        (context_with_a_logprob, "context has a log-prob"),
        (context_with_a_version, "context names a call"),
        (untrained, "nothing in it is trained"),
    ],
)
async def test_a_wrong_token_is_found(ran: Ran, change: Callable[[Segment], Segment], said: str) -> None:
    assert laws.exact(ran.trajectory, ran.books) == ""
    assert said in laws.exact(altered(ran.trajectory, change), ran.books)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda call: replace(call, context_ids=call.context_ids[:-1]), "its prompt is not"),
        (lambda call: replace(call, token_ids=call.token_ids[::-1]), "its tokens are not"),
        (lambda call: replace(call, logprobs=call.logprobs * 2), "its log-probs are not"),
        (lambda call: replace(call, weight_versions=(WeightSpan(2, 0, len(call.token_ids)),)), "its weight versions"),
        (lambda call: replace(call, call_id="nobody's"), "call nobody's: it was never answered"),
    ],
)
async def test_a_call_that_is_not_as_it_was_made_is_found(
    ran: Ran, change: Callable[[Generation], Generation], said: str
) -> None:
    *before, last = ran.trajectory.generations
    assert said in laws.exact(replace(ran.trajectory, generations=(*before, change(last))), ran.books)


async def test_a_token_trained_twice_is_found(ran: Ran) -> None:
    twice = replace(ran.trajectory, segments=ran.trajectory.segments * 2)
    assert "trained twice" in laws.exact(twice, ran.books)


async def test_a_call_that_was_not_captured_is_found(ran: Ran) -> None:
    fewer = replace(ran.trajectory, generations=ran.trajectory.generations[:-1])
    assert "4 are captured" in laws.accounted(fewer, ran.books)


@pytest.mark.parametrize("count", ["calls", "sampled_tokens", "delivered_tokens", "trainable_tokens"])
async def test_a_count_that_is_off_is_found(ran: Ran, count: str) -> None:
    counts = ran.trajectory.accounting
    off = replace(counts, **{count: getattr(counts, count) - 1})
    assert "are counted, not" in laws.accounted(replace(ran.trajectory, accounting=off), ran.books)


async def test_reasons_that_do_not_add_up_are_found(ran: Ran) -> None:
    off = replace(ran.trajectory.accounting, excluded={"superseded": 1})
    assert "are not" in laws.accounted(replace(ran.trajectory, accounting=off), ran.books)


async def test_a_call_that_the_harness_saw_and_that_is_left_out_is_found(ran: Ran) -> None:
    """Its tokens are excluded for a reason that there is, and everything adds up."""
    *before, last = ran.trajectory.generations
    size = len(last.token_ids)
    (segment,) = ran.trajectory.segments
    kept = len(segment.token_ids) - size
    counts = ran.trajectory.accounting
    short = replace(
        ran.trajectory,
        generations=(*before, replace(last, fate="superseded")),
        segments=(shortened(segment, kept),),
        accounting=replace(
            counts,
            delivered_tokens=counts.delivered_tokens - size,
            trainable_tokens=counts.trainable_tokens - size,
            excluded={"superseded": size},
        ),
    )
    assert laws.exact(short, ran.books) == ""
    assert laws.accounted(short, ran.books) == ""
    assert f"0 of the {size} tokens of call {last.call_id} count as delivered" in laws.delivered(short, ran.books)
    assert laws.delivered(short, Books(ran.samples, {last.call_id: range(1)})) == ""
    assert set(laws.broken_laws(short, ran.books)) == {Law.DELIVERED}


async def test_a_role_decides_what_trains(ran: Ran) -> None:
    assert laws.delivered(ran.trajectory, ran.books) == ""
    said = laws.delivered(ran.trajectory, replace(ran.books, train_roles=("title",)))
    assert "are trained, not its first 0" in said
    titles = tuple(replace(call, role="title") for call in ran.trajectory.generations)
    unknown = replace(ran.books, roles={})
    assert "are trained, not its first 0" in laws.delivered(replace(ran.trajectory, generations=titles), unknown)


async def test_a_role_that_the_gateway_alone_believes_in_is_found(ran: Ran) -> None:
    """Every call a title, none of them trained, and everything adds up: it is the role that is wrong."""
    counts = ran.trajectory.accounting
    titles = tuple(replace(call, role="title", excluded="role_title") for call in ran.trajectory.generations)
    lost = {"role_title": counts.sampled_tokens}
    untrained = replace(
        ran.trajectory,
        generations=titles,
        segments=(),
        accounting=replace(counts, trainable_tokens=0, excluded=lost),
    )
    assert laws.broken_laws(untrained, replace(ran.books, roles={})) == {}
    said = f"call {titles[0].call_id} counts as one of role title, it is of role main"
    assert laws.broken_laws(untrained, ran.books) == {Law.DELIVERED: said}


async def test_more_than_what_arrived_is_found(ran: Ran) -> None:
    call = ran.samples[0].call_id
    assert f"of call {call} count as delivered" in laws.delivered(ran.trajectory, Books(ran.samples, {call: range(1)}))


async def test_what_may_have_arrived_is_told_in_spans(ran: Ran) -> None:
    call, size = ran.samples[0].call_id, len(ran.samples[0].token_ids)
    said = laws.delivered(ran.trajectory, Books(ran.samples, {call: {*range(15), 20, size + 1}}))
    assert said.endswith(f"count as delivered (delivered), 0 to 14 or 20 or {size + 1} may have arrived")


def shortened(segment: Segment, size: int) -> Segment:
    assert segment.routes is not None
    names: Sequence[str] = ("token_ids", "loss_mask", "logprobs", "versions", "call_ids", "call_positions")
    cut = {name: getattr(segment, name)[:size] for name in names}
    return replace(segment, **cut, routes=segment.routes[: size - 1], routes_recorded=size - 1)
