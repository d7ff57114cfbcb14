"""Where a request goes in the token tree, and which ids are new in it: one class a way to treat earlier reasoning.

Invariant: whichever it is, the prompt of a call is made of context and of sampled turns, and a sampled turn is its ids,
verbatim. They differ in which of the echoed turns still count as the sampled ones.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lego_rl.gateway.call import Call, Request
from lego_rl.gateway.position import Position
from lego_rl.gateway.settings import CaptureSettings
from lego_rl.gateway.template import ChatTemplate, Sheet
from lego_rl.gateway.threads import LARGE_CHARACTERS, REQUESTS
from lego_rl.gateway.tree import TokenTree
from lego_rl.messages import Message
from lego_rl.threads import in_thread


@dataclass(frozen=True)
class Placed:
    """A request that has its place.

    Attributes:
        position: Where it stands.
        context_ids: ``[C]`` int32 prompt ids after the parent's answer; none where a chat backend answers.
        prompt_tokens: Length of the whole prompt; an estimate where a chat backend answers.
    """

    position: Position
    context_ids: NDArray[np.int32]
    prompt_tokens: int

    @classmethod
    def with_ids(cls, position: Position, context_ids: NDArray[np.int32]) -> "Placed":
        """One whose prompt is known to the last id."""
        return cls(position, context_ids, position.known + len(context_ids))


class Placing(Protocol):
    """Gives requests their place in a token tree."""

    async def place(self, tree: TokenTree, found: Position, request: Request) -> Placed:
        """Place a request; `found` is what its messages say.

        Raises:
            TemplateError: The template refuses the conversation.
        """
        ...


def placing(settings: CaptureSettings, template: ChatTemplate) -> Placing:
    """The way that a recipe chooses."""
    match settings.reasoning:
        case "keep":
            return Keep(template)
        case "as_sent":
            return AsSent(template)


class Keep:
    """A sampled turn stays as it was sampled, reasoning included, whatever is left out of its echo.

    So every echoed turn is the sampled one, and only what came after the last of them is rendered.
    """

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template

    async def place(self, tree: TokenTree, found: Position, request: Request) -> Placed:
        """See `Placing.place`."""

        def ids_of(block: Sequence[Message], after: int | None) -> list[int]:
            if after is None:
                return self._template.opening(block, request.tools)
            return self._template.continuation(block, after=after)

        def render() -> NDArray[np.int32]:
            return _joined(found.blocks, found, ids_of)

        is_large = found.new_characters >= LARGE_CHARACTERS
        return Placed.with_ids(found, await in_thread(render, REQUESTS) if is_large else render())


class AsSent:
    """A turn of which the template or the harness left out the reasoning is context, as a plain server would see it.

    What a template leaves out depends on what follows, so the whole conversation is rendered for every request, and
    compared block by block with what earlier calls were asked. Only what is new in it is tokenised.
    """

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template

    async def place(self, tree: TokenTree, found: Position, request: Request) -> Placed:
        """See `Placing.place`."""
        sampled = tree.sampled_turns(request, found)
        thoughts = {at: call.turn.thought for at, call in sampled.items() if call.turn is not None}

        def render() -> Sheet:
            return self._template.sheet(request.messages, request.tools, thoughts)

        whole = replace(found, parent=None, kept=0, request=request)
        is_large = whole.new_characters >= LARGE_CHARACTERS
        sheet = await in_thread(render, REQUESTS) if is_large else render()
        position, blocks = _follow(tree, found, request, sheet, sampled)

        def encode() -> NDArray[np.int32]:
            return _joined(blocks, position, self._template.block_ids)

        return Placed.with_ids(position, await in_thread(encode, REQUESTS) if is_large else encode())


def _joined[Block](
    blocks: Sequence[Block], position: Position, ids_of: Callable[[Block, int | None], list[int]]
) -> NDArray[np.int32]:
    """``[C]`` prompt ids after the parent's answer: what is rendered, and between it the ids of the answers reused.

    Reads nothing that changes, so any thread may do it.

    Args:
        blocks: Before, between and after these answers.
        position: Of the request.
        ids_of: Ids of a block after the last id of a sampled turn, or of none at a start.
    """
    ids: list[int] = []
    after = position.last_known
    for block, call in zip(blocks, (*position.reused, None), strict=True):
        ids += ids_of(block, after)
        if call is not None:
            ids += call.answered().token_ids.tolist()
            after = ids[-1]
    return np.array(ids, np.int32)


def _follow(
    tree: TokenTree, found: Position, request: Request, sheet: Sheet, sampled: Mapping[int, Call]
) -> tuple[Position, Sequence[str]]:
    """The call that the conversation continues as it is rendered, and the blocks after it."""
    digests = tuple(hashlib.blake2b(block.encode(), digest_size=16).digest() for block in sheet.blocks)
    echoed = [sampled[at] for at in sheet.turns]
    meant = {*(found.parent.chain() if found.parent else ()), *found.reused}

    def rank(place: tuple[Call | None, int]) -> tuple[int, bool, int]:
        """Higher for what goes further, then for a call whose answer the messages hold, then for a newer one."""
        call, used = place
        return used, call in meant, -1 if call is None else call.index

    best: tuple[Call | None, int] = (None, 0)
    open_ends = [best]
    while open_ends:
        place = open_ends.pop()
        best = max(best, place, key=rank)
        parent, used = place
        for call in tree.siblings(parent):
            end = used + len(call.reused)
            if (
                end < len(echoed)
                and call.digests == digests[used : end + 1]
                and (call is echoed[end] or (call.has_arrived and call.answers_like(echoed[end], request)))
                and all(map(_same_ids, call.reused, echoed[used:end]))
            ):
                open_ends.append((call, end + 1))
    parent, used = best
    rest = request.messages[sheet.turns[used - 1] + 1 :] if used else request.messages
    kept = parent.count if parent else 0
    position = Position(parent, kept, replace(request, messages=rest), tuple(echoed[used:]), digests=digests[used:])
    return position, sheet.blocks[used:]


def _same_ids(one: Call, other: Call) -> bool:
    return np.array_equal(one.answered().token_ids, other.answered().token_ids)
