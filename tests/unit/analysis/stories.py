"""The same piece of work, told in the tools of each harness, with results in the words that each harness uses.

A search, a read, a read of a file that is not there, an edit, the file again, the tests three times in vain, a call
without its arguments, and a command that works.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lego_rl.analysis.document import Document, read_document
from lego_rl.gateway.atif import to_atif
from lego_rl.gateway.trajectory import Accounting
from lego_rl.gateway.transcript import Transcript
from lego_rl.messages import Message, Tool, ToolCall

FILE, MISSING = "/app/shop/price.py", "/app/shop/tax.py"
SOURCE = "def total(cost, fee):\n    return cost - fee\n"
TESTS = "python -m pytest -q tests"
FAILED = "FAILED tests/test_price.py::test_total\n1 failed in 0.03s"

type Told = Sequence[tuple[str, Mapping[str, Any], str | None]]
"""Calls: tool, arguments, and what the harness answers; ``None`` where it leaves the turn out of its history."""


def claude_code() -> Told:
    ran = f"Exit code 1\n{FAILED}"
    return [
        ("Grep", {"pattern": "def total"}, "Found 1 file\nshop/price.py"),
        ("Read", {"file_path": FILE}, f"1\t{SOURCE}"),
        ("Read", {"file_path": MISSING}, "File does not exist. Note: your current working directory is /app."),
        ("Edit", {"file_path": FILE, "old_string": "-", "new_string": "+"}, f"The file {FILE} has been updated."),
        ("Bash", {"command": "cat shop/price.py"}, SOURCE),
        *[("Bash", {"command": TESTS}, ran)] * 3,
        ("Edit", {"file_path": FILE}, "<tool_use_error>InputValidationError: Edit failed</tool_use_error>"),
        ("Bash", {"command": "git status"}, "clean"),
    ]


def openhands_sdk() -> Told:
    def ended(text: str, code: int) -> str:
        return f"{text}\n[Current working directory: /app]\n[Command finished with exit code {code}]"

    refused = "[An error occurred during execution.]\nInvalid `path` parameter"
    return [
        ("terminal", {"command": "grep -rn 'def total' ."}, ended("./shop/price.py:1:def total", 0)),
        ("file_editor", {"command": "view", "path": FILE}, f"Here's the result of running `cat -n`\n{SOURCE}"),
        ("file_editor", {"command": "view", "path": MISSING}, refused),
        (
            "file_editor",
            {"command": "str_replace", "path": FILE, "old_str": "-", "new_str": "+"},
            "The file was edited.",
        ),
        ("file_editor", {"command": "view", "path": FILE, "view_range": [1, 2]}, SOURCE),
        *[("terminal", {"command": f"cd /app && {TESTS}"}, ended(FAILED, 1))] * 3,
        ("file_editor", {"command": "view"}, "Error validating tool 'file_editor': 1 validation error"),
        ("terminal", {"command": "git status"}, ended("clean", 0)),
        ("finish", {"message": "Done."}, None),
    ]


def opencode() -> Told:
    return [
        ("grep", {"pattern": "def total"}, "Found 1 matches"),
        ("read", {"filePath": FILE}, f"<path>{FILE}</path>\n<content>\n{SOURCE}</content>"),
        ("read", {"filePath": MISSING}, f"File not found: {MISSING}"),
        ("edit", {"filePath": FILE, "oldString": "-", "newString": "+"}, "Edit applied successfully."),
        ("read", {"filePath": FILE, "offset": 1}, SOURCE),
        *[("bash", {"command": TESTS}, FAILED)] * 3,
        ("edit", {"filePath": FILE}, "The edit tool was called with invalid arguments: SchemaError(Missing key"),
        ("bash", {"command": "git status"}, "clean"),
    ]


def codex() -> Told:
    def ended(text: str, code: int) -> str:
        return f"Chunk ID: d76e59\nWall time: 0.0 seconds\nProcess exited with code {code}\nOutput:\n{text}\n"

    patch = "*** Begin Patch\n*** Update File: shop/price.py\n@@\n-a\n+b\n*** End Patch"
    return [
        ("exec_command", {"cmd": "rg -n 'def total'"}, ended("shop/price.py:1", 0)),
        ("exec_command", {"cmd": "sed -n '1,40p' shop/price.py"}, ended(SOURCE, 0)),
        ("exec_command", {"cmd": "cat shop/tax.py"}, ended("cat: shop/tax.py: No such file or directory", 1)),
        ("exec_command", {"cmd": f"apply_patch <<'EOF'\n{patch}\nEOF"}, "Exit code: 0\nSuccess. Updated the following"),
        ("exec_command", {"cmd": "cd shop && nl -ba price.py | head -n 40"}, ended(SOURCE, 0)),
        *[("exec_command", {"cmd": TESTS}, ended(FAILED, 1))] * 3,
        ("exec_command", {}, "failed to parse function arguments: missing field `cmd` at line 1 column 2"),
        ("exec_command", {"cmd": "git status"}, ended("clean", 0)),
    ]


def qwen_code() -> Told:
    def ended(text: str, code: int) -> str:
        return f"Command: x\nDirectory: (root)\nOutput: {text}\nError: (none)\nExit Code: {code}\nSignal: (none)"

    return [
        ("grep_search", {"pattern": "def total"}, "Found 1 match"),
        ("read_file", {"file_path": FILE}, SOURCE),
        ("read_file", {"file_path": MISSING}, f"File not found: {MISSING}"),
        ("edit", {"file_path": FILE, "old_string": "-", "new_string": "+"}, "The file: has been updated."),
        ("read_file", {"file_path": FILE, "limit": 9}, SOURCE),
        *[("run_shell_command", {"command": TESTS}, ended(FAILED, 1))] * 3,
        ("edit", {"file_path": FILE}, "params must have required property 'old_string'"),
        ("run_shell_command", {"command": "git status"}, ended("clean", 0)),
    ]


def mini_swe_agent() -> Told:
    def ended(text: str, code: int) -> str:
        return f'{{\n  "returncode": {code},\n  "output": "{text}"\n}}'

    return [
        ("bash", {"command": "grep -rn 'def total' ."}, ended("x", 0)),
        ("bash", {"command": "cat shop/price.py"}, ended("x", 0)),
        ("bash", {"command": "cat shop/tax.py"}, ended("cat: shop/tax.py: No such file or directory", 1)),
        ("bash", {"command": "sed -i 's/-/+/' ./shop/price.py"}, ended("", 0)),
        ("bash", {"command": "nl -ba shop/price.py | sed -n '1,9p'"}, ended("x", 0)),
        *[("bash", {"command": TESTS}, ended("1 failed", 1))] * 3,
        ("bash", {}, None),
        ("bash", {"command": "git status"}, ended("clean", 0)),
        ("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}, None),
    ]


STORIES = {
    "claude-code": claude_code,
    "openhands-sdk": openhands_sdk,
    "opencode": opencode,
    "codex": codex,
    "qwen-code": qwen_code,
    "mini-swe-agent": mini_swe_agent,
}
REQUIRED = {
    "Edit": ["file_path", "old_string", "new_string"],
    "edit": [],
    "file_editor": ["command", "path"],
    "exec_command": ["cmd"],
    "bash": ["command"],
}
"""Of the arguments that tools must be given; `edit` has other names in each harness."""
_EDITS = {"opencode": ["filePath", "oldString"], "qwen-code": ["file_path", "old_string"]}


def conversation(told: Told, request: str = "The total is wrong. Mend it.") -> list[Message]:
    """Messages, one call a turn."""
    said = [Message("system", "You are an agent."), Message("user", request)]
    for at, (name, arguments, result) in enumerate(told):
        call = ToolCall(f"call_{at}", name, arguments)
        said.append(Message("assistant", "So.", (call,), reasoning="Hm, it may be there."))
        if result is not None:
            said.append(Message("tool", result, tool_call_id=call.id))
    return [*said, Message("assistant", "Done.")]


def transcript(harness: str, conversations: Sequence[Sequence[Message]], accounting: Accounting) -> Transcript:
    """What the gateway keeps."""
    called = {call.name for said in conversations for message in said for call in message.tool_calls}
    required = REQUIRED | {"edit": _EDITS.get(harness, [])}
    tools = [Tool(name, "", {"type": "object", "required": required.get(name, [])}) for name in sorted(called)]
    return Transcript((), tuple(tuple(said) for said in conversations), tuple(tools), accounting)


def document(harness: str, *conversations: Sequence[Message]) -> Document:
    """The conversations, as they are read back."""
    found = to_atif(transcript(harness, conversations, Accounting()), harness=harness, version="1", session_id="t")
    return read_document(Path("trajectory.json.bz2"), json.dumps(found.to_json_dict()))
