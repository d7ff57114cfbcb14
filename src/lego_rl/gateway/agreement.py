"""Whether the parts of a stored trajectory belong together: files are copied, mixed up and written over.

Invariant: what passes has calls from which segments can be built, and counts that are those of these very calls.
"""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from lego_rl.errors import CaptureError
from lego_rl.gateway.accounting import account
from lego_rl.gateway.recording import covers
from lego_rl.gateway.segments import last_calls
from lego_rl.gateway.trajectory import Generation, Trajectory

_FIX = "restore the trial's folder from a copy, or run the trial again"


def check_calls(calls: Sequence[Generation]) -> None:
    """Refuse calls that contradict themselves or each other.

    Args:
        calls: All of a trial.

    Raises:
        CaptureError: They do.
    """
    if len({call.call_id for call in calls}) < len(calls):
        raise CaptureError("two calls have one id", _FIX)
    for index, call in enumerate(calls):
        wrong = _wrong(calls, index)
        if wrong:
            raise CaptureError(f"call {index} ({call.call_id}) {wrong}", _FIX)


def check_agreement(trajectory: Trajectory) -> None:
    """Refuse a trajectory whose calls, conversations and counts are not of one trial.

    Raises:
        CaptureError: They are not.
    """
    chains = len(last_calls(trajectory.generations))
    if len(trajectory.conversations) != chains:
        raise CaptureError(f"{len(trajectory.conversations)} conversations for {chains} chains of calls", _FIX)
    said = trajectory.accounting
    counted = account(trajectory.generations, trajectory.segments, said.budget_hit, said.refused)
    for field in fields(said):
        one, other = getattr(said, field.name), getattr(counted, field.name)
        if one != other:
            raise CaptureError(f"the counts say {field.name} {one}, the calls {other}", _FIX)


def _wrong(calls: Sequence[Generation], index: int) -> str:
    """What is wrong with a call, if anything."""
    call = calls[index]
    count = len(call.token_ids)
    if not count or len(call.logprobs) != count or not np.isfinite(call.logprobs).all():
        return f"has {len(call.logprobs)} log-probs for {count} tokens, or not all finite"
    if call.token_ids.min() < 0 or call.context_ids.min(initial=0) < 0:
        return "has a token below 0"
    if not covers(call.weight_versions, count):
        return f"has weight versions that do not cover its {count} tokens in order"
    if call.parent is not None and not 0 <= call.parent < index:
        return f"continues call {call.parent}, which is none before it"
    if call.kept is not None and (call.parent is None or not 0 <= call.kept <= len(calls[call.parent].token_ids)):
        return f"keeps {call.kept} tokens that the call before it has not"
    if call.delivered_prefix is not None and not 0 <= call.delivered_prefix <= count:
        return f"was delivered up to token {call.delivered_prefix} of {count}"
    rows = len(call.context_ids) + count - (call.parent is None)
    if call.routes is not None and (len(call.routes) != rows or not 0 <= call.routes_recorded <= rows):
        return f"has {len(call.routes)} rows of routes, {call.routes_recorded} of them recorded, for {rows} positions"
    return ""
