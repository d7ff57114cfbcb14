"""Does a parser read the calls that a chat template writes? Asked before a run starts, for the two are chosen apart.

A policy was trained on the format of its template. With a parser of another format every call would stay text, and a
run would learn from harnesses that were never asked to do anything.
"""

from lego_rl.errors import ConfigError
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import PARSERS, tool_call_parser
from lego_rl.gateway.tool_calls.base import ParsedCall, ParsedText
from lego_rl.messages import Message, Tool, ToolCall

_TOOL = Tool(
    "read_lines",
    "Read lines of a file.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "count": {"type": "integer"},
            "numbered": {"type": "boolean"},
            "parts": {"type": "array", "items": {"type": "string"}},
        },
    },
)
_CALLS = (
    ToolCall("call_1", _TOOL.name, {"path": 'a "b"\n<c>.py', "count": 3, "numbered": True}),
    ToolCall("call_2", _TOOL.name, {"path": "d.py", "parts": ["e", "f"]}),
)
_SAID = "I look."


def check_parser(template: ChatTemplate, name: str) -> None:
    """Write two calls with the template and read them with the parser.

    Raises:
        ConfigError: There is no such parser, or it reads anything else.
        TemplateError: The template refuses tool calls.
    """
    tool_call_parser(name)
    text = _written(template)
    if _reads(name, text):
        return
    others = fitting_parsers(template)
    raise ConfigError(
        f"the tool parser {name!r} cannot read the calls that the chat template writes: {text!r}",
        f"set policy.tool_parser = {others[0]!r}" if others else "use a chat template of a format that a parser reads",
    )


def fitting_parsers(template: ChatTemplate) -> list[str]:
    """The parsers that read the calls that a template writes.

    Raises:
        TemplateError: The template refuses tool calls.
    """
    text = _written(template)
    return [name for name in PARSERS if _reads(name, text)]


def _written(template: ChatTemplate) -> str:
    return template.written(Message("assistant", _SAID, _CALLS), [_TOOL])


def _reads(name: str, text: str) -> bool:
    calls = tuple(ParsedCall(call.name, call.arguments) for call in _CALLS)
    return PARSERS[name]().parse(text, [_TOOL]) == ParsedText(_SAID, calls)
