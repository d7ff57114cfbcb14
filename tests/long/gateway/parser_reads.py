"""What a tool-call parser reads in a text: ours, vLLM's, and what of it is compared.

vLLM lives in an environment of its own, where `vllm_calls` runs; it is asked over a pipe.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.messages import Json, Tool


@dataclass(frozen=True)
class Read:
    """What a parser makes of a text: the content, and of each call the name and the arguments.

    Arguments that are no JSON, as a client of a stream may be left with, are given as the text they are.
    """

    content: str = ""
    calls: tuple[tuple[str, Json], ...] = ()


TOOL = Tool(
    "t",
    "",
    {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "whole": {"type": "integer"},
            "number": {"type": "number"},
            "flag": {"type": "boolean"},
            "items": {"type": "array"},
            "object": {"type": "object"},
            "count": {"type": ["integer", "null"]},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "either": {"type": ["string", "integer"]},
        },
    },
)
"""What the texts call: a parameter of each type."""


OFFERED = [{"type": "function", "function": {"name": TOOL.name, "parameters": dict(TOOL.parameters)}}]


class VLLM:
    """The process: a line asks, a line answers."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process = process
        self._log = log
        self.version = self._answer()["vllm"]

    def read(self, parser: str, text: str) -> tuple[Read, Read]:
        """What it reads in the whole text, and what it streams."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"parser": parser, "text": text, "tools": OFFERED}) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        return as_read(answer["whole"]), as_read(answer["streamed"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"vLLM's side ended\n{self._log.read_text(encoding='utf-8')[-2000:]}"
        answer: dict[str, Any] = json.loads(line)
        return answer


def as_read(answer: dict[str, Any]) -> Read:
    return Read(answer["content"], tuple((name, value_of(arguments)) for name, arguments in answer["calls"]))


def value_of(arguments: str) -> Json:
    try:
        value: Json = json.loads(arguments)
    except ValueError:
        return arguments
    return value


def ours(parser: str, text: str) -> Read:
    parsed = tool_call_parser(parser).parse(text, [TOOL])
    return Read(parsed.content, tuple((call.name, dict(call.arguments)) for call in parsed.calls))


def plain(read: Read) -> tuple[str, list[tuple[str, str]]]:
    """To compare by: JSON has one number where Python has 1 and 1.0, and a truth value is none of them."""
    return read.content, [(name, json.dumps(_one_number(arguments))) for name, arguments in read.calls]


def _one_number(value: Json) -> Json:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_one_number(each) for each in value]
    return {key: _one_number(each) for key, each in value.items()} if isinstance(value, dict) else value
