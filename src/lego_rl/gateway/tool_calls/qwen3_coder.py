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
searched for these ends once, and what a malformed call has read is not read again as the beginning of another: a policy
that repeats itself must not hold up other trials.
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
        position = malformed = 0
        for opening in _OPEN.finditer(text):
            if opening.start() < max(position, malformed):
                continue
            values, end = _read_values(text, opening.end(), ends)
            closing = _CLOSE.match(text, end) if values is not None else None
            if values is None or closing is None:
                malformed = end
                continue
            name = opening.group(1)
            calls.append(ParsedCall(name, _typed(values, schemas.get(name, {}))))
            kept.append(text[position : opening.start()])
            position = closing.end()
        if not calls:
            return ParsedText(text, (), not _MARKER.search(text))
        content = said_between([*kept, text[position:]])
        return ParsedText(content, tuple(calls), not _MARKER.search(content))


def _read_values(text: str, position: int, ends: Sequence[tuple[int, int]]) -> tuple[dict[str, str] | None, int]:
    """The parameters of a call, as they are written, and where they end; ``None`` and how far it was read otherwise.

    Args:
        text: The whole text.
        position: Where the first parameter would begin.
        ends: ``[start, end)`` of everything in `text` that can end a parameter, in order.
    """
    values: dict[str, str] = {}
    while parameter := _PARAMETER.match(text, position):
        key, start = parameter.group(1), parameter.end()
        found = bisect_left(ends, (start, 0))
        if key in values or found == len(ends):
            return None, start
        end, position = ends[found]
        values[key] = text[start:end].removesuffix("\n")
    return values, position


def _typed(values: Mapping[str, str], schema: Mapping[str, Json]) -> dict[str, Json]:
    """The arguments that the texts of the parameters stand for, by the tool's JSON schema."""
    properties = schema.get("properties")
    types = properties if isinstance(properties, Mapping) else {}
    return {key: coerce(value, types.get(key)) for key, value in values.items()}
