"""Reads a conversation back from its rendered prompt.

Invariant: this is the inverse of the demonstration policy's own chat template (``policies/demo``) for the conversations
that a harness makes of a demonstration; tools and system prompt are left out.
"""

import re

from lego_rl.gateway.tool_calls.qwen3_coder import Qwen3CoderParser
from lego_rl.messages import Message, ToolCall

_TURN = re.compile(r"<\|im_start\|>(user|assistant)\n(.*?)<\|im_end\|>", re.DOTALL)
_RESULT = re.compile(r"<tool_response>\n(.*)\n</tool_response>", re.DOTALL)


def read_transcript(rendered: str) -> list[Message]:
    """The messages of a rendered prompt, in order."""
    messages: list[Message] = []
    for role, text in _TURN.findall(rendered):
        result = _RESULT.fullmatch(text)
        if role == "assistant":
            parsed = Qwen3CoderParser().parse(text, ())
            calls = tuple(ToolCall(f"{len(messages)}-{i}", c.name, c.arguments) for i, c in enumerate(parsed.calls))
            messages.append(Message("assistant", parsed.content, calls))
        elif result is not None:
            messages.append(Message("tool", result.group(1)))
        else:
            messages.append(Message("user", text))
    return messages
