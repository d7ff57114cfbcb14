"""The Messages API as a client speaks it."""

import json
from collections.abc import Mapping, Sequence

from wire import IMAGE, parts

from lego_rl.messages import Json, Message, Tool, ToolCall


class AnthropicWire:
    path = "/v1/messages"

    @property
    def image(self) -> Json:
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}

    def body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, Json]:
        return {
            "model": "policy",
            "max_tokens": 100,
            "system": [{"type": "text", "text": m.content} for m in messages if m.role == "system"],
            "messages": [self._message(message) for message in messages if message.role != "system"],
            "tools": [
                {"name": t.name, "description": t.description, "input_schema": dict(t.parameters)} for t in tools
            ],
        }

    def _message(self, message: Message) -> dict[str, Json]:
        if message.role == "tool":
            content = parts(message, "text", self.image)
            block = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": content}
            return {"role": "user", "content": [block]}
        if message.role == "user":
            return {"role": "user", "content": parts(message, "text", self.image)}
        blocks: list[Json] = []
        if message.reasoning is not None:
            blocks.append({"type": "thinking", "thinking": message.reasoning, "signature": ""})
        if message.content:
            blocks.append({"type": "text", "text": message.content})
        blocks += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
            for call in message.tool_calls
        ]
        return {"role": "assistant", "content": blocks}

    def answer(self, body: Mapping[str, Json]) -> Message:
        blocks = body["content"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        calls = [
            ToolCall(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"
        ]
        thinking = [block["thinking"] for block in blocks if block["type"] == "thinking"]
        return Message("assistant", text, tuple(calls), reasoning=thinking[0] if thinking else None)

    def heard(self, raw: bytes) -> Message:
        return self.answer(json.loads(raw))

    def put_together(self, events: Sequence[dict[str, Json]]) -> Mapping[str, Json]:
        blocks = [event["content_block"] for event in events if event["type"] == "content_block_start"]
        for event in events:
            if event["type"] == "content_block_delta":
                block = blocks[event["index"]]
                for key, piece in event["delta"].items():
                    if key == "partial_json":
                        block["input"] = json.loads(piece)
                    elif key != "type":
                        block[key] += piece
        return {"content": blocks}
