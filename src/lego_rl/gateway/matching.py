"""Is what a harness sends back the turn that was sampled? Cosmetic differences say yes, rewrites say no.

Harnesses parse a turn and write it again. Seen in real runs: arguments re-ordered, re-serialised or filled with the
schema's defaults, 2000.0 as 2000, "[1]" as [1], reasoning dropped, white space around the content dropped, and a
call that the harness could not run replaced by one of its own that says so. All of these are the same turn, whose
sampled ids stay. A call that is gone, or an argument that means something else, is a rewrite.
"""

from collections.abc import Mapping, Sequence

from lego_rl.json_text import BODY_DEPTH, read_json
from lego_rl.messages import Json, Message, Tool, ToolCall

_UNREAD = ("__unparsedToolInput", "_openhands_malformed_tool_call")
"""Keys in whose place harnesses leave arguments that they cannot read."""

_NOT_RUN, _CALLED, _REASON = "invalid", "tool", "error"
"""OpenCode's own tool, which it calls in the place of one that it cannot run: its name and its arguments."""

_EXACT, _LARGEST = 2**53, 10**308
"""Up to where doubles hold every whole number, and where they end."""


def same_message(known: Message, sent: Message, tools: Sequence[Tool]) -> bool:
    """Whether `sent` is `known` again. Only assistants' messages can differ at all."""
    if known is sent:
        return True
    if known.role != "assistant" or sent.role != "assistant":
        return known == sent
    return (
        known.content.strip() == sent.content.strip()
        and same_reasoning(known.reasoning, sent.reasoning)
        and len(known.tool_calls) == len(sent.tool_calls)
        and all(_same_call(*pair, tools) for pair in zip(known.tool_calls, sent.tool_calls, strict=True))
    )


def same_messages(known: Sequence[Message], sent: Sequence[Message], tools: Sequence[Tool]) -> bool:
    """Whether `sent` are `known` again, one by one."""
    return len(known) == len(sent) and all(same_message(a, b, tools) for a, b in zip(known, sent, strict=True))


def same_reasoning(known: str | None, sent: str | None) -> bool:
    """Whether `sent` is `known` again, or was left out."""
    return sent is None or sent.strip() in {"", (known or "").strip()}


def _same_call(known: ToolCall, sent: ToolCall, tools: Sequence[Tool]) -> bool:
    # Ids are unique in a session, so the same id is the same call; its name may be a new one for the same tool.
    if known.id != sent.id or _is_another_tool(known.name, sent.name, tools):
        return False
    if _says_it_was_not_run(known, sent):
        return True
    if any(
        not _same_value(value, sent.arguments[key]) for key, value in known.arguments.items() if key in sent.arguments
    ):
        return False
    lost = [value for key, value in known.arguments.items() if key not in sent.arguments]
    added = {key: value for key, value in sent.arguments.items() if key not in known.arguments}
    return all(value is None for value in lost) and _are_defaults(added, known.name, tools)


def _is_another_tool(known: str, sent: str, tools: Sequence[Tool]) -> bool:
    """Whether two names are of two tools that are both offered. Where one is not, it is another name for the other."""
    return known != sent and {known, sent} <= {tool.name for tool in tools}


def _says_it_was_not_run(known: ToolCall, sent: ToolCall) -> bool:
    """Whether a harness put a call of its own in this one's place, for want of such a tool or of arguments it can read.

    It keeps the id, and no argument is left in its own place.
    """
    if sent.name == _NOT_RUN != known.name:
        return sent.arguments.keys() <= {_CALLED, _REASON} and sent.arguments.get(_CALLED) == known.name
    unread = any(key in sent.arguments for key in _UNREAD)
    return unread and sent.name == known.name and sent.arguments.keys().isdisjoint(known.arguments)


def _are_defaults(added: Mapping[str, Json], name: str, tools: Sequence[Tool]) -> bool:
    if not added:
        return True
    schema = next((tool.parameters for tool in tools if tool.name == name), {})
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    return all(value is None or _is_default(value, known.get(key)) for key, value in added.items())


def _is_default(value: Json, schema: Json) -> bool:
    return isinstance(schema, Mapping) and "default" in schema and _same_value(schema["default"], value)


def _same_value(known: Json, sent: Json) -> bool:
    if isinstance(known, bool) or isinstance(sent, bool):
        return known is sent or (isinstance(known, str) and known.strip().lower() == str(sent).lower())
    if isinstance(known, Mapping) and isinstance(sent, Mapping):
        return known.keys() == sent.keys() and all(_same_value(value, sent[key]) for key, value in known.items())
    if isinstance(known, list) and isinstance(sent, list):
        return len(known) == len(sent) and all(map(_same_value, known, sent))
    if isinstance(known, str) and not isinstance(sent, str):
        parsed = _parsed(known)
        return not isinstance(parsed, str) and _same_value(parsed, sent)
    return known == sent or _is_rounded(known, sent)


def _is_rounded(known: Json, sent: Json) -> bool:
    """Whether a number came through a harness that has doubles only, as JavaScript has."""
    if not isinstance(known, int) or not isinstance(sent, int | float) or not _EXACT < abs(known) < _LARGEST:
        return False
    return abs(sent) < _LARGEST and float(known) == float(sent)


def _parsed(text: str) -> Json:
    try:
        return read_json(text, depth=BODY_DEPTH)
    except ValueError:
        return text
