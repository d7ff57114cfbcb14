"""The parser of a request that allows no calls: whatever the policy writes is text."""

from collections.abc import Sequence

from lego_rl.gateway.tool_calls.base import ParsedText
from lego_rl.messages import Tool


class TextParser:
    """See the module."""

    def parse(self, text: str, tools: Sequence[Tool]) -> ParsedText:
        """All of it is content; see `ToolCallParser.parse`."""
        return ParsedText(text)
