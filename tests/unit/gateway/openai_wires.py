"""The Chat Completions and the Responses API as a client speaks them."""

import json
from collections.abc import Mapping, Sequence

from wire import IMAGE, parts

from lego_rl.messages import Json, Message, Tool, ToolCall


class OpenAIChatWire:
    path = "/v1/chat/completions"

    @property
    def image(self) -> Json:
        return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}}

    def body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, Json]:
        return {
            "model": "policy",
            "messages": [self._message(message) for message in messages],
            "tools": [
                {
                    "type": "function",
                    "function": {"name": t.name, "description": t.description, "parameters": dict(t.parameters)},
                }
                for t in tools
            ],
        }

    def _message(self, message: Message) -> dict[str, Json]:
        fields: dict[str, Json] = {"role": message.role, "content": parts(message, "text", self.image)}
        if message.tool_call_id is not None:
            fields["tool_call_id"] = message.tool_call_id
        if message.reasoning is not None:
            fields["reasoning_content"] = message.reasoning
        if message.tool_calls:
            fields["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
                }
                for call in message.tool_calls
            ]
        return fields

    def answer(self, body: Mapping[str, Json]) -> Message:
        message = body["choices"][0]["message"]
        calls = [
            ToolCall(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls", [])
        ]
        return Message("assistant", message["content"] or "", tuple(calls), reasoning=message.get("reasoning_content"))

    def heard(self, raw: bytes) -> Message:
        return self.answer(json.loads(raw))

    def put_together(self, events: Sequence[dict[str, Json]]) -> Mapping[str, Json]:
        message: dict[str, Json] = {"content": ""}
        for delta in (choice["delta"] for event in events for choice in event["choices"]):
            for key in ("content", "reasoning_content"):
                if delta.get(key) is not None:
                    message[key] = message.get(key, "") + delta[key]
            message.setdefault("tool_calls", []).extend(delta.get("tool_calls", []))
        return {"choices": [{"message": message}]}


class OpenAIResponsesWire:
    path = "/v1/responses"

    @property
    def image(self) -> Json:
        return {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}", "detail": "high"}

    def body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, Json]:
        return {
            "model": "policy",
            "input": [item for message in messages for item in self._items(message)],
            "tools": [
                {"type": "function", "name": t.name, "description": t.description, "parameters": dict(t.parameters)}
                for t in tools
            ],
        }

    def _items(self, message: Message) -> list[dict[str, Json]]:
        if message.role == "tool":
            output = parts(message, "input_text", self.image)
            return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": output}]
        if message.role != "assistant":
            content = parts(message, "input_text", self.image)
            if isinstance(content, str):
                content = [{"type": "input_text", "text": content}]
            role = "developer" if message.role == "system" else "user"
            return [{"type": "message", "role": role, "content": content}]
        items: list[dict[str, Json]] = []
        if message.reasoning is not None:
            thought = {"type": "reasoning_text", "text": message.reasoning}
            items.append({"type": "reasoning", "id": "rs", "summary": [], "content": [thought]})
        if message.content or not message.tool_calls:
            part = {"type": "output_text", "text": message.content, "annotations": []}
            items.append({"type": "message", "role": "assistant", "content": [part]})
        return items + [
            {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": json.dumps(dict(c.arguments))}
            for c in message.tool_calls
        ]

    def answer(self, body: Mapping[str, Json]) -> Message:
        text, reasoning, calls = "", None, []
        for item in body["output"]:
            match item["type"]:
                case "message":
                    text = item["content"][0]["text"]
                case "reasoning":
                    reasoning = item["content"][0]["text"]
                case "function_call":
                    calls.append(ToolCall(item["call_id"], item["name"], json.loads(item["arguments"])))
        return Message("assistant", text, tuple(calls), reasoning=reasoning)

    def heard(self, raw: bytes) -> Message:
        return self.answer(json.loads(raw))

    def put_together(self, events: Sequence[dict[str, Json]]) -> Mapping[str, Json]:
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        (last,) = (event["response"] for event in events if event["type"] in RESPONSE_ENDS)
        assert last["output"] == done
        return last


RESPONSE_ENDS = ("response.completed", "response.incomplete")
