"""The harness of the benchmark: a process of its own, so that only the gateway's work is counted as the gateway's.

It needs nothing but the standard library, sends the whole history with every request, as harnesses do, and times each
call from its first byte to the last byte of the answer. Usage: ``python client.py CONVERSATION_JSON DIALECT URL ...``,
one concurrent session for each URL; milliseconds of every call as JSON on standard output.
"""

import http.client
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class _Chat:
    """OpenAI Chat Completions, not streamed."""

    path = "/v1/chat/completions"

    def __init__(self, said: dict[str, Any]) -> None:
        self.messages: list[dict[str, Any]] = [
            {"role": "system", "content": said["system"]},
            {"role": "user", "content": said["task"]},
        ]
        self._tools = [
            {
                "type": "function",
                "function": {"name": tool["name"], "description": tool["description"], "parameters": tool["schema"]},
            }
            for tool in said["tools"]
        ]

    def body(self) -> dict[str, Any]:
        return {"model": "policy", "messages": self.messages, "tools": self._tools}

    def follow(self, answer: bytes, result: str) -> None:
        message = json.loads(answer)["choices"][0]["message"]
        self.messages.append(message)
        for call in message.get("tool_calls") or []:
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


class _Anthropic:
    """Anthropic Messages, streamed."""

    path = "/v1/messages"

    def __init__(self, said: dict[str, Any]) -> None:
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": said["task"]}]
        self._system = said["system"]
        self._tools = [
            {"name": tool["name"], "description": tool["description"], "input_schema": tool["schema"]}
            for tool in said["tools"]
        ]

    def body(self) -> dict[str, Any]:
        return {
            "model": "policy",
            "messages": self.messages,
            "system": self._system,
            "tools": self._tools,
            "stream": True,
            "max_tokens": 32_000,
        }

    def follow(self, answer: bytes, result: str) -> None:
        blocks: dict[int, dict[str, Any]] = {}
        for line in answer.decode().split("\n"):
            if line.startswith("data: "):
                self._event(json.loads(line[6:]), blocks)
        said = [blocks[index] for index in sorted(blocks)]
        for block in said:
            if "partial" in block:
                block["input"] = json.loads(block.pop("partial"))
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": result}
            for block in said
            if block["type"] == "tool_use"
        ]
        self.messages += [{"role": "assistant", "content": said}, {"role": "user", "content": results}]

    def _event(self, event: dict[str, Any], blocks: dict[int, dict[str, Any]]) -> None:
        if event["type"] == "content_block_start":
            blocks[event["index"]] = event["content_block"]
        elif event["type"] == "content_block_delta":
            block = blocks[event["index"]]
            for key, piece in event["delta"].items():
                if key == "partial_json":
                    block["partial"] = block.get("partial", "") + piece
                elif key != "type":
                    block[key] = block.get(key, "") + piece


_DIALECTS: dict[str, type[_Chat] | type[_Anthropic]] = {"openai-chat": _Chat, "anthropic": _Anthropic}
PATHS = {name: dialect.path for name, dialect in _DIALECTS.items()}


def run(said: dict[str, Any], dialect: str, url: str) -> list[float]:
    """One session to its end; milliseconds of every call."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=300)
    talk = _DIALECTS[dialect](said)
    times = []
    for result in said["results"]:
        body = json.dumps(talk.body(), ensure_ascii=False).encode()
        started = time.perf_counter()
        connection.request("POST", place.path + talk.path, body, {"content-type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        times.append((time.perf_counter() - started) * 1e3)
        if response.status != http.client.OK:
            raise RuntimeError(f"{response.status}: {answer[:500]!r}")
        talk.follow(answer, result)
    connection.close()
    return times


def main(path: str, dialect: str, urls: list[str]) -> None:
    """Run one session at each of `urls`, all at once."""
    said = json.loads(Path(path).read_text(encoding="utf-8"))
    with ThreadPoolExecutor(len(urls)) as sessions:
        times = list(sessions.map(lambda url: run(said, dialect, url), urls))
    json.dump(times, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
