"""From the token tree to a `Trajectory`: segments, generations, and every sampled token accounted for."""

from collections import Counter
from collections.abc import Mapping

from lego_rl.gateway.recording import Recording
from lego_rl.gateway.segments import build_segments, fates, leaves
from lego_rl.gateway.trajectory import Accounting, Fate, Generation, Trajectory
from lego_rl.gateway.tree import Call, TokenTree
from lego_rl.messages import Message


def trajectory_of(tree: TokenTree, budget_hit: str | None, refused: Mapping[str, int]) -> Trajectory:
    """Everything a session captured.

    Raises:
        CaptureError: Calls contradict each other.
    """
    fate_of = fates(tree)
    ends = leaves(fate_of)
    segments = build_segments(ends, tree.calls)
    sampled = Counter[Fate]()
    for call, fate in fate_of.items():
        sampled[fate] += len(_recording(call).token_ids)
    trainable = sum(int(segment.loss_mask.sum()) for segment in segments)
    index_of = {call: index for index, call in enumerate(tree.calls)}
    main = next((call for call in ends if call.role == "main"), None)
    return Trajectory(
        segments=segments,
        generations=tuple(_generation(call, index_of, fate_of[call]) for call in tree.calls),
        conversations=tuple(_conversation(end) for end in ends),
        tools=main.chain()[0].request.tools if main else (),
        accounting=Accounting(
            calls=len(tree.calls),
            sampled_tokens=sampled.total(),
            delivered_tokens=sampled["delivered"],
            trainable_tokens=trainable,
            excluded={fate: sampled[fate] for fate in ("superseded", "abandoned") if sampled[fate]},
            tool_parse_faults=sum(call.turn is not None and not call.turn.well_formed for call in tree.calls),
            budget_hit=budget_hit,
            refused=dict(refused),
        ),
    )


def _generation(call: Call, index_of: Mapping[Call, int], fate: Fate) -> Generation:
    recording = _recording(call)
    return Generation(
        call_id=recording.call_id,
        parent=None if call.parent is None else index_of[call.parent],
        context_ids=call.context_ids,
        token_ids=recording.token_ids,
        logprobs=recording.logprobs,
        finish_reason=recording.finish_reason,
        weight_versions=recording.weight_versions,
        timings=recording.timings,
        role=call.role,
        fate=fate,
        parsed=call.turn is None or call.turn.well_formed,
    )


def _conversation(end: Call) -> tuple[Message, ...]:
    messages: list[Message] = []
    for call in end.chain():
        messages += call.request.messages
        if call.turn is not None:
            messages.append(call.turn.message)
    return tuple(messages)


def _recording(call: Call) -> Recording:
    assert call.recording is not None, "the tree lists answered calls only"
    return call.recording
