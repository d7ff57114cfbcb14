"""The token tree of one trial: what was sampled, after what.

Invariant: a node is one model call (`Call`). Answered nodes are only ever added: a request that does not continue a
recorded answer, or a prefix of one, starts a new branch. Requests are matched by messages, tokens are never compared.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lego_rl.gateway.broken_off import Decode, is_prefix, tokens_of_prefix
from lego_rl.gateway.call import Call, Request
from lego_rl.gateway.matching import same_message, same_messages
from lego_rl.gateway.position import Position
from lego_rl.gateway.recording import Recording
from lego_rl.gateway.turn import Turn
from lego_rl.messages import Message, Tool


class TokenTree:
    """All calls of one trial.

    Args:
        decode: Of the policy's tokenizer.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._roots: list[Call] = []
        self._by_anchor: defaultdict[_Anchor, list[Call]] = defaultdict(list)
        self.begun = 0
        """Calls that were begun, and the index of the next."""
        self.calls: list[Call] = []
        """Answered calls, in the order of their start."""

    def locate(self, request: Request) -> Position:
        """Find what a request continues."""
        parent, kept, used = self._longest_match(request)
        rest = replace(request, messages=request.messages[used:])
        is_prefix = parent is not None and kept < parent.count
        blocks: list[list[Message]] = [[]]
        reused: list[Call] = []
        for message in rest.messages[is_prefix:]:
            call = self._sampled(message, request.tools) if message.role == "assistant" else None
            if call is None:
                blocks[-1].append(message)
            else:
                reused.append(call)
                blocks.append([])
        return Position(parent, kept, rest, tuple(reused), tuple(map(tuple, blocks)))

    def echo(self, position: Position) -> None:
        """Note whose answers a request holds, whether or not it will be answered itself."""
        if position.parent is not None:
            chain = position.parent.chain()
            for call, kept in zip(chain, (*(each.kept for each in chain[1:]), position.kept), strict=True):
                call.echoed = max(call.echoed, kept)
        for call in position.reused:
            call.echoed = call.count

    def begin(self, position: Position, context_ids: NDArray[np.int32]) -> Call:
        """Add the call of a request; `finish` and `read`, or `discard`, have to follow."""
        call = Call(
            self.begun,
            position.parent,
            position.request,
            position.kept,
            context_ids,
            position.known + len(context_ids),
            reused=position.reused,
            digests=position.digests,
        )
        self.begun += 1
        self.siblings(call.parent).append(call)
        return call

    def finish(self, call: Call, recording: Recording) -> None:
        """Note the engine's answer."""
        call.recording = recording
        self.calls.append(call)
        self.calls.sort(key=lambda each: each.index)

    def read(self, call: Call, turn: Turn) -> None:
        """Note the answer as the harness gets it, so that later requests can echo it."""
        call.turn = turn
        for anchor in _anchors_of(turn.message):
            self._by_anchor[anchor].append(call)

    def discard(self, call: Call) -> None:
        """Take out a call that the engine did not answer."""
        self.siblings(call.parent).remove(call)

    def drop_routes(self) -> None:
        """Hold no routes any more: a file on the disk must not wait until calls that know each other are collected."""
        for call in self.calls:
            call.recording = replace(call.answered(), routes=None)

    def twins(self, call: Call) -> list[Call]:
        """Other calls of the very same request, in the order of their start."""
        return [
            other
            for other in self.siblings(call.parent)
            if other is not call
            and other.kept == call.kept
            and other.digests == call.digests
            and call.request.is_again(other.request)
        ]

    @property
    def roots(self) -> Sequence[Call]:
        """First calls of every conversation, in the order of their start."""
        return self._roots

    def siblings(self, parent: Call | None) -> list[Call]:
        """Calls that continue `parent`, in the order of their start; without one, the roots."""
        return parent.children if parent else self._roots

    def sampled_turns(self, request: Request) -> dict[int, Call]:
        """The turns of a request that were sampled, by their place."""
        found = {
            at: self._sampled(message, request.tools)
            for at, message in enumerate(request.messages)
            if message.role == "assistant"
        }
        return {at: call for at, call in found.items() if call is not None}

    def _longest_match(self, request: Request) -> tuple[Call | None, int, int]:
        """The last call of a branch that the request continues, its ids that are kept, and the messages used up."""
        parent: Call | None = None
        kept = used = 0
        while True:
            # The newest first: of equal answers to equal requests, the last is the one that the harness got.
            asked = [
                (call, used + len(call.request.messages))
                for call in reversed(self.siblings(parent))
                if call.kept == kept and _is_asked(call, request, used)
            ]
            whole = next(((call, end) for call, end in asked if _answers(call, request, end)), None)
            if whole is not None:
                parent, kept, used = whole[0], whole[0].count, whole[1] + 1
                continue
            for call, end in asked:
                if tokens := self._tokens_of_prefix(call, request.messages[end]):
                    parent, kept, used = call, tokens, end
                    break
            else:
                return parent, kept, used

    def _tokens_of_prefix(self, call: Call, sent: Message) -> int:
        if call.turn is None or not is_prefix(call.turn, sent):
            return 0
        return tokens_of_prefix(call.answered().token_ids, call.turn, sent, self._decode)

    def _sampled(self, message: Message, tools: Sequence[Tool]) -> Call | None:
        """The call of any branch that sampled this turn: as context, it keeps the ids it was sampled with."""
        for call in reversed(self._by_anchor.get(_anchor(message), ())):
            if call.turn and same_message(call.turn.message, message, tools):
                return call
        return None


type _Anchor = tuple[str, ...]


def _anchor(message: Message) -> _Anchor:
    """The key under which an assistant's turn is found again: its first call's id, else its text and reasoning.

    It leaves few calls to be compared, whatever a harness sends: a search must not hold up the other trials.
    """
    if message.tool_calls:
        return ("call", message.tool_calls[0].id)
    return ("text", message.content.strip(), (message.reasoning or "").strip())


def _anchors_of(turn: Message) -> Iterable[_Anchor]:
    """The keys of a sampled turn: its reasoning may be left out of its echo. A turn that says nothing has none."""
    if not turn.tool_calls and not turn.content.strip():
        return ()
    return {_anchor(turn), _anchor(replace(turn, reasoning=None))}


def _is_asked(call: Call, request: Request, start: int) -> bool:
    """Whether the request holds the call's own messages from `start` on, and something after them."""
    end = start + len(call.request.messages)
    if call.turn is None or end >= len(request.messages):
        return False
    if call.parent is None and call.request.tools != request.tools:
        return False
    return same_messages(call.request.messages, request.messages[start:end], request.tools)


def _answers(call: Call, request: Request, at: int) -> bool:
    """Whether the request holds the whole of the call's answer at `at`."""
    return call.turn is not None and same_message(call.turn.message, request.messages[at], request.tools)
