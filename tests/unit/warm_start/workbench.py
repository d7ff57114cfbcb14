"""A work directory that answers the calls of a demonstration, so that thousands of trials need no harness.

It follows the contract of the harnesses' tools: hits with path and number, numbered lines, a unique text to
replace, a plain sentence when something is wrong. The integration tests do the same in the harnesses themselves.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path

from lego_rl.gateway.tool_calls.qwen3_coder import Qwen3CoderParser
from lego_rl.messages import Json, Message, ToolCall
from lego_rl.tasks.bugtask import BugTask
from lego_rl.tasks.generated_check import run_tests
from warm_start.demonstrator import WORKDIR, Demonstrator

MAX_TURNS = 8


class Workbench:
    """The repository of one task on disk."""

    def __init__(self, task: BugTask, folder: Path) -> None:
        self.task = task
        self.folder = folder
        for path, text in task.files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def run(self, demonstrator: Demonstrator) -> list[Message]:
        """Play the trial to its end: a turn without a call, or a call of ``finish``."""
        messages = [Message("user", self.task.instruction)]
        for turn in range(MAX_TURNS):
            text = demonstrator.next_turn(messages)
            parsed = Qwen3CoderParser().parse(text, ())
            calls = tuple(ToolCall(f"{turn}-{i}", call.name, call.arguments) for i, call in enumerate(parsed.calls))
            messages.append(Message("assistant", parsed.content, calls))
            if not calls or calls[0].name == "finish":
                return messages
            messages += [
                Message("tool", self.answer(call.name, call.arguments), tool_call_id=call.id) for call in calls
            ]
        raise AssertionError("the demonstration does not end")

    def answer(self, name: str, arguments: Mapping[str, Json]) -> str:
        """The result of one call, as the harness words it."""
        match name, dict(arguments):
            case (("Bash" | "terminal" | "bash"), {"command": str(command)}):
                return self.search(command)
            case "Read", {"file_path": str(path)}:
                return numbered(self.at(path).read_text(), width=0)
            case "Edit", {"file_path": str(path), "old_string": str(old), "new_string": str(new)}:
                return self.replace(path, old, new)
            case "file_editor", {"command": "view", "path": str(path)}:
                return "Here's the result of running `cat -n` on the file:\n" + numbered(
                    self.at(path).read_text(), width=6
                )
            case "file_editor", {"command": "str_replace", "path": str(path), "old_str": str(old), "new_str": str(new)}:
                return self.replace(path, old, new)
            case "read", {"filePath": str(path)}:
                return shown_by_opencode(path, self.at(path).read_text())
            case "edit", {"filePath": str(path), "oldString": str(old), "newString": str(new)}:
                return self.replace(path, old, new)
        raise AssertionError(f"no such call: {name} {arguments}")

    def search(self, command: str) -> str:
        """What ``grep -rn TEXT .`` prints."""
        program, flags, text, where = shlex.split(command)
        assert (program, flags, where) == ("grep", "-rn", ".")
        return "\n".join(
            f"./{path}:{number}:{line}"
            for path in self.task.files
            for number, line in enumerate(self.at(f"{WORKDIR}/{path}").read_text().split("\n"), 1)
            if text in line
        )

    def at(self, path: str) -> Path:
        """The file on disk that an absolute path in the sandbox means."""
        return self.folder / Path(path).relative_to(WORKDIR)

    def replace(self, path: str, old: str, new: str) -> str:
        """Replace a unique text."""
        text = self.at(path).read_text()
        if text.count(old) != 1:
            return "The text to replace is not unique."
        self.at(path).write_text(text.replace(old, new))
        return "The file has been updated."

    def solved(self) -> bool:
        """Whether the hidden tests pass."""
        files = {path: (self.folder / path).read_text() for path in self.task.files}
        try:
            return all(run_tests(files, self.task.tests).values())
        except (SyntaxError, NameError, TypeError, KeyError, ImportError):
            return False


def numbered(text: str, *, width: int) -> str:
    """Lines with their numbers, a tab between."""
    return "\n".join(f"{number:{width}}\t{line}" for number, line in enumerate(text.split("\n"), 1))


def shown_by_opencode(path: str, text: str) -> str:
    """A file as OpenCode's tool shows it; the newline at its end begins no line."""
    lines = text.removesuffix("\n").split("\n")
    listing = "\n".join(f"{number}: {line}" for number, line in enumerate(lines, 1))
    end = f"(End of file - total {len(lines)} lines)"
    return f"<path>{path}</path>\n<type>file</type>\n<content>\n{listing}\n\n{end}\n</content>"


def tool_names(messages: list[Message]) -> list[str]:
    """The tools called, in order."""
    return [call.name for message in messages for call in message.tool_calls]
