"""The input of the OpenAI Responses API: items to messages, and tools in all their shapes.

Invariant: an assistant's turn is one message, as in the other protocols. Its items come in the order in which this
gateway writes them, reasoning, text, calls; whatever goes back in that order begins the next turn. An item that has no
place in a text conversation, such as the record of a hosted tool, is named in its place like an image.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lego_rl.gateway.dialects.base import BadRequest, ToolForm
from lego_rl.gateway.dialects.fields import (
    as_list,
    as_object,
    as_text,
    each_once,
    optional_list,
    optional_object,
    optional_text,
)
from lego_rl.gateway.dialects.parts import Said, said
from lego_rl.gateway.dialects.tools import arguments_of, free_form_call, free_form_tool
from lego_rl.messages import Json, Message, Tool, ToolCall

type Offered = list[tuple[Tool, ToolForm | None]]
"""Tools as the policy sees them, each with how its calls are written, where it is no plain function."""


@dataclass(frozen=True)
class Thought:
    """The assistant's reasoning, with which a turn begins; ``None`` where only the provider can read it."""

    text: str | None


type Item = Message | Thought | Said | ToolCall | Offered
"""An item, read by itself: a message that is not the assistant's; its reasoning, its text or a call; or tools."""


class RequestBuilder:
    """Puts the messages and tools of a request together, item by item.

    Attributes:
        messages: Finished ones.
        tools: Offered so far.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.tools: Offered = []
        self._reasoning: str | None = None
        self._text: Said | None = None
        self._calls: list[ToolCall] = []

    def add(self, item: Item) -> None:
        """Add an item."""
        match item:
            case Message():
                self.finish()
                self.messages.append(item)
            case Thought(None):
                pass
            case Thought(text):
                self.finish()
                self._reasoning = text
            case Said():
                if self._text is not None or self._calls:
                    self.finish()
                self._text = item
            case ToolCall():
                self._calls.append(item)
            case list():
                self.tools += item

    def finish(self) -> None:
        """End the assistant's turn, if one was begun."""
        if self._reasoning is not None or self._text is not None or self._calls:
            text = self._text or Said("")
            self.messages.append(
                Message("assistant", text.text, tuple(self._calls), reasoning=self._reasoning, omitted=text.omitted)
            )
        self._reasoning, self._text, self._calls = None, None, []


def read_input(fields: Mapping[str, Json]) -> RequestBuilder:
    """The conversation of a request body.

    Raises:
        BadRequest: It breaks the protocol, or asks for items that only a server that stores them has.
    """
    conversation = RequestBuilder()
    instructions = optional_text(fields.get("instructions"), "instructions")
    if instructions:
        conversation.add(Message("system", instructions))
    conversation.add(_tools(fields.get("tools"), "tools"))
    given = fields.get("input")
    if isinstance(given, str):
        conversation.add(Message("user", given))
    else:
        for item in each_once(_item, as_list(given, "input"), "input[{}]"):
            conversation.add(item)
    conversation.finish()
    if not conversation.messages:
        raise BadRequest("input", "at least one item is required")
    return conversation


def tool_name(name: str, namespace: str | None) -> str:
    """The name that the policy sees."""
    return f"{namespace}.{name}" if namespace else name


def _tools(value: Json, where: str) -> Offered:
    """Tools of a list. Those that the provider runs (``web_search`` …) are not offered: the policy cannot know them."""
    offered: Offered = []
    for index, tool in enumerate(optional_list(value, where)):
        place = f"{where}[{index}]"
        offered += _tool(as_object(tool, place), place)
    return offered


def _tool(
    fields: Mapping[str, Json], where: str, namespace: str | None = None
) -> Iterator[tuple[Tool, ToolForm | None]]:
    kind = fields.get("type")
    if kind == "namespace":
        holder = as_text(fields.get("name"), f"{where}.name")
        for index, held in enumerate(as_list(fields.get("tools"), f"{where}.tools")):
            place = f"{where}.tools[{index}]"
            yield from _tool(as_object(held, place), place, holder)
        return
    if kind not in ("function", "custom"):
        as_text(kind, f"{where}.type")
        return
    name = as_text(fields.get("name"), f"{where}.name")
    seen = tool_name(name, namespace)
    if kind == "custom":
        yield free_form_tool(seen, fields, where), ToolForm(name, namespace, free_form=True)
        return
    tool = Tool(
        seen,
        optional_text(fields.get("description"), f"{where}.description"),
        optional_object(fields.get("parameters"), f"{where}.parameters"),
    )
    yield tool, None if namespace is None else ToolForm(name, namespace)


def _item(fields: Mapping[str, Json], where: str) -> Item:
    kind = as_text(fields.get("type", "message"), f"{where}.type")
    match kind:
        case "message":
            return _message(fields, where)
        case "reasoning":
            return _thought(fields, where)
        case "function_call" | "custom_tool_call":
            return _call(fields, where, free_form=kind == "custom_tool_call")
        case "function_call_output" | "custom_tool_call_output":
            result = said(fields.get("output"), f"{where}.output")
            call_id = as_text(fields.get("call_id"), f"{where}.call_id")
            return Message("tool", result.text, tool_call_id=call_id, omitted=result.omitted)
        case "additional_tools":
            return _tools(fields.get("tools"), f"{where}.tools")
        case "item_reference":
            raise BadRequest(where, "nothing is stored here that could be referred to; send the item itself")
        case _:
            return Message("user", f"[{kind}]", omitted=(kind,))


def _message(fields: Mapping[str, Json], where: str) -> Message | Said:
    content = said(fields.get("content"), f"{where}.content")
    match fields.get("role"):
        case "assistant":
            return content
        case "user":
            return Message("user", content.text, omitted=content.omitted)
        case "system" | "developer":
            return Message("system", content.text, omitted=content.omitted)
        case _:
            raise BadRequest(f"{where}.role", "expected user, assistant, system or developer")


def _thought(fields: Mapping[str, Json], where: str) -> Thought:
    """What was thought, or else its summary; neither is there where it is encrypted."""
    parts = optional_list(fields.get("content"), f"{where}.content") or optional_list(
        fields.get("summary"), f"{where}.summary"
    )
    texts = [as_text(as_object(part, where).get("text"), f"{where}.text") for part in parts]
    return Thought("".join(texts) if texts else None)


def _call(fields: Mapping[str, Json], where: str, *, free_form: bool) -> ToolCall:
    call_id = as_text(fields.get("call_id"), f"{where}.call_id")
    namespace = optional_text(fields.get("namespace"), f"{where}.namespace")
    name = tool_name(as_text(fields.get("name"), f"{where}.name"), namespace)
    if free_form:
        return free_form_call(call_id, name, as_text(fields.get("input"), f"{where}.input"))
    text = optional_text(fields.get("arguments"), f"{where}.arguments")
    return ToolCall(call_id, name, arguments_of(text, f"{where}.arguments"))
