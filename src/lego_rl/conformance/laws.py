"""The capture laws, checked on one captured trial against what the engine was given and returned.

Invariant: a check never looks at how the gateway came to its result. It compares books that were kept apart.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import get_args

import numpy as np

from lego_rl.engine.protocol import Sample
from lego_rl.gateway.settings import DEFAULT_CAPTURE
from lego_rl.gateway.trajectory import CallRole, Segment, Trajectory

_NOT_TRAINED = {f"role_{role}" for role in get_args(CallRole.__value__) if role not in DEFAULT_CAPTURE.train_roles}
"""Why tokens are not trained that the harness saw: calls of these roles are not, unless a recipe says so."""


def exact(trajectory: Trajectory, samples: Sequence[Sample]) -> str:
    """What is wrong with the trained tokens: each is one the engine sampled, after the very ids before it, once."""
    by_call = {sample.call_id: sample for sample in samples}
    seen: set[tuple[str, int]] = set()
    for number, segment in enumerate(trajectory.segments, start=1):
        for wrong in _differences(segment, by_call, seen):
            return f"segment {number}: {wrong}"
    return ""


def _differences(segment: Segment, by_call: dict[str, Sample], seen: set[tuple[str, int]]) -> Iterator[str]:
    trained = np.flatnonzero(segment.loss_mask)
    for index, call_id in enumerate(segment.calls):
        places = trained[segment.call_ids[trained] == index]
        if not len(places):
            continue
        sample, at = by_call.get(call_id), segment.call_positions[places]
        if sample is None:
            yield f"call {call_id} was never answered"
            continue
        claimed = {(call_id, int(position)) for position in at}
        if claimed & seen or len(claimed) != len(at):
            yield f"tokens of call {call_id} are trained twice"
        seen |= claimed
        size = len(sample.prompt_ids)
        if (places - at != size).any() or tuple(segment.token_ids[:size].tolist()) != sample.prompt_ids:
            yield f"tokens of call {call_id} do not stand after the prompt that they were sampled from"
        if (segment.token_ids[places] != np.array(sample.token_ids)[at]).any():
            yield f"tokens of call {call_id} are not those sampled"
        if (segment.logprobs[places] != sample.logprobs[at]).any():
            yield f"log-probs of call {call_id} are not those recorded"
    if len(trained) != sum((segment.call_ids[trained] == index).sum() for index in range(len(segment.calls))):
        yield "a trained token names no call"


def accounted(trajectory: Trajectory, samples: Sequence[Sample]) -> str:
    """Which sampled tokens the accounting does not know."""
    captured = {each.call_id for each in trajectory.generations}
    missing = [sample.call_id for sample in samples if sample.call_id not in captured]
    if missing or len(captured) != len(samples):
        return f"{len(samples)} calls were answered, {len(captured)} are captured"
    counts, sampled = trajectory.accounting, sum(len(sample.token_ids) for sample in samples)
    if counts.sampled_tokens != sampled:
        return f"{sampled} tokens were sampled, {counts.sampled_tokens} are counted"
    if counts.trainable_tokens + sum(counts.excluded.values()) != sampled:
        return f"{counts.trainable_tokens} trainable and {counts.excluded} excluded are not {sampled} sampled tokens"
    return ""


def delivered(trajectory: Trajectory, unseen: Collection[str]) -> str:
    """Which sampled tokens are not trained though neither a fate in `unseen` nor the call's role says why."""
    known = {*unseen, *_NOT_TRAINED}
    lost = {reason: count for reason, count in trajectory.accounting.excluded.items() if reason not in known}
    return f"not trained: {lost}" if lost else ""
