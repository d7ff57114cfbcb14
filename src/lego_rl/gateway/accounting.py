"""From the token tree to a `Trajectory`: fates, segments, and every sampled token accounted for."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import get_args

from lego_rl.gateway.call import Call
from lego_rl.gateway.roles import roles_of
from lego_rl.gateway.routes import OwnedRoutes, owned_routes, route_shape
from lego_rl.gateway.segments import build_segments, last_calls
from lego_rl.gateway.trajectory import (
    Accounting,
    BudgetHit,
    CallRole,
    Fate,
    Generation,
    Refusal,
    Segment,
    Trajectory,
    Unheld,
    Unreadable,
)
from lego_rl.gateway.tree import TokenTree
from lego_rl.messages import Message, Tool

_KINDS: Mapping[str, Unreadable] = {kind: kind for kind in get_args(Unreadable.__value__)}


def trajectory_of(
    tree: TokenTree,
    budget_hit: BudgetHit | None,
    refused: Mapping[Refusal, int],
    train_roles: Collection[CallRole],
) -> Trajectory:
    """Everything a session captured.

    Args:
        tree: Its calls.
        budget_hit: Which budget ended it, if one did.
        refused: Requests for which no model call was completed: reason → requests.
        train_roles: Which calls train.

    Raises:
        CaptureError: Calls contradict each other.
    """
    generations = _generations(tree, train_roles)
    ends = [tree.calls[index] for index in last_calls(generations)]
    segments = build_segments(generations)
    return Trajectory(
        segments=segments,
        generations=generations,
        conversations=tuple(conversation_of(end) for end in ends),
        tools=_tools(tree.calls, generations),
        accounting=account(generations, segments, budget_hit, refused),
    )


def _tools(calls: Sequence[Call], generations: Sequence[Generation]) -> tuple[Tool, ...]:
    """What the main conversation was offered when it began."""
    main = (call for call, generation in zip(calls, generations, strict=True) if generation.role == "main")
    return next((call.request.tools for call in main), ())


def account(
    generations: Sequence[Generation],
    segments: Sequence[Segment],
    budget_hit: BudgetHit | None,
    refused: Mapping[Refusal, int],
) -> Accounting:
    """The counts of a trial.

    Args:
        generations: Its calls.
        segments: What was built from them.
        budget_hit: Which budget ended its session, if one did.
        refused: Requests for which no model call was completed: reason → requests.
    """
    excluded: Counter[str] = Counter()
    for generation in generations:
        lost = len(generation.token_ids) - generation.delivered_tokens
        unheld: Unheld = "cut" if generation.fate == "delivered" else generation.fate
        excluded[unheld] += lost
        if generation.excluded is not None:
            excluded[generation.excluded] += generation.delivered_tokens
    return Accounting(
        calls=len(generations),
        sampled_tokens=sum(len(generation.token_ids) for generation in generations),
        delivered_tokens=sum(generation.delivered_tokens for generation in generations),
        trainable_tokens=sum(int(segment.loss_mask.sum()) for segment in segments),
        excluded={reason: lost for reason, lost in excluded.items() if lost},
        tool_parse_faults=sum(not each.parsed and each.finish_reason != "length" for each in generations),
        truncated=sum(each.finish_reason == "length" for each in generations),
        tool_calls=sum(generation.calls_tools for generation in generations),
        budget_hit=budget_hit,
        refused=dict(refused),
    )


def _generations(tree: TokenTree, train_roles: Collection[CallRole]) -> tuple[Generation, ...]:
    index_of = {call: index for index, call in enumerate(tree.calls)}
    role_of = roles_of([root for root in tree.roots if root.recording], tree.calls)
    fate_of = {call: fate_of_call(call) for call in tree.calls}
    excluded_of = _excluded(tree.calls, fate_of, role_of, train_roles)
    shape = route_shape(tree.calls)
    in_segments = _in_segments(call for call in tree.calls if fate_of[call] == "delivered" and not excluded_of[call])
    generations = []
    for call in tree.calls:
        routes = None
        if shape is not None and call in in_segments:
            routes = owned_routes(call, tree.calls, shape)
        parent = None if call.parent is None else index_of[call.parent]
        generations.append(_generation(call, parent, role_of[call], fate_of[call], excluded_of[call], routes))
    return tuple(generations)


def _excluded(
    calls: Sequence[Call], fates: Mapping[Call, Fate], roles: Mapping[Call, CallRole], train_roles: Collection[CallRole]
) -> dict[Call, str | None]:
    """Why delivered answers are not trained, those that are not."""
    omitted: dict[Call, str | None] = {}
    reasons: dict[Call, str | None] = {}
    for call in calls:
        omitted[call] = _omitted(call, omitted)
        role = roles[call]
        reason = omitted[call] or (None if role in train_roles else f"role_{role}")
        reasons[call] = reason if fates[call] == "delivered" else None
    return reasons


def _in_segments(trained: Iterable[Call]) -> set[Call]:
    """The calls that train, and those before them."""
    found: set[Call] = set()
    for call in trained:
        each: Call | None = call
        while each is not None and each not in found:
            found.add(each)
            each = each.parent
    return found


def fate_of_call(call: Call) -> Fate:
    """What became of an answered call; see `Fate`."""
    if call.echoed:
        return "delivered"
    others = [twin for twin in call.twins if twin is not call and twin.recording]
    if any(twin.echoed or (twin.index > call.index and (twin.written or not call.written)) for twin in others):
        return "superseded"
    return "delivered" if call.written else "abandoned"


def _omitted(call: Call, known: Mapping[Call, str | None]) -> str | None:
    """What a call's prompt held that a text model cannot see, if anything; calls before it are `known`."""
    before = None if call.parent is None else known[call.parent]
    return before or next((_reason(kind) for message in call.request.messages for kind in message.omitted), None)


def _reason(kind: str) -> Unreadable:
    """Why a call is excluded. The kind is a word of whoever wrote the request, and no key of counts may be theirs."""
    return _KINDS.get(kind, "other")


def _generation(
    call: Call, parent: int | None, role: CallRole, fate: Fate, excluded: str | None, routes: OwnedRoutes | None
) -> Generation:
    recording = call.answered()
    return Generation(
        call_id=recording.call_id,
        parent=parent,
        context_ids=call.context_ids,
        token_ids=recording.token_ids,
        logprobs=recording.logprobs,
        finish_reason=recording.finish_reason,
        weight_versions=recording.weight_versions,
        timings=recording.timings,
        role=role,
        fate=fate,
        parsed=call.turn is None or call.turn.well_formed,  # that a turn could not be read at all is no policy's doing
        calls_tools=call.turn is not None and bool(call.turn.message.tool_calls),
        excluded=excluded,
        routes=None if routes is None else routes.rows,
        routes_recorded=0 if routes is None else routes.recorded,
        kept=None if call.parent is None or call.kept == call.parent.count else call.kept,
        delivered_prefix=call.echoed if 0 < call.echoed < call.count else None,
    )


def conversation_of(end: Call) -> tuple[Message, ...]:
    """The messages from the start of a conversation to the answer of its last call."""
    messages: list[Message] = []
    chain = end.chain()
    for call, following in zip(chain, (*chain[1:], None), strict=True):
        messages += call.request.messages
        is_prefix = following is not None and following.kept < call.count  # what is left of it is in what follows
        if call.turn is not None and not is_prefix:
            messages.append(call.turn.message)
    return tuple(messages)
