"""The ``qwen3_coder`` format: one XML-like block a call, one element a parameter.

    <tool_call>
    <function=NAME>
    <parameter=KEY>
    VALUE
    </parameter>
    </function>
    </tool_call>

A value is everything between one newline after ``<parameter=KEY>`` and one newline before the ``</parameter>`` that is
followed by the next parameter or the end of the function, so a value may itself hold ``</parameter>``. A text is
searched for these ends once, however many calls it begins: a policy that repeats itself must not hold up other trials.
Format: Qwen3-Coder and Qwen3.5 chat templates; the same text is read by vLLM's parser of that name.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from lego_rl.gateway.tool_calls.base import ParsedCall, ParsedText, said_between
from lego_rl.gateway.tool_calls.coerce import coerce
from lego_rl.messages import Json, Tool

_OPEN = re.compile(r"<tool_call>\s*<function=([^\s<>]+)>\s*")
_PARAMETER = re.compile(r"<parameter=([^\s<>]+)>\n?")
_END = re.compile(r"</parameter>\s*(?=<parameter=|</function>)")
_CLOSE = re.compile(r"</function>\s*</tool_call>")
_MARKER = re.compile(r"</?tool_call>|<function=|</function>")


class Qwen3CoderParser:
    """See the module."""

    def parse(self, text: str, tools: Sequence[Tool]) -> ParsedText:
        """Read every block; see `ToolCallParser.parse`."""
        schemas = {tool.name: tool.parameters for tool in tools}
        ends = [found.span() for found in _END.finditer(text)]
        calls: list[ParsedCall] = []
        kept: list[str] = []
        position = 0
        for opening in _OPEN.finditer(text):
            if opening.start() < position:
                continue
            block = _read_block(text, opening, ends, schemas)
            if block is None:
                continue
            call, end = block
            calls.append(call)
            kept.append(text[position : opening.start()])
            position = end
        if not calls:
            return ParsedText(text, (), not _MARKER.search(text))
        content = said_between([*kept, text[position:]])
        return ParsedText(content, tuple(calls), not _MARKER.search(content))


def _read_block(
    text: str, opening: re.Match[str], ends: Sequence[tuple[int, int]], schemas: Mapping[str, Mapping[str, Json]]
) -> tuple[ParsedCall, int] | None:
    """The call that `opening` begins and where it ends, or ``None`` if it is malformed.

    Args:
        text: The whole text.
        opening: Where the call begins.
        ends: ``[start, end)`` of everything in `text` that can end a parameter, in order.
        schemas: JSON schema of the parameters by tool.
    """
    values: dict[str, tuple[int, int]] = {}
    position = opening.end()
    while parameter := _PARAMETER.match(text, position):
        key, start = parameter.group(1), parameter.end()
        found = bisect_left(ends, (start, 0))
        if key in values or found == len(ends):
            return None
        end, position = ends[found]
        values[key] = (start, end)
    closing = _CLOSE.match(text, position)
    if closing is None:
        return None
    name = opening.group(1)
    properties = schemas.get(name, {}).get("properties")
    types = properties if isinstance(properties, Mapping) else {}
    arguments = {
        key: coerce(text[start:end].removesuffix("\n"), types.get(key)) for key, (start, end) in values.items()
    }
    return ParsedCall(name, arguments), closing.end()
