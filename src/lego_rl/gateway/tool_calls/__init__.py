"""Formats in which a policy writes its tool calls, one module each.

Invariant: a parser never repairs. What is not a well-formed call stays in the content, byte for byte, and is reported.
"""

from lego_rl.errors import ConfigError
from lego_rl.gateway.tool_calls.base import ParsedCall, ParsedText, ToolCallParser
from lego_rl.gateway.tool_calls.hermes import HermesParser
from lego_rl.gateway.tool_calls.qwen3_coder import Qwen3CoderParser

__all__ = ["PARSERS", "ParsedCall", "ParsedText", "ToolCallParser", "tool_call_parser"]

PARSERS: dict[str, type[ToolCallParser]] = {"qwen3_coder": Qwen3CoderParser, "hermes": HermesParser}
"""Registry: the name in a recipe → the parser."""


def tool_call_parser(name: str) -> ToolCallParser:
    """The parser of that name.

    Raises:
        ConfigError: There is none.
    """
    if name not in PARSERS:
        raise ConfigError(f"no tool-call parser is called {name!r}", f"choose one of {', '.join(PARSERS)}")
    return PARSERS[name]()
