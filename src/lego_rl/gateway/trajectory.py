"""What a trial leaves behind: generations, segments, and the trajectory that holds them.

Invariant (capture laws of the contract): every delivered sampled token is trainable in exactly one segment, under the
exact prompt ids it was sampled from, with the log-prob recorded when it was sampled.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lego_rl.engine.protocol import FinishReason, Timings, WeightSpan
from lego_rl.messages import Message, Tool

type CallRole = Literal["main", "subagent", "compaction", "title"]
"""What a model call was for."""

type Fate = Literal["delivered", "superseded", "abandoned"]
"""Delivered: a later request echoes it, if only its beginning, or names all its calls, or it is the last and its
response was fully written. Superseded: the harness went on with another call for the same request (the newest that was
fully written, unless a later request echoes an older one). Abandoned: the client was gone before the response was
fully written."""

type Unheld = Literal["superseded", "abandoned", "cut"]
"""Why sampled tokens are not trained that the harness does not go on with: their call's fate, or, where only the
beginning of an answer was delivered, ``cut``."""

type Unreadable = Literal["image", "audio", "video", "file", "other"]
"""Kinds of parts that a text model cannot see; ``other``: whatever else a request calls one."""

type BudgetHit = Literal["turns", "context", "wall_clock", "attempts"]
"""What of a budget can end a session. ``attempts``: too many model calls were begun for the turns there are."""

type Refusal = BudgetHit | Literal["closed", "count", "superseded", "client_gone", "engine_error", "prompt", "internal"]
"""Why no model call was completed for a request. A budget, or ``closed``: the session was over. ``count``: no count
of prompt tokens was left. ``superseded``: a newer request for the same came while the engine was at work, whose answer
both get. ``client_gone``: nobody waited any more. ``engine_error``: the engine failed. ``prompt``: a chat backend
refused the conversation for what is in it. ``internal``: this side has a bug or a wrong configuration."""


@dataclass(frozen=True)
class Generation:
    """One model call of a session: what the engine sampled, and what became of it.

    The prompt is kept as the difference to the call it continues, so a trial's generations take memory in proportion to
    its tokens; `Trajectory.prompt_ids` puts it together.

    Attributes:
        call_id: The engine's.
        parent: Index in `Trajectory.generations` of the call whose answer this one continues; ``None`` at a start.
        context_ids: ``[C]`` int32 prompt ids after the parent's prompt and answer, or what is kept of it.
        token_ids: ``[T]`` int32 sampled ids, a stop token included.
        logprobs: ``[T]`` float32, as the engine recorded them.
        finish_reason: Why sampling ended.
        weight_versions: Spans that cover ``[0, T)`` in order.
        timings: Where the time went.
        role: What the call was for.
        fate: What became of the answer.
        parsed: Whether every tool call in it could be parsed (a malformed one stays visible as text).
        calls_tools: Whether it holds a tool call that could be parsed.
        excluded: Why a delivered answer is not trained: what its prompt, or one before it, held that a text model
            cannot see (`Unreadable`); or that its role does not train, such as
            ``role_title``.
        routes: ``[C + T, layers, top_k]`` uint8 (at a start ``[C + T - 1, ...]``): expert routes of the positions from
            the parent's last token to the one before this call's last. ``None`` for a dense model, and where the call
            is in no segment.
        routes_recorded: Rows of `routes` that an engine call recorded.
        kept: Sampled ids of the parent that the prompt holds, where the harness echoed a prefix; ``None``: all.
        delivered_prefix: Sampled ids that were delivered, where only a prefix was; ``None``: all, if delivered.
    """

    call_id: str
    parent: int | None
    context_ids: NDArray[np.int32]
    token_ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    finish_reason: FinishReason
    weight_versions: tuple[WeightSpan, ...]
    timings: Timings
    role: CallRole
    fate: Fate
    parsed: bool = True
    calls_tools: bool = False
    excluded: str | None = None
    routes: NDArray[np.uint8] | None = None
    routes_recorded: int = 0
    kept: int | None = None
    delivered_prefix: int | None = None

    @property
    def delivered_tokens(self) -> int:
        """Sampled tokens that the harness got."""
        if self.fate != "delivered":
            return 0
        return len(self.token_ids) if self.delivered_prefix is None else self.delivered_prefix


@dataclass(frozen=True)
class Segment:
    """A root-to-leaf chain of the token tree: one training sequence.

    Attributes:
        token_ids: ``[L]`` int32.
        loss_mask: ``[L]`` uint8; 1 where the policy sampled the token and it is trained in this segment.
        logprobs: ``[L]`` float32 behaviour log-probs; 0.0 and meaningless where `loss_mask` is 0.
        versions: ``[L]`` int32 weight version a token was sampled under; -1 where `loss_mask` is 0.
        call_ids: ``[L]`` int32 index into `calls` of the engine call that sampled the token; -1 where `loss_mask`
            is 0.
        call_positions: ``[L]`` int32 position of the token within its call's `Sample.token_ids`, -1 elsewhere.
        calls: The engine call ids that `call_ids` points into.
        routes: ``[L - 1, layers, top_k]`` uint8 for every position, or ``None`` for a dense model.
        routes_recorded: Rows of `routes` that an engine call recorded; the others are zero and the gate refuses them.
    """

    token_ids: NDArray[np.int32]
    loss_mask: NDArray[np.uint8]
    logprobs: NDArray[np.float32]
    versions: NDArray[np.int32]
    call_ids: NDArray[np.int32]
    call_positions: NDArray[np.int32]
    calls: tuple[str, ...]
    routes: NDArray[np.uint8] | None
    routes_recorded: int

    @property
    def route_coverage(self) -> float:
        """Recorded rows ÷ (L - 1); 1.0 for a dense model."""
        if self.routes is None:
            return 1.0
        return self.routes_recorded / max(1, len(self.token_ids) - 1)


@dataclass(frozen=True)
class Accounting:
    """Counts of one trial. Token counts are of sampled tokens.

    Attributes:
        calls: Model calls that the engine answered.
        sampled_tokens: Tokens sampled over all calls.
        delivered_tokens: Tokens of delivered calls, of a prefix where no more was delivered.
        trainable_tokens: Tokens with mask 1 in some segment.
        excluded: Why sampled tokens are not trainable: reason → tokens. Sums to sampled - trainable.
        tool_parse_faults: Calls in which a tool call could not be parsed, though the policy ended its answer.
        truncated: Calls that the token limit ended.
        tool_calls: Calls with a tool call that could be parsed.
        budget_hit: Which budget ended the session, if one did; not one after which the policy answered again.
        refused: Requests for which no model call was completed: reason → requests.
    """

    calls: int = 0
    sampled_tokens: int = 0
    delivered_tokens: int = 0
    trainable_tokens: int = 0
    excluded: dict[str, int] = field(default_factory=dict)
    tool_parse_faults: int = 0
    truncated: int = 0
    tool_calls: int = 0
    budget_hit: BudgetHit | None = None
    refused: dict[Refusal, int] = field(default_factory=dict)

    @property
    def delivered_fraction(self) -> float:
        """Trainable ÷ sampled tokens; 1.0 where nothing was sampled."""
        return self.trainable_tokens / self.sampled_tokens if self.sampled_tokens else 1.0


@dataclass(frozen=True)
class Trajectory:
    """Everything the gateway wrote down about one trial.

    Attributes:
        segments: Training sequences.
        generations: Every model call in the order of their start, whatever its fate.
        conversations: The neutral messages of every chain of delivered calls, its last answer included: first those of
            `segments`, in their order, then those in which nothing is left to train. Where a chain ends with excluded
            calls, its segment is the part before them.
        tools: Tools offered in the main conversation.
        accounting: Counts.
    """

    segments: tuple[Segment, ...]
    generations: tuple[Generation, ...]
    conversations: tuple[tuple[Message, ...], ...]
    tools: tuple[Tool, ...]
    accounting: Accounting

    @property
    def calls(self) -> tuple[Generation, ...]:
        """Every model call; what all that is captured has."""
        return self.generations

    def prompt_ids(self, index: int) -> NDArray[np.int32]:
        """``[P]`` int32 the whole prompt of generation `index`, exactly as the engine was given it."""
        call = self.generations[index]
        pieces = [call.context_ids]
        while call.parent is not None:
            parent = self.generations[call.parent]
            pieces += [parent.token_ids[: call.kept], parent.context_ids]
            call = parent
        return np.concatenate(pieces[::-1])
