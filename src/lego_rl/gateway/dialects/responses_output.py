"""The output of the OpenAI Responses API: a turn's items, and the events in which a stream tells them.

Invariant: the items that a stream puts together are those of the answer that is not streamed.
"""

import json
from collections.abc import Iterable, Iterator

from lego_rl.gateway.dialects.base import Answer, Asked
from lego_rl.gateway.dialects.tools import free_form_text
from lego_rl.messages import Json, ToolCall

type Event = tuple[str, dict[str, Json]]
"""Type of an event and its fields."""


def output_items(asked: Asked, answer: Answer, reply_id: str) -> list[dict[str, Json]]:
    """Reasoning, text, calls. A turn without text and calls has an empty text, for clients to send back."""
    message = answer.message
    status = "incomplete" if is_incomplete(answer) else "completed"
    items: list[dict[str, Json]] = []
    if message.reasoning is not None:
        thought: Json = [{"type": "reasoning_text", "text": message.reasoning}]
        items.append(
            {"type": "reasoning", "id": f"rs_{reply_id}", "summary": [], "content": thought, "encrypted_content": None}
        )
    if message.content or not message.tool_calls:
        items.append(
            {
                "type": "message",
                "id": f"msg_{reply_id}",
                "role": "assistant",
                "status": status,
                "content": [{"type": "output_text", "text": message.content, "annotations": [], "logprobs": []}],
            }
        )
    items += [_call(asked, call, f"{reply_id}_{index}") for index, call in enumerate(message.tool_calls)]
    return items


def is_incomplete(answer: Answer) -> bool:
    """Whether the token limit left the answer without an end; whole calls are one, from which the harness goes on."""
    return answer.truncated and not answer.message.tool_calls


def item_events(items: Iterable[dict[str, Json]]) -> Iterator[Event]:
    """Every item: that it begins, its text in one piece, and the whole of it."""
    for index, item in enumerate(items):
        begun, told = _telling(item)
        at: dict[str, Json] = {"output_index": index}
        yield "response.output_item.added", at | {"item": begun}
        for kind, fields in told:
            yield kind, {"item_id": item["id"], **at, **fields}
        yield "response.output_item.done", at | {"item": item}


def _call(asked: Asked, call: ToolCall, item_id: str) -> dict[str, Json]:
    form = asked.forms.get(call.name)
    fields: dict[str, Json] = {
        "call_id": call.id,
        "name": form.name if form else call.name,
        "status": "completed",
        **({"namespace": form.namespace} if form and form.namespace else {}),
    }
    text = free_form_text(call) if form and form.free_form else None
    if text is not None:
        return {"type": "custom_tool_call", "id": f"ctc_{item_id}", "input": text, **fields}
    return {"type": "function_call", "id": f"fc_{item_id}", "arguments": json.dumps(dict(call.arguments)), **fields}


def _telling(item: dict[str, Json]) -> tuple[dict[str, Json], list[Event]]:
    """An item as it begins, and the events of what is in it."""
    match item:
        case {"type": "reasoning", "content": [dict() as part]}:
            return item | {"content": []}, _part_events("response.reasoning_text", part, {})
        case {"type": "message", "content": [dict() as part]}:
            told = _part_events("response.output_text", part, {"logprobs": []})
            return item | {"content": [], "status": "in_progress"}, told
        case {"type": "custom_tool_call", "input": text}:
            return item | {"input": "", "status": "in_progress"}, _text_events(
                "response.custom_tool_call_input", str(text), "input", {}
            )
        case _:
            text = str(item["arguments"])
            return item | {"arguments": "", "status": "in_progress"}, _text_events(
                "response.function_call_arguments", text, "arguments", {}
            )


def _part_events(kind: str, part: dict[str, Json], extra: dict[str, Json]) -> list[Event]:
    at: dict[str, Json] = {"content_index": 0}
    return [
        ("response.content_part.added", at | {"part": part | {"text": ""}}),
        *((name, at | fields) for name, fields in _text_events(kind, str(part["text"]), "text", extra)),
        ("response.content_part.done", at | {"part": part}),
    ]


def _text_events(kind: str, text: str, key: str, extra: dict[str, Json]) -> list[Event]:
    told: list[Event] = [(f"{kind}.delta", extra | {"delta": text})] if text else []
    return [*told, (f"{kind}.done", extra | {key: text})]
