"""The laws of a run. Those of capture are checked on one trajectory against what the engine was given and returned.

Invariant: a check never looks at how the gateway came to its result. It compares books that were kept apart.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lego_rl.engine.protocol import Sample
from lego_rl.gateway.settings import DEFAULT_CAPTURE
from lego_rl.gateway.trajectory import CallRole, Generation, Segment, Trajectory


class Law(StrEnum):
    """What has to hold of every run, in the order in which it is shown."""

    EXACT = "exact"
    """Each trained token is one that the engine sampled, with its log-prob, weight version and routes, after the very
    ids before it, once; every call is written down as it was made."""
    ACCOUNTED = "accounted"
    """Each sampled token is trainable or excluded for a reason."""
    DELIVERED = "delivered"
    """Exactly the tokens that reached the harness are trained. Exceptions: calls whose role does not train, and calls
    whose prompt held an image or the like."""
    SILENT = "silent"
    """Nothing was sent to anybody but the gateway."""
    ENDED = "ended"
    """The harness ended by itself."""
    OUTCOME = "outcome"
    """The situation showed what it is there for."""


@dataclass(frozen=True)
class Books:
    """What is known of a trial apart from the gateway.

    Attributes:
        samples: Every answer of the engine.
        arrived: Of the calls whose answer the harness may not have got whole: how many of its tokens it may have.
        train_roles: Which calls train.
        blind: Calls whose prompt held what a text model cannot see: they do not train, whatever their role.
        roles: Call → what it was for. Of a call that is not in it nobody but the gateway knows.
    """

    samples: Sequence[Sample]
    arrived: Mapping[str, Collection[int]]
    train_roles: Collection[CallRole] = DEFAULT_CAPTURE.train_roles
    blind: Collection[str] = ()
    roles: Mapping[str, CallRole] = field(default_factory=dict)


def asked_again(samples: Sequence[Sample]) -> dict[str, Collection[int]]:
    """Calls whose very prompt was sampled from again later: the harness may have dropped this answer."""
    last = {tuple(sample.prompt_ids): sample.call_id for sample in samples}
    return {
        sample.call_id: (0, len(sample.token_ids))
        for sample in samples
        if last[tuple(sample.prompt_ids)] != sample.call_id
    }


def capture_laws(trajectory: Trajectory, books: Books) -> dict[Law, str]:
    """The laws of capture, and what is wrong with each; empty where it holds."""
    return {
        Law.EXACT: exact(trajectory, books),
        Law.ACCOUNTED: accounted(trajectory, books),
        Law.DELIVERED: delivered(trajectory, books),
    }


def broken_laws(trajectory: Trajectory, books: Books) -> dict[Law, str]:
    """The laws of capture that do not hold, and what is wrong."""
    return {law: wrong for law, wrong in capture_laws(trajectory, books).items() if wrong}


def exact(trajectory: Trajectory, books: Books) -> str:
    """What is wrong with the tokens that were written down; see `Law.EXACT`."""
    by_call = {sample.call_id: sample for sample in books.samples}
    for index, generation in enumerate(trajectory.generations):
        for wrong in _altered(generation, trajectory.prompt_ids(index), by_call.get(generation.call_id)):
            return f"call {generation.call_id}: {wrong}"
    seen: set[tuple[str, int]] = set()
    fed = {call: np.array((*sample.prompt_ids, *sample.token_ids)) for call, sample in by_call.items()}
    for number, segment in enumerate(trajectory.segments, start=1):
        for wrong in (*_differences(segment, by_call, fed, seen), *_unrouted(segment, by_call, fed)):
            return f"segment {number}: {wrong}"
    return ""


def accounted(trajectory: Trajectory, books: Books) -> str:
    """Which sampled tokens the accounting does not know."""
    captured = {each.call_id for each in trajectory.generations}
    missing = [sample.call_id for sample in books.samples if sample.call_id not in captured]
    counts = trajectory.accounting
    if missing or not len(captured) == len(trajectory.generations) == len(books.samples):
        return f"{len(books.samples)} calls were answered, {len(captured)} are captured"
    sampled = sum(len(sample.token_ids) for sample in books.samples)
    got = sum(each.delivered_tokens for each in trajectory.generations)
    trained = sum(int(segment.loss_mask.sum()) for segment in trajectory.segments)
    facts = {"calls": len(books.samples), "sampled": sampled, "delivered": got, "trainable": trained}
    claims = (counts.calls, counts.sampled_tokens, counts.delivered_tokens, counts.trainable_tokens)
    for (name, fact), claim in zip(facts.items(), claims, strict=True):
        if fact != claim:
            return f"{name}: {claim} are counted, not {fact}"
    if trained + sum(counts.excluded.values()) != sampled:
        return f"{trained} trainable and {counts.excluded} excluded are not {sampled} sampled tokens"
    return ""


def delivered(trajectory: Trajectory, books: Books) -> str:
    """Of which calls more or less is trained than the harness got and the call's role says, or whose role is wrong."""
    sizes = {sample.call_id: len(sample.token_ids) for sample in books.samples}
    trained = _trained(trajectory)
    for generation in trajectory.generations:
        call, size = generation.call_id, sizes.get(generation.call_id, 0)
        arrived = books.arrived.get(call, (size,))
        got = generation.delivered_tokens
        if got not in arrived:
            counted = f"{_of(got, size)} of call {call} count as delivered ({generation.fate})"
            return f"{counted}, {_any_of(arrived)} may have arrived"
        role = books.roles.get(call, generation.role)
        if generation.role != role:
            return f"call {call} counts as one of role {generation.role}, it is of role {role}"
        due = got if role in books.train_roles and call not in books.blind else 0
        if trained.get(call, []) != list(range(due)):
            return f"{_of(len(trained.get(call, [])), size)} of call {call} are trained, not its first {due}"
    return ""


def _of(count: int, size: int) -> str:
    return f"{count} of the {size} tokens"


def _any_of(counts: Collection[int]) -> str:
    """What the counts are, such as ``0 to 14 or 145``."""
    known = sorted(counts)
    ends = [low for low, high in pairwise(known) if high != low + 1]
    starts = [high for low, high in pairwise(known) if high != low + 1]
    spans = zip([known[0], *starts], [*ends, known[-1]], strict=True)
    return " or ".join(f"{low} to {high}" if low < high else str(low) for low, high in spans)


def _trained(trajectory: Trajectory) -> dict[str, list[int]]:
    """Positions that are trained in any segment, by call, in order."""
    found: dict[str, list[int]] = {}
    for segment in trajectory.segments:
        for at in np.flatnonzero(segment.loss_mask).tolist():
            call = segment.calls[segment.call_ids[at]]
            found.setdefault(call, []).append(int(segment.call_positions[at]))
    return {call: sorted(positions) for call, positions in found.items()}


def _altered(generation: Generation, prompt_ids: NDArray[np.int32], sample: Sample | None) -> Iterator[str]:
    """What of a call is not as the engine had it."""
    if sample is None:
        yield "it was never answered"
        return
    if not np.array_equal(prompt_ids, np.array(sample.prompt_ids)):
        yield "its prompt is not the one that the engine was given"
    if generation.token_ids.tolist() != list(sample.token_ids):
        yield "its tokens are not those sampled"
    if not np.array_equal(generation.logprobs, sample.logprobs):
        yield "its log-probs are not those recorded"
    if generation.weight_versions != sample.weight_versions:
        yield "its weight versions are not those recorded"


def _differences(
    segment: Segment, by_call: Mapping[str, Sample], fed: Mapping[str, NDArray[np.int64]], seen: set[tuple[str, int]]
) -> Iterator[str]:
    """What is wrong with the tokens of a segment; `fed` are a call's ids, and `seen` the ones trained already."""
    trained = np.flatnonzero(segment.loss_mask)
    context = segment.loss_mask == 0
    if not len(trained):
        yield "nothing in it is trained"
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
        before = fed[call_id][: size + int(at.max())]
        if (places - at != size).any() or not np.array_equal(segment.token_ids[: len(before)], before):
            yield f"tokens of call {call_id} do not stand after the prompt that they were sampled from"
        if (segment.token_ids[places] != np.array(sample.token_ids)[at]).any():
            yield f"tokens of call {call_id} are not those sampled"
        if (segment.logprobs[places] != sample.logprobs[at]).any():
            yield f"log-probs of call {call_id} are not those recorded"
        if (segment.versions[places] != _versions(sample)[at]).any():
            yield f"weight versions of call {call_id} are not those recorded"
    if len(trained) != sum((segment.call_ids[trained] == index).sum() for index in range(len(segment.calls))):
        yield "a trained token names no call"
    if segment.logprobs[context].any():
        yield "a token of the context has a log-prob"
    if any((owner[context] != -1).any() for owner in (segment.versions, segment.call_ids, segment.call_positions)):
        yield "a token of the context names a call"


def _versions(sample: Sample) -> NDArray[np.int32]:
    """``[T]`` the weight version of each sampled token; -1 where none is recorded."""
    versions = np.full(len(sample.token_ids), -1, np.int32)
    for span in sample.weight_versions:
        versions[span.start : span.end] = span.version
    return versions


def _unrouted(segment: Segment, by_call: Mapping[str, Sample], fed: Mapping[str, NDArray[np.int64]]) -> Iterator[str]:
    """Whether a position lacks the routes that some call recorded for it, after the very ids before it."""
    if segment.routes is None:
        if any(sample.routes is not None for sample in by_call.values()):
            yield "its routes are missing"
        return
    if segment.route_coverage != 1.0:
        yield f"routes cover {segment.route_coverage:.3f} of it"
    known = np.zeros(len(segment.routes), bool)
    for call, sample in by_call.items():
        if sample.routes is None:
            continue
        ids = fed[call][: len(segment.routes)]
        differs = np.flatnonzero(ids != segment.token_ids[: len(ids)])
        end = min(int(differs[0]) if len(differs) else len(ids), sample.routes_from + len(sample.routes))
        rows = slice(sample.routes_from, max(end, sample.routes_from))
        recorded = sample.routes[: rows.stop - rows.start]
        known[rows] |= (segment.routes[rows] == recorded).all(axis=(1, 2))
    if not known.all():
        yield f"the routes of position {int(np.flatnonzero(~known)[0])} are none that a call recorded"
