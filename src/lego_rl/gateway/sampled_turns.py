"""Whose an assistant's turn is: the model call that sampled it, in whatever branch of a trial.

Invariant: a search compares few calls, whatever a harness sends, for it must not hold up the other trials.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from lego_rl.gateway.call import Call, Request
from lego_rl.gateway.matching import same_message
from lego_rl.messages import Message

type Anchor = tuple[str, ...]
"""The key under which an assistant's turn is found again."""


class SampledTurns:
    """Finds the call of any branch that sampled a turn: as context, it keeps the ids that it was sampled with.

    Words alone do not say whose they are, for a harness may invent a turn: an answer that nobody may have got is looked
    for only in the conversation that asked for it.

    Args:
        by_anchor: All calls.
        request: That holds the turns.
        before: Calls whose answers the conversation held before; of equal turns it is theirs.
    """

    def __init__(
        self, by_anchor: Mapping[Anchor, Sequence[Call]], request: Request, before: Collection[Call] = ()
    ) -> None:
        self._by_anchor = by_anchor
        self._request = request
        self._before = before
        self._found: dict[Anchor, Call | None] = {}

    def turn(self, message: Message) -> Call | None:
        """The call that sampled an assistant's message, if one did."""
        anchor = _anchor(message)
        if message.tool_calls:  # nobody else gives their ids
            return next((call for call in self._by_anchor.get(anchor, ()) if self._said(call, message)), None)
        if anchor not in self._found:  # a turn of text is its anchor
            known = (call for call in self._by_anchor.get(anchor, ()) if call.has_arrived or self._asked(call))
            of_text = (call for call in known if self._said(call, message))
            self._found[anchor] = max(of_text, key=lambda call: self._rank(call, message), default=None)
        return self._found[anchor]

    def _said(self, call: Call, message: Message) -> bool:
        return call.turn is not None and same_message(call.turn.message, message, self._request.tools)

    def _asked(self, call: Call) -> bool:
        first = call.chain()[0].request
        return first.lane == self._request.lane and _start(first) == _start(self._request)

    def _rank(self, call: Call, message: Message) -> tuple[bool, bool, bool, int]:
        """Of equal texts: one that was there before, is known to have arrived, thought the same, is newer.

        Thoughts come after that, for harnesses leave them out.
        """
        thought = (call.turn.message.reasoning or "").strip() if call.turn else ""
        return call in self._before, call.has_arrived, thought == (message.reasoning or "").strip(), call.index


def _start(request: Request) -> tuple[Message, ...]:
    """How a conversation begins: up to the first message that is not the system's."""
    first = next((at for at, each in enumerate(request.messages) if each.role != "system"), len(request.messages))
    return request.messages[: first + 1]


def _anchor(message: Message) -> Anchor:
    """The key under which an assistant's turn is found again: its first call's id, else its text and reasoning.

    It leaves few calls to be compared.
    """
    if message.tool_calls:
        return ("call", message.tool_calls[0].id)
    return ("text", message.content.strip(), (message.reasoning or "").strip())


def anchors_of(turn: Message) -> set[Anchor]:
    """The keys of a sampled turn: its reasoning may be left out of its echo. What says nothing then, is not found."""
    return {_anchor(turn), _anchor(replace(turn, reasoning=None))} - {("text", "", "")}
