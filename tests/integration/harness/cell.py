"""Runs one harness inside a sandbox that has no network, against a scripted model, and reports all it asked for.

It uses the standard library alone, as inside the sandbox it runs on the Python of a harness bundle. It reads its orders
as JSON from standard input and writes JSON to standard output.

    orders: {argv, env, cwd, files, stdin, replies}     replies: one for each model call, [tool name, arguments] or text
    report: {returncode, output, requests: [{method, path, body}], names: [names looked up]}
"""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any

PORT = 4000
type Reply = str | tuple[str, dict[str, Any]]


class Model(ThreadingTCPServer):
    """Answers model calls from a list of replies, the last one for ever, and remembers every request."""

    def __init__(self, replies: list[Reply]) -> None:
        super().__init__(("127.0.0.1", PORT), Handler)
        self.replies = replies
        self.requests: list[dict[str, Any]] = []
        self.calls = 0

    def next_reply(self) -> tuple[int, Reply]:
        self.calls += 1
        return self.calls, self.replies[min(self.calls, len(self.replies)) - 1]


class Handler(BaseHTTPRequestHandler):
    server: Model
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append({"method": "POST", "path": self.path, "body": body})
        number, reply = self.server.next_reply()
        if self.path.split("?")[0].endswith("/v1/messages"):
            self.answer("text/event-stream", anthropic_events(number, reply))
        else:
            self.answer("application/json", json.dumps(openai_completion(number, reply)))

    def do_GET(self) -> None:
        self.server.requests.append({"method": self.command, "path": self.path, "body": None})
        self.send_error(404)

    do_HEAD = do_GET

    def answer(self, kind: str, text: str) -> None:
        payload = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: standard output is the report."""


def anthropic_events(number: int, reply: Reply) -> str:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "policy", "content": []}
    events: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}})
    ]
    if isinstance(reply, str):
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": reply}
    else:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": reply[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(reply[1])}
    stop = "end_turn" if isinstance(reply, str) else "tool_use"
    events += [
        ("content_block_start", {"index": 0, "content_block": block}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 1}}),
        ("message_stop", {}),
    ]
    return "".join(f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n" for kind, data in events)


def openai_completion(number: int, reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply}
    if not isinstance(reply, str):
        call = {"name": reply[0], "arguments": json.dumps(reply[1])}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call_{number}", "type": "function", "function": call}],
        }
    choice = {"index": 0, "message": message, "finish_reason": "stop" if isinstance(reply, str) else "tool_calls"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": "policy",
        "choices": [choice],
        "usage": usage,
    }


def log_names(listener: socket.socket, names: list[str]) -> None:
    """Answer every DNS query with NXDOMAIN and remember the name."""
    while True:
        query, client = listener.recvfrom(4096)
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace"))
            at += query[at] + 1
        names.append(".".join(labels))
        listener.sendto(query[:2] + struct.pack(">HHHHH", 0x8183, 1, 0, 0, 0) + query[12 : at + 5], client)


def main() -> None:
    orders = json.load(sys.stdin)
    names: list[str] = []
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("127.0.0.1", 53))
    model = Model(orders["replies"])
    for target, args in ((model.serve_forever, ()), (log_names, (listener, names))):
        threading.Thread(target=target, args=args, daemon=True).start()
    for path, content in orders["files"].items():
        Path(path).write_text(content, encoding="utf-8")
    finished = subprocess.run(
        orders["argv"],
        env=orders["env"],
        cwd=orders["cwd"],
        input=orders["stdin"].encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )
    report = {
        "returncode": finished.returncode,
        "output": finished.stdout.decode("utf-8", "replace"),
        "requests": model.requests,
        "names": names,
    }
    json.dump(report, sys.stdout)
    sys.stdout.flush()
    os._exit(0)


main()
