"""How the tools of a harness are called, and how their results are read.

Invariant: a call is written exactly as the ``qwen3_coder`` parser reads it, with the parameters in the order in which
the harness's schema has them, so that a history that the harness echoes renders to the tokens that were sampled.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from lego_rl.errors import ConfigError

_HIT = re.compile(r"^(?:\./)?([^\s:]+\.py):\d+:", re.MULTILINE)
_LISTED = re.compile(r"^ *\d+(?:\t|: )(.*)$", re.MULTILINE)


def write_call(name: str, arguments: Mapping[str, str]) -> str:
    """One tool call in the ``qwen3_coder`` format."""
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


class ToolSet(Protocol):
    """The tools of one harness that a demonstration needs. Every method returns the text of an assistant turn."""

    def search(self, function: str) -> str:
        """Look for a function's definition."""
        ...

    def read(self, path: str) -> str:
        """Show a file, by its absolute path."""
        ...

    def edit(self, path: str, old: str, new: str) -> str:
        """Replace text in a file."""
        ...

    def finish(self, text: str) -> str:
        """End the run."""
        ...


class ClaudeCodeBare:
    """Claude Code with ``--bare``: Bash, Read, Edit; a turn without a call ends the run."""

    def search(self, function: str) -> str:
        """See `ToolSet.search`."""
        return write_call("Bash", {"command": f'grep -rn "def {function}" .'})

    def read(self, path: str) -> str:
        """See `ToolSet.read`."""
        return write_call("Read", {"file_path": path})

    def edit(self, path: str, old: str, new: str) -> str:
        """See `ToolSet.edit`."""
        return write_call("Edit", {"file_path": path, "old_string": old, "new_string": new})

    def finish(self, text: str) -> str:
        """See `ToolSet.finish`."""
        return text


class OpenHandsSdk:
    """OpenHands SDK: terminal, file_editor, finish."""

    def search(self, function: str) -> str:
        """See `ToolSet.search`."""
        return write_call("terminal", {"command": f'grep -rn "def {function}" .'})

    def read(self, path: str) -> str:
        """See `ToolSet.read`."""
        return write_call("file_editor", {"command": "view", "path": path})

    def edit(self, path: str, old: str, new: str) -> str:
        """See `ToolSet.edit`."""
        arguments = {"command": "str_replace", "path": path, "old_str": old, "new_str": new}
        return write_call("file_editor", arguments)

    def finish(self, text: str) -> str:
        """See `ToolSet.finish`."""
        return write_call("finish", {"message": text})


class OpenCode:
    """OpenCode: bash, read, edit; a turn without a call ends the run."""

    def search(self, function: str) -> str:
        """See `ToolSet.search`."""
        return write_call("bash", {"command": f'grep -rn "def {function}" .'})

    def read(self, path: str) -> str:
        """See `ToolSet.read`."""
        return write_call("read", {"filePath": path})

    def edit(self, path: str, old: str, new: str) -> str:
        """See `ToolSet.edit`."""
        return write_call("edit", {"filePath": path, "oldString": old, "newString": new})

    def finish(self, text: str) -> str:
        """See `ToolSet.finish`."""
        return text


_TOOLSETS: dict[str, ToolSet] = {
    "claude-code": ClaudeCodeBare(),
    "openhands-sdk": OpenHandsSdk(),
    "opencode": OpenCode(),
}


def toolset(harness: str) -> ToolSet:
    """The tools of a harness.

    Raises:
        ConfigError: There are no demonstrations for it.
    """
    if harness not in _TOOLSETS:
        raise ConfigError(f"no demonstrations for harness {harness!r}", f"use one of {', '.join(_TOOLSETS)}")
    return _TOOLSETS[harness]


def found_path(result: str) -> str | None:
    """The file of the first hit in what ``grep -rn`` printed."""
    hit = _HIT.search(result)
    return hit.group(1) if hit else None


def listed_lines(result: str) -> Sequence[str]:
    """The lines of a numbered listing, without their numbers; empty for anything else, such as an error."""
    return _LISTED.findall(result)
