"""A law that is broken is seen to be broken."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_harness import NAMED, Ran, run_toy

from lego_rl.conformance import laws
from lego_rl.gateway.trajectory import Segment, Trajectory


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
    ],
)
async def test_a_wrong_token_is_found(ran: Ran, change: Callable[[Segment], Segment], said: str) -> None:
    assert laws.exact(ran.trajectory, ran.samples) == ""
    assert said in laws.exact(altered(ran.trajectory, change), ran.samples)


async def test_a_token_trained_twice_is_found(ran: Ran) -> None:
    twice = replace(ran.trajectory, segments=ran.trajectory.segments * 2)
    assert "trained twice" in laws.exact(twice, ran.samples)


async def test_a_call_that_was_not_captured_is_found(ran: Ran) -> None:
    fewer = replace(ran.trajectory, generations=ran.trajectory.generations[:-1])
    assert "4 are captured" in laws.accounted(fewer, ran.samples)


async def test_tokens_that_do_not_add_up_are_found(ran: Ran) -> None:
    accounting = replace(ran.trajectory.accounting, trainable_tokens=ran.trajectory.accounting.trainable_tokens - 1)
    assert "are not" in laws.accounted(replace(ran.trajectory, accounting=accounting), ran.samples)
    accounting = replace(ran.trajectory.accounting, sampled_tokens=1)
    assert "were sampled" in laws.accounted(replace(ran.trajectory, accounting=accounting), ran.samples)
