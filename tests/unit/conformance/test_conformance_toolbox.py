"""A tool is called where it is offered, and the call holds what the tool requires."""

import json
from typing import Any

from lego_rl.conformance.toolbox import Toolbox
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.harness.base import ToolUse
from lego_rl.messages import Tool


def schema(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


TEXT = {"type": "string"}
EDITOR = schema(["command", "path"], command={"type": "string", "enum": ["view", "create"]}, path=TEXT)
SHELL = schema(
    ["command", "risk", "reason", "background"],
    command=TEXT,
    risk={"type": "string", "enum": ["LOW", "HIGH"]},
    reason=TEXT,
    background={"type": "boolean"},
    timeout={"type": "integer"},
)
AGENT = schema(["description", "prompt", "kind"], description=TEXT, prompt=TEXT, kind=TEXT)
FINISH = schema(["message"], message=TEXT)


def prompt(**tools: dict[str, Any]) -> str:
    lines = [json.dumps({"name": name, "description": "</tools>", "parameters": tool}) for name, tool in tools.items()]
    return "<|im_start|>system\n<tools>\n" + "\n".join(lines) + "\n</tools>\nCall a tool.<|im_end|>\n"


def read(call: str | None, **tools: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    assert call is not None
    offered = [Tool(name, "", tool) for name, tool in tools.items()]
    (parsed,) = tool_call_parser("qwen3_coder").parse(call, offered).calls
    return parsed.name, dict(parsed.arguments)


def test_a_call_holds_what_the_tool_requires() -> None:
    tools = {"editor": EDITOR, "terminal": SHELL}
    name, arguments = read(Toolbox.read(prompt(**tools)).use(ToolUse("terminal", "command"), "ls"), **tools)
    assert name == "terminal"
    assert arguments == {"command": "ls", "risk": "LOW", "reason": "A step of the job.", "background": False}


def test_what_is_known_of_a_tool_comes_before_what_its_schema_says() -> None:
    tools = {"Agent": AGENT, "finish": FINISH}
    toolbox = Toolbox.read(prompt(**tools))
    assert read(toolbox.use(ToolUse("finish", "message"), "Done."), **tools) == ("finish", {"message": "Done."})
    agent = ToolUse("Agent", "prompt", {"kind": "general", "unknown": "x"})
    name, arguments = read(toolbox.use(agent, "Look."), **tools)
    assert name == "Agent"
    assert arguments == {"prompt": "Look.", "kind": "general", "description": "A step of the job."}


def test_what_is_not_offered_is_not_called() -> None:
    toolbox = Toolbox.read(prompt(editor=EDITOR))
    assert toolbox.use(ToolUse("terminal", "command"), "ls") is None
    assert toolbox.use(None, "Look.") is None
    assert Toolbox.read("<|im_start|>user\nA title?<|im_end|>\n").tools == {}
