"""A chat backend as what answers a session: conversations go to it as the harness sends them, and messages come back.

A backend alone can count its tokens. So a prompt has the length that it reported last, and what came since is taken
for `_CHARACTERS_PER_TOKEN` characters a token until it has answered again.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lego_rl.engine.chat_protocol import ChatBackend, ChatReply, ChatSampling, PromptRefusedError, PromptTooLongError
from lego_rl.gateway.accounting import conversation_of, fate_of_call
from lego_rl.gateway.answers import Spoken
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call import Call, Request
from lego_rl.gateway.placing import Placed
from lego_rl.gateway.position import Position
from lego_rl.gateway.recording import Reply
from lego_rl.gateway.refusals import ContextOverflow, PromptRefused
from lego_rl.gateway.roles import roles_of
from lego_rl.gateway.trajectory import Accounting, BudgetHit, CallRole, Refusal
from lego_rl.gateway.transcript import NO_TOKENS, ChatCall, Transcript
from lego_rl.gateway.tree import TokenTree
from lego_rl.gateway.turn import Turn
from lego_rl.messages import Message, ToolCall

_CHARACTERS_PER_TOKEN = 4
_AT_MOST_PER_TOKEN = 8
"""Characters of a token: of code and prose on average, and of nearly any text at most."""

_USABLE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
"""Ids of tool calls that every protocol and harness can carry."""


@dataclass(frozen=True)
class ChatPolicy:
    """A policy behind a chat backend; see `Policy`. Its sampling cannot be made reproducible: a seed is not used."""

    backend: ChatBackend

    def answers(self, budget: Budget, *, temperature: float, seed: int | None) -> "ChatAnswers":
        """See `Policy`."""
        return ChatAnswers(self.backend, budget, temperature=temperature)

    async def progressed(self) -> None:
        """See `Policy`."""
        await self.backend.progressed()


class ChatAnswers:
    """One session of a chat backend; see `Answers`.

    Args:
        backend: Answers.
        budget: What the session may spend.
        temperature: Of every call.
    """

    def __init__(self, backend: ChatBackend, budget: Budget, *, temperature: float) -> None:
        self.tree = TokenTree(_kept_of)
        self._backend = backend
        self._budget = budget
        self._temperature = temperature
        self._ids: set[str] = set()
        self._made = 0

    async def far_longer(self, found: Position, limit: int) -> int | None:
        """See `Answers`."""
        tokens = found.known + found.new_characters // _AT_MOST_PER_TOKEN
        return tokens if tokens > limit else None

    async def place(self, found: Position, request: Request) -> Placed:
        """See `Answers`."""
        new = max(1, found.new_characters // _CHARACTERS_PER_TOKEN)
        return Placed(found, np.empty(0, np.int32), found.known + new)

    async def answer(self, call: Call, request: Request) -> Spoken:
        """See `Answers`."""
        left = self._budget.context_tokens - call.prompt_length
        sampling = ChatSampling(self._temperature, max(1, min(self._budget.output_tokens, left)), request.tool_choice)
        try:
            reply = await self._backend.answer(request.messages, request.tools, sampling)
        except PromptTooLongError as error:
            raise ContextOverflow(call.prompt_length, self._budget.context_tokens) from error
        except PromptRefusedError as error:
            raise PromptRefused(str(error)) from error
        kept = _kept(reply, call)
        call.prompt_length = kept.prompt_tokens
        self.tree.finish(call, kept)
        calls = tuple(replace(each, id=self._id_of(each)) for each in reply.message.tool_calls)
        turn = Turn(replace(reply.message, tool_calls=calls), reply.well_formed)
        return Spoken(turn, reply.finish_reason == "length", kept.count)

    def captured(self, budget_hit: BudgetHit | None, refused: Mapping[Refusal, int]) -> Transcript:
        """See `Answers`."""
        asked = self.tree.calls
        calls = _calls(self.tree)
        main = next((call for call, shown in zip(asked, calls, strict=True) if shown.role == "main"), None)
        return Transcript(
            calls=calls,
            conversations=tuple(conversation_of(asked[end]) for end in _ends(calls)),
            tools=() if main is None else main.request.tools,
            accounting=_account(calls, budget_hit, refused),
        )

    def close(self) -> None:
        """See `Answers`; nothing is open."""

    def drop_routes(self) -> None:
        """See `Answers`; there are none."""

    def _id_of(self, call: ToolCall) -> str:
        """The backend's own id, which some ask to get back as it was, where it is one and no other call has it."""
        chosen = call.id
        while not _USABLE_ID.fullmatch(chosen) or chosen in self._ids:
            self._made += 1
            chosen = f"call_{self._made:06d}"
        self._ids.add(chosen)
        return chosen


def _kept_of(call: Call, turn: Turn, sent: Message) -> int:
    """Of an answer without tokens, no beginning is known: its echo begins a conversation of its own."""
    return 0


def _kept(reply: ChatReply, call: Call) -> Reply:
    said = reply.message
    characters = len(said.content) + len(said.reasoning or "") + sum(len(str(each)) for each in said.tool_calls)
    tokens = characters // _CHARACTERS_PER_TOKEN if reply.answer_tokens is None else reply.answer_tokens
    return Reply(
        call_id=reply.call_id,
        finish_reason=reply.finish_reason,
        timings=reply.timings,
        prompt_tokens=call.prompt_length if reply.prompt_tokens is None else reply.prompt_tokens,
        count=max(1, tokens),
    )


def _calls(tree: TokenTree) -> tuple[ChatCall, ...]:
    index_of = {call: index for index, call in enumerate(tree.calls)}
    roles = roles_of([root for root in tree.roots if root.recording], tree.calls)
    return tuple(_call(call, None if call.parent is None else index_of[call.parent], roles[call]) for call in index_of)


def _call(call: Call, parent: int | None, role: CallRole) -> ChatCall:
    reply = call.replied()
    return ChatCall(
        call_id=reply.call_id,
        parent=parent,
        prompt_tokens=reply.prompt_tokens,
        answer_tokens=reply.count,
        finish_reason=reply.finish_reason,
        timings=reply.timings,
        role=role,
        fate=fate_of_call(call),
        parsed=call.turn is None or call.turn.well_formed,
        calls_tools=call.turn is not None and bool(call.turn.message.tool_calls),
    )


def _ends(calls: tuple[ChatCall, ...]) -> list[int]:
    """The last call of every chain of delivered calls; first those of the main conversation."""
    delivered = [index for index, call in enumerate(calls) if call.fate == "delivered"]
    continued = {calls[index].parent for index in delivered}
    return sorted(set(delivered) - continued, key=lambda index: (calls[index].role != "main", index))


def _account(calls: tuple[ChatCall, ...], budget_hit: BudgetHit | None, refused: Mapping[Refusal, int]) -> Accounting:
    excluded: Counter[str] = Counter()
    for call in calls:
        excluded[NO_TOKENS if call.fate == "delivered" else call.fate] += call.answer_tokens
    return Accounting(
        calls=len(calls),
        sampled_tokens=excluded.total(),
        delivered_tokens=excluded[NO_TOKENS],
        excluded={reason: tokens for reason, tokens in excluded.items() if tokens},
        tool_parse_faults=sum(not call.parsed and call.finish_reason != "length" for call in calls),
        truncated=sum(call.finish_reason == "length" for call in calls),
        tool_calls=sum(call.calls_tools for call in calls),
        budget_hit=budget_hit,
        refused=dict(refused),
    )
