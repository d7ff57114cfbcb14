"""From trials to tensors: which segments are trained, how much each weighs, and how they share a forward pass.

Invariant: ids, masks, behaviour log-probs and routes reach the tensors exactly as the gateway recorded them. Padding is
never trained and never routed by a record, and what is left out is counted with its reason.

Suffixes: B segments of a micro-batch, T predicting positions (position t reads token t and predicts token t + 1, so a
segment of L tokens has L - 1 of them), E layers with a router, K experts a token.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lego_rl.errors import CaptureError
from lego_rl.gateway.trajectory import Segment
from lego_rl.train.advantages import Advantage, group_advantages

SMALLEST_SHARED_PREFIX = 16
"""Below this many shared positions a separate pass over them costs more than it saves."""


@dataclass(frozen=True)
class TrainingTrial:
    """One finished trial as the trainer sees it.

    Attributes:
        trial_id: Unique within the step.
        group_id: The prompt that it is a trial of.
        reward: 0 or 1; ``None`` where it is out of its group's statistics.
        segments: Its training sequences; none where the fault table keeps it out of the loss.
    """

    trial_id: str
    group_id: str
    reward: Literal[0, 1] | None
    segments: tuple[Segment, ...]

    @property
    def trainable_tokens(self) -> int:
        """Tokens with mask 1."""
        return sum(int(segment.loss_mask.sum()) for segment in self.segments)


@dataclass(frozen=True)
class Row:
    """One segment within a batch.

    Attributes:
        trial_id: The trial it is from.
        index: Which of the trial's segments it is.
        segment: What the gateway recorded.
        advantage: Of the trial.
        scale: 1 / segments of the trial that have a trainable token.
    """

    trial_id: str
    index: int
    segment: Segment
    advantage: float
    scale: float

    @property
    def length(self) -> int:
        """Predicting positions, L - 1."""
        return len(self.segment.token_ids) - 1

    @property
    def first_target(self) -> int:
        """First position that predicts a trained token."""
        return int(self.segment.loss_mask.argmax()) - 1

    def sampled_under(self, version: int) -> bool:
        """Whether every trained token was sampled under one weight version."""
        return bool((self.segment.versions[self.segment.loss_mask == 1] == version).all())


@dataclass(frozen=True)
class Selection:
    """What a step trains on.

    Attributes:
        updates: ``updates[u]`` are the rows of optimizer update u; a row of it carries gradient.
        silent: Rows of trials that count but contribute nothing (too small a group, one verdict). The gate sees them.
        trials: Trials that contribute.
        excluded_trials: Why trials contribute nothing: reason → trials.
        excluded_tokens: Trainable tokens that are not trained: reason → tokens.
    """

    updates: tuple[tuple[Row, ...], ...]
    silent: tuple[Row, ...]
    trials: int
    excluded_trials: dict[str, int] = field(default_factory=dict)
    excluded_tokens: dict[str, int] = field(default_factory=dict)

    @property
    def trained_tokens(self) -> int:
        """Mask-1 tokens that carry gradient."""
        return sum(int(row.segment.loss_mask.sum()) for rows in self.updates for row in rows)


def select(trials: Sequence[TrainingTrial], updates: int) -> Selection:
    """Decide what each trial contributes and to which optimizer update.

    Groups are dealt to the updates in the order of their first trial, evenly, whole groups only.

    Raises:
        CaptureError: A segment contradicts itself.
    """
    advantages = group_advantages([trial.reward for trial in trials], [trial.group_id for trial in trials])
    groups = list(dict.fromkeys(trial.group_id for trial in trials))
    update_of = {group: index * updates // len(groups) for index, group in enumerate(groups)}
    trained: list[list[Row]] = [[] for _ in range(updates)]
    silent: list[Row] = []
    excluded_trials: dict[str, int] = {}
    excluded_tokens: dict[str, int] = {}
    for trial, advantage in zip(trials, advantages, strict=True):
        rows = [] if advantage.exclusion == "no_reward" else list(_rows(trial, advantage))
        reason = advantage.exclusion or (None if rows else "no_tokens")
        if reason is None:
            trained[update_of[trial.group_id]] += rows
            continue
        excluded_trials[reason] = excluded_trials.get(reason, 0) + 1
        excluded_tokens[reason] = excluded_tokens.get(reason, 0) + trial.trainable_tokens
        silent += rows
    return Selection(
        updates=tuple(tuple(rows) for rows in trained),
        silent=tuple(silent),
        trials=len(trials) - sum(excluded_trials.values()),
        excluded_trials=excluded_trials,
        excluded_tokens=excluded_tokens,
    )


def _rows(trial: TrainingTrial, advantage: Advantage) -> Iterator[Row]:
    trainable = [(i, segment) for i, segment in enumerate(trial.segments) if segment.loss_mask.any()]
    for index, segment in trainable:
        check_segment(segment, f"segment {index} of trial {trial.trial_id}")
        yield Row(trial.trial_id, index, segment, advantage.value, 1.0 / len(trainable))


def check_segment(segment: Segment, name: str) -> None:
    """Refuse a segment that contradicts itself.

    Raises:
        CaptureError: Arrays of different lengths, a trained token that nothing predicts, or a log-prob that is not one.
    """
    arrays = (segment.loss_mask, segment.logprobs, segment.versions, segment.call_ids, segment.call_positions)
    length = len(segment.token_ids)
    fix = "the trajectory is damaged: leave the trial out and report it"
    if any(len(array) != length for array in arrays):
        raise CaptureError(f"{name}: arrays of {[len(a) for a in arrays]} entries for {length} tokens", fix)
    if segment.loss_mask[0]:
        raise CaptureError(f"{name}: the first token is marked as sampled, but nothing precedes it", fix)
    sampled = segment.logprobs[segment.loss_mask.astype(bool)]
    if not np.isfinite(sampled).all() or (sampled > 1e-4).any():
        raise CaptureError(f"{name}: a recorded log-prob is not the log of a probability", fix)


@dataclass(frozen=True)
class MicroBatch:
    """Segments that are computed together, right-padded.

    Attributes:
        rows: The segments, ``[B]``.
        input_ids_BT: Token that each position reads; 0 in padding.
        target_ids_BT: Token that each position predicts; 0 in padding.
        mask_BT: Bool; the predicted token is trained.
        behaviour_logp_BT: Log-prob of the predicted token when it was sampled; 0 where the mask is 0.
        advantage_B: Advantage of each segment's trial.
        scale_B: Weight of each segment within its trial.
        experts_BTEK: Experts that the engine chose at each position, or ``None`` where the router chooses again.
        recorded_BT: Bool; `experts_BTEK` holds a record at this position (not in padding).
        shared: The first so many positions are the same in every row, ids and routes alike, and train nothing.
    """

    rows: tuple[Row, ...]
    input_ids_BT: Tensor
    target_ids_BT: Tensor
    mask_BT: Tensor
    behaviour_logp_BT: Tensor
    advantage_B: Tensor
    scale_B: Tensor
    experts_BTEK: Tensor | None
    recorded_BT: Tensor
    shared: int

    @property
    def positions(self) -> int:
        """Positions that a forward pass computes."""
        size, length = self.input_ids_BT.shape
        return self.shared + size * (length - self.shared)

    @property
    def computed_BT(self) -> Tensor:
        """Bool; positions with a record that the forward pass computes: the shared ones in the first row only."""
        computed_BT = self.recorded_BT.clone()
        computed_BT[1:, : self.shared] = False
        return computed_BT

    def at_trained(self, name: Literal["versions", "call_positions"]) -> NDArray[np.int64]:
        """A per-token array of the segments at the trained tokens, ``[N]``, in the order of ``x_BT[mask_BT]``."""
        arrays = [getattr(row.segment, name)[row.segment.loss_mask == 1] for row in self.rows]
        return np.concatenate(arrays).astype(np.int64)

    @classmethod
    def of(cls, rows: Sequence[Row], *, routing: Literal["replay", "own"], device: torch.device) -> Self:
        """Pad rows into tensors; the longest sets T."""
        size, length = len(rows), max(row.length for row in rows)
        inputs = np.zeros((size, length), np.int64)
        targets = np.zeros((size, length), np.int64)
        mask = np.zeros((size, length), bool)
        logp = np.zeros((size, length), np.float32)
        recorded = np.zeros((size, length), bool)
        for b, row in enumerate(rows):
            segment, n = row.segment, row.length
            inputs[b, :n] = segment.token_ids[:-1]
            targets[b, :n] = segment.token_ids[1:]
            mask[b, :n] = segment.loss_mask[1:]
            logp[b, :n] = np.where(segment.loss_mask[1:], segment.logprobs[1:], 0.0)
            recorded[b, :n] = segment.routes is not None
        return cls(
            rows=tuple(rows),
            input_ids_BT=torch.from_numpy(inputs).to(device),
            target_ids_BT=torch.from_numpy(targets).to(device),
            mask_BT=torch.from_numpy(mask).to(device),
            behaviour_logp_BT=torch.from_numpy(logp).to(device),
            advantage_B=torch.tensor([row.advantage for row in rows], dtype=torch.float32, device=device),
            scale_B=torch.tensor([row.scale for row in rows], dtype=torch.float32, device=device),
            experts_BTEK=_padded_routes(rows, length).to(device) if routing == "replay" else None,
            recorded_BT=torch.from_numpy(recorded).to(device),
            shared=_usable_prefix(rows, _shared_prefix(rows, routing)),
        )


def _padded_routes(rows: Sequence[Row], length: int) -> Tensor:
    shapes = {None if row.segment.routes is None else row.segment.routes.shape[1:] for row in rows}
    (shape,) = shapes if len(shapes) == 1 else (None,)
    if shape is None:
        raise CaptureError(f"routes of shapes {shapes} cannot be replayed together", "set train.routing to own")
    experts = np.zeros((len(rows), length, *shape), np.uint8)
    for b, row in enumerate(rows):
        experts[b, : row.length] = row.segment.routes
    return torch.from_numpy(experts)


def plan(
    rows: Sequence[Row], budget: int, *, routing: Literal["replay", "own"], device: torch.device
) -> list[MicroBatch]:
    """Deal rows to micro-batches of at most `budget` computed positions; a row that is longer stands alone.

    Where routes are replayed they have been checked (`replay.check_routes`). Rows are taken longest first, so that rows
    of like length meet and little is padded. What all rows of a micro-batch begin with (as a rule the harness's prompt)
    counts once: the forward pass computes it once.
    """
    batches: list[MicroBatch] = []
    pending: list[Row] = []
    shared = 0
    for row in sorted(rows, key=lambda row: -row.length):
        joint = min(shared, _common_prefix(pending[0], row, routing)) if pending else row.length
        candidate = [*pending, row]
        usable = _usable_prefix(candidate, joint)
        if pending and usable + len(candidate) * (pending[0].length - usable) > budget:
            batches.append(MicroBatch.of(pending, routing=routing, device=device))
            pending, shared = [row], row.length
        else:
            pending, shared = candidate, joint
    if pending:
        batches.append(MicroBatch.of(pending, routing=routing, device=device))
    return batches


def _shared_prefix(rows: Sequence[Row], routing: Literal["replay", "own"]) -> int:
    return min((_common_prefix(rows[0], row, routing) for row in rows[1:]), default=rows[0].length)


def _common_prefix(a: Row, b: Row, routing: Literal["replay", "own"]) -> int:
    """Leading positions at which two rows read the same token and, where replayed, chose the same experts."""
    n = min(a.length, b.length)
    same = a.segment.token_ids[:n] == b.segment.token_ids[:n]
    if routing == "replay" and a.segment.routes is not None and b.segment.routes is not None:
        same = same & (a.segment.routes[:n] == b.segment.routes[:n]).all(axis=(1, 2))
    return n if same.all() else int(same.argmin())


def _usable_prefix(rows: Sequence[Row], common: int) -> int:
    """The part of a common prefix that can be computed once: no position in it may predict a trained token."""
    usable = min(common, *(row.first_target for row in rows)) if len(rows) > 1 else 0
    return usable if usable >= SMALLEST_SHARED_PREFIX else 0
