"""Tools as protocols offer them and write their calls: what the OpenAI protocols share, and free-form tools."""

from collections.abc import Collection, Mapping

from lego_rl.gateway.call import ToolChoice
from lego_rl.gateway.dialects.base import BadRequest
from lego_rl.gateway.dialects.fields import as_list, as_object, as_text, optional_object, optional_text
from lego_rl.json_text import BODY_DEPTH, TooDeepError, read_json
from lego_rl.messages import Json, Tool, ToolCall

_INPUT = "input"
"""The one argument under which the policy writes the text of a free-form tool."""


def free_form_tool(name: str, fields: Mapping[str, Json], where: str) -> Tool:
    """A tool that takes one text, as the policy sees it: a function of one argument; a grammar is part of what it does.

    Args:
        name: Under which the policy sees it.
        fields: Of the wire: ``description`` and ``format``.
        where: Place of `fields`.
    """
    description = optional_text(fields.get("description"), f"{where}.description")
    shape = optional_object(fields.get("format"), f"{where}.format")
    # Chat Completions has one level more than Responses.
    grammar = optional_object(shape.get("grammar"), f"{where}.format.grammar") or shape
    definition = optional_text(grammar.get("definition"), f"{where}.format.definition")
    text = "\n\n".join(part for part in (description, definition) if part)
    return Tool(name, text, {"type": "object", "properties": {_INPUT: {"type": "string"}}, "required": [_INPUT]})


def free_form_call(call_id: str, name: str, text: str) -> ToolCall:
    """A call of a free-form tool, as the policy writes it."""
    return ToolCall(call_id, name, {_INPUT: text})


def free_form_text(call: ToolCall) -> str | None:
    """The text of a call of a free-form tool, if its arguments are no more and no less than that."""
    text = call.arguments.get(_INPUT)
    return text if isinstance(text, str) and len(call.arguments) == 1 else None


def arguments_of(text: str, where: str) -> Mapping[str, Json]:
    """Arguments that travel as JSON text; what is no JSON object was written by a harness, and is kept as it is."""
    try:
        value = read_json(text or "{}", depth=BODY_DEPTH)
    except TooDeepError as error:
        raise BadRequest(where, str(error)) from error
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"_raw": text}


def named_choice(name: str, offered: Collection[str], where: str) -> ToolChoice:
    """The choice that names a tool, which has to be one that is offered."""
    if name not in offered:
        raise BadRequest(where, f"no tool is called {name!r}")
    return "required"


def openai_choice(value: Json, offered: Collection[str]) -> ToolChoice:
    """``tool_choice`` of either OpenAI protocol; Chat Completions has one level more.

    Args:
        value: Of the body.
        offered: Names of the tools on the wire.
    """
    match value:
        case None | "auto":
            return "auto"
        case "none":
            return "none"
        case "required":
            if not offered:
                raise BadRequest("tool_choice", "no tools are offered")
            return "required"
        case {"type": ("function" | "custom") as kind}:
            fields = as_object(value, "tool_choice")
            named = as_object(fields.get(str(kind), value), "tool_choice")
            return named_choice(as_text(named.get("name"), "tool_choice.name"), offered, "tool_choice.name")
        case {"type": "allowed_tools"}:
            allowed = as_object(as_object(value, "tool_choice").get("allowed_tools", value), "tool_choice")
            as_list(allowed.get("tools"), "tool_choice.tools")
            return "required" if allowed.get("mode") == "required" else "auto"
        case _:
            raise BadRequest("tool_choice", "expected none, auto, required, or a function or custom tool by its name")
