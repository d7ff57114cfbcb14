"""A sampled turn as the harness gets to see it: reasoning, content and tool calls.

Invariant: reading changes no token, and no text stops it. The text here is for the harness only; what is trained on are
the sampled ids.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lego_rl.gateway.tool_calls import ParsedText, ToolCallParser
from lego_rl.messages import Message, Tool, ToolCall

_LOG = logging.getLogger(__name__)
_THINK, _END_THINK = "<think>", "</think>"


@dataclass(frozen=True)
class Turn:
    """One read turn.

    Attributes:
        message: What the policy said.
        well_formed: Whether every tool call in it could be parsed.
        thought: The sampled text before the content: the reasoning and its tags.
    """

    message: Message
    well_formed: bool
    thought: str = ""


def read_turn(
    text: str, parser: ToolCallParser, tools: Sequence[Tool], new_id: Callable[[], str], *, in_reasoning: bool
) -> Turn:
    """Read a sampled text.

    Args:
        text: The text, without the stop token.
        parser: Of the format in which the policy writes its calls.
        tools: The tools offered.
        new_id: Gives tool-call ids that are unique in the session.
        in_reasoning: Whether the prompt ended inside a ``<think>`` block.
    """
    reasoning, content = _split_reasoning(text, in_reasoning=in_reasoning)
    parsed = _parse(parser, content, tools)
    calls = tuple(ToolCall(new_id(), call.name, call.arguments) for call in parsed.calls)
    message = Message("assistant", parsed.content, calls, reasoning=reasoning)
    return Turn(message, parsed.well_formed, text.removesuffix(content))


def _parse(parser: ToolCallParser, content: str, tools: Sequence[Tool]) -> ParsedText:
    try:
        return parser.parse(content, tools)
    # Everything: the text is the policy's and a parser may be anyone's. A bug that the one brings out in the other must
    # not leave a sampled turn unanswered: it counts as a malformed call, and its traceback is logged.
    except Exception:  # noqa: BLE001
        _LOG.exception("the tool-call parser failed; the turn stays text")
        return ParsedText(content, well_formed=False)


def _split_reasoning(text: str, *, in_reasoning: bool) -> tuple[str | None, str]:
    body = text.lstrip()
    if not in_reasoning and not body.startswith(_THINK):
        return None, text
    reasoning, end, content = body.removeprefix(_THINK).partition(_END_THINK)
    if not end and not in_reasoning:
        return None, text
    return reasoning.strip("\n"), content.lstrip("\n")
