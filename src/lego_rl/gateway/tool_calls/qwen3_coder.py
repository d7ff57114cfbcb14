"""The ``qwen3_coder`` format: one XML-like block a call, one element a parameter.

    <tool_call>
    <function=NAME>
    <parameter=KEY>
    VALUE
    </parameter>
    </function>
    </tool_call>

A value is everything between one newline after ``<parameter=KEY>`` and one newline before the ``</parameter>`` that is
followed by the next parameter or the end of the function, so a value may itself hold ``</parameter>``.
Format: Qwen3-Coder and Qwen3.5 chat templates; the same text is read by vLLM's parser of that name.
"""

import re
from collections.abc import Mapping, Sequence

from lego_rl.gateway.tool_calls.base import ParsedCall, ParsedText
from lego_rl.gateway.tool_calls.coerce import coerce
from lego_rl.messages import Json, Tool

_OPEN = re.compile(r"<tool_call>\s*<function=([^\s<>]+)>\s*")
_PARAMETER = re.compile(r"<parameter=([^\s<>]+)>\n?(.*?)\n?</parameter>\s*(?=<parameter=|</function>)", re.DOTALL)
_CLOSE = re.compile(r"</function>\s*</tool_call>")
_MARKER = re.compile(r"</?tool_call>|<function=|</function>")


class Qwen3CoderParser:
    """See the module."""

    def parse(self, text: str, tools: Sequence[Tool]) -> ParsedText:
        """Read every block; see `ToolCallParser.parse`."""
        schemas = {tool.name: tool.parameters for tool in tools}
        calls: list[ParsedCall] = []
        kept: list[str] = []
        position = 0
        for opening in _OPEN.finditer(text):
            if opening.start() < position:
                continue
            block = _read_block(text, opening, schemas)
            if block is None:
                continue
            call, end = block
            calls.append(call)
            kept.append(text[position : opening.start()])
            position = end
        kept.append(text[position:])
        if not calls:
            return ParsedText(text, (), not _MARKER.search(text))
        # White space around a call belongs to the format, not to what the policy says.
        content = "\n".join(part for part in (kept[0].rstrip(), *map(str.strip, kept[1:])) if part)
        return ParsedText(content, tuple(calls), not _MARKER.search(content))


def _read_block(
    text: str, opening: re.Match[str], schemas: Mapping[str, Mapping[str, Json]]
) -> tuple[ParsedCall, int] | None:
    name = opening.group(1)
    properties = schemas.get(name, {}).get("properties")
    types = properties if isinstance(properties, Mapping) else {}
    arguments: dict[str, Json] = {}
    position = opening.end()
    while parameter := _PARAMETER.match(text, position):
        key, value = parameter.groups()
        if key in arguments:
            return None
        arguments[key] = coerce(value, types.get(key))
        position = parameter.end()
    closing = _CLOSE.match(text, position)
    return (ParsedCall(name, arguments), closing.end()) if closing else None
