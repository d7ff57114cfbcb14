"""The ``hermes`` format: one JSON object a call.

    <tool_call>
    {"name": NAME, "arguments": {KEY: VALUE, ...}}
    </tool_call>

A call ends where its object does, so an argument may itself hold ``</tool_call>``. The values are what the JSON says;
no schema changes them. Format: Hermes, Qwen2.5 and Qwen3 chat templates; the same text is read by vLLM's parser of that
name.
"""

import json
import re
from collections.abc import Sequence

from lego_rl.gateway.tool_calls.base import ParsedCall, ParsedText, said_between
from lego_rl.json_text import VALUE_DEPTH, read_json
from lego_rl.messages import Tool

_OPEN = re.compile(r"<tool_call>\s*(?=\{)")
_CLOSE = re.compile(r"\s*</tool_call>")
_MARKER = re.compile(r"</?tool_call>")
_CALL_DEPTH = VALUE_DEPTH + 2
_JSON = json.JSONDecoder()


class HermesParser:
    """See the module."""

    def parse(self, text: str, tools: Sequence[Tool]) -> ParsedText:
        """Read every object; see `ToolCallParser.parse`."""
        calls: list[ParsedCall] = []
        kept: list[str] = []
        position = 0
        for opening in _OPEN.finditer(text):
            if opening.start() < position:
                continue
            found = _read_call(text, opening.end())
            if found is None:
                continue
            call, end = found
            calls.append(call)
            kept.append(text[position : opening.start()])
            position = end
        if not calls:
            return ParsedText(text, (), not _MARKER.search(text))
        content = said_between([*kept, text[position:]])
        return ParsedText(content, tuple(calls), not _MARKER.search(content))


def _read_call(text: str, start: int) -> tuple[ParsedCall, int] | None:
    """The call whose object begins at `start` and where it ends, or ``None`` if it is malformed."""
    try:
        _, end = _JSON.raw_decode(text, start)
        call = read_json(text[start:end], depth=_CALL_DEPTH)
    except (ValueError, RecursionError):
        return None
    closing = _CLOSE.match(text, end)
    if closing is None or not isinstance(call, dict):
        return None
    name, arguments = call.get("name"), call.get("arguments")
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return None
    return ParsedCall(name, arguments), closing.end()
