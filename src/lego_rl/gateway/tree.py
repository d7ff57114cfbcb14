"""The token tree of one trial: what was sampled, or what a chat backend replied, after what.

Invariant: a node is one model call (`Call`). Answered nodes are only ever added: a request that does not continue a
recorded answer, or a prefix of one, starts a new branch. Requests are matched by messages, tokens are never compared.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lego_rl.gateway.broken_off import is_prefix
from lego_rl.gateway.call import Call, Request
from lego_rl.gateway.matching import same_message, same_messages
from lego_rl.gateway.position import Position
from lego_rl.gateway.recording import Recording, Reply
from lego_rl.gateway.sampled_turns import Anchor, SampledTurns, anchors_of
from lego_rl.gateway.turn import Turn
from lego_rl.messages import Message

type KeptOf = Callable[[Call, Turn, Message], int]
"""Tokens of a call's answer, read as a turn, that an echo of its beginning holds; 0 where it holds none."""


@dataclass(frozen=True)
class _Match:
    """How far a request follows a branch.

    Attributes:
        call: The last call whose answer it echoes.
        kept: Sampled ids of that answer that it holds.
        used: Messages up to there; what is left of an answer that it does not hold whole comes after them.
    """

    call: Call | None = None
    kept: int = 0
    used: int = 0

    def rank(self, lane: str) -> tuple[int, bool, bool, int]:
        """Higher for what follows more of the request of `lane`, then for an answer to the same agent, then for one
        that arrived, then for a newer one."""
        if self.call is None:
            return self.used, False, False, -1
        return self.used, self.call.request.lane == lane, self.call.has_arrived, self.call.index


class TokenTree:
    """All calls of one trial.

    Args:
        kept_of: How much of an answer an echo of its beginning holds.
    """

    def __init__(self, kept_of: KeptOf) -> None:
        self._kept_of = kept_of
        self._roots: list[Call] = []
        self._by_anchor: defaultdict[Anchor, list[Call]] = defaultdict(list)
        self._on_their_way: list[Call] = []
        self.begun = 0
        """Calls that were begun, and the index of the next."""
        self.calls: list[Call] = []
        """Answered calls, in the order of their start."""

    def locate(self, request: Request) -> Position:
        """Find what a request continues."""
        found = self._longest_match(request)
        rest = replace(request, messages=request.messages[found.used :])
        # Where an answer is not held whole, the first message is what is left of it.
        is_cut = found.call is not None and found.kept < found.call.count
        new = rest.messages[1:] if is_cut else rest.messages
        blocks: list[list[Message]] = [[]]
        reused: list[Call] = []
        sampled = SampledTurns(self._by_anchor, request)
        for message in new:
            call = sampled.turn(message) if message.role == "assistant" else None
            if call is None:
                blocks[-1].append(message)
            else:
                reused.append(call)
                blocks.append([])
        return Position(found.call, found.kept, rest, tuple(reused), tuple(map(tuple, blocks)))

    def echo(self, request: Request, position: Position) -> None:
        """Note whose answers a request holds, whether or not it will be answered itself."""
        self.continued(position)
        if position.parent is not None and position.leaves_out_calls and position.parent.written:
            position.parent.echoed = position.parent.count  # the harness had them, and took them out
        for reused in position.reused:
            reused.echoed = reused.count
        self._echo_by_ids(request)

    def continued(self, position: Position) -> None:
        """Note that a request continues a call, and with it those before it."""
        call, kept = position.parent, position.kept
        while call is not None:
            call.echoed = max(call.echoed, kept)
            kept, call = call.kept, call.parent

    def begin(self, position: Position, context_ids: NDArray[np.int32], prompt_length: int) -> Call:
        """Add the call of a request; `finish` and `read`, or `discard`, have to follow."""
        call = Call(
            self.begun,
            position.parent,
            position.request,
            position.kept,
            context_ids,
            prompt_length,
            reused=position.reused,
            digests=position.digests,
        )
        self.begun += 1
        siblings = self.siblings(call.parent)
        call.twins = next((first.twins for first in _firsts(siblings) if position.asked_by(first)), [])
        call.twins.append(call)
        siblings.append(call)
        return call

    def finish(self, call: Call, recording: Recording | Reply) -> None:
        """Note the engine's answer."""
        call.recording = recording
        insort(self.calls, call, key=lambda each: each.index)

    def read(self, call: Call, turn: Turn) -> None:
        """Note the answer as the harness gets it, so that later requests can echo it."""
        call.turn = turn
        self._on_their_way.append(call)
        for anchor in anchors_of(turn.message):
            self._by_anchor[anchor].append(call)

    def discard(self, call: Call) -> None:
        """Take out a call that the engine did not answer."""
        self.siblings(call.parent).remove(call)
        call.twins.remove(call)

    def drop_routes(self) -> None:
        """Hold no routes any more: a file on the disk must not wait until calls that know each other are collected."""
        for call in self.calls:
            call.recording = replace(call.answered(), routes=None)

    @property
    def roots(self) -> Sequence[Call]:
        """First calls of every conversation, in the order of their start."""
        return self._roots

    def siblings(self, parent: Call | None) -> list[Call]:
        """Calls that continue `parent`, in the order of their start; without one, the roots."""
        return parent.children if parent else self._roots

    def sampled_turns(self, request: Request, found: Position) -> dict[int, Call]:
        """The turns of a request that were sampled, by their place; `found` is what it continues by its messages."""
        chain = found.parent.chain() if found.parent else []
        turns: dict[int, Call] = {}
        place = 0
        for call, kept in zip(chain, (*(each.kept for each in chain[1:]), found.kept), strict=bool(chain)):
            place += len(call.request.messages)
            if kept == call.count:
                turns[place] = call
                place += 1
        before = {each for call in chain for each in call.reused}
        sampled = SampledTurns(self._by_anchor, request, before)
        for at, message in enumerate(request.messages):
            if message.role == "assistant" and at not in turns and (said := sampled.turn(message)) is not None:
                turns[at] = said
        return turns

    def _longest_match(self, request: Request) -> _Match:
        """Of all branches that the request follows, where it goes furthest.

        Equal answers to equal requests begin branches of their own, and any of them may be the one that goes on.
        """
        best = _Match()
        open_ends = [best]
        while open_ends:
            found = self._straight_on(open_ends.pop(), request)
            best = max(best, found, key=lambda match: match.rank(request.lane))
            for first in _firsts(self.siblings(found.call)):
                open_ends += self._matches(first, request, found)
        return best

    def _straight_on(self, found: _Match, request: Request) -> _Match:
        """How far a request goes on without a choice between branches, and with nothing but the very objects that the
        last one held: that far, nearly all of every request, there is nothing to compare."""
        call, kept, used = found.call, found.kept, found.used
        while len(siblings := self.siblings(call)) == 1:
            only = siblings[0]
            asked = only.request.messages
            end = used + len(asked)
            if (
                only.kept != kept
                or end >= len(request.messages)
                or only.echo is not request.messages[end]
                or asked != request.messages[used:end]
                or (call is None and only.request.tools != request.tools)
            ):
                break
            call, kept, used = only, only.count, end + 1
        return _Match(call, kept, used)

    def _matches(self, first: Call, request: Request, before: _Match) -> Iterator[_Match]:
        """How far a request follows each of the calls that asked the same after `before`, those that it follows."""
        end = before.used + len(first.request.messages)
        if first.kept != before.kept or end >= len(request.messages):
            return
        if first.parent is None and first.request.tools != request.tools:
            return
        if not same_messages(first.request.messages, request.messages[before.used : end], request.tools):
            return
        sent = request.messages[end]
        for call in first.twins:
            if call.turn is None:
                continue
            # Bodies are read once: of most requests, an echo is the very object that the last one held. All requests
            # that get here offer the tools of the conversation's first, so it is the same turn again.
            if call.echo is sent or same_message(call.turn.message, sent, request.tools):
                call.echo = sent
                yield _Match(call, call.count, end + 1)
            elif is_prefix(call.turn, sent):
                kept = self._kept_of(call, call.turn, sent)
                if kept:
                    yield _Match(call, kept, end)

    def _echo_by_ids(self, request: Request) -> None:
        """Whoever names all calls of an answer by their ids, which nobody else gives, has it, however it is written."""
        self._on_their_way = [call for call in self._on_their_way if not call.has_arrived]
        if not self._on_their_way:
            return
        named = {call.id for message in request.messages for call in message.tool_calls}
        for call in self._on_their_way:
            own = {made.id for made in call.turn.message.tool_calls} if call.turn else set()
            if own and own <= named:
                call.echoed = call.count


def _firsts(siblings: Sequence[Call]) -> Iterator[Call]:
    """One of the calls of every request: what is asked many times is compared once."""
    return (call for call in siblings if call.twins[0] is call)
