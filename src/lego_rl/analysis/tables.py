"""What the tools of each harness do: one table a harness, as data (``tools/NAME.toml``).

Invariant: every registered harness has a table. A tool that a table does not name does nothing in particular; no code
outside the tables knows a tool's name.
"""

import re
from collections.abc import Mapping
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Literal

from pydantic import Field

from lego_rl.analysis.actions import Action, Kind, edit
from lego_rl.analysis.shell import patched_files, shell_actions
from lego_rl.documents import read_toml
from lego_rl.errors import ConfigError
from lego_rl.settings import Settings

type Role = Literal["read", "edit", "test", "search", "finish", "other", "shell", "patch"]
"""A kind of action; or ``shell``, a command that says itself what it does, or ``patch``, which names its files."""


class ToolRow(Settings):
    """One tool."""

    does: Role = "other"
    """What it does."""
    by: str | None = None
    """The argument that says what it does instead, where the tool has several uses."""
    uses: dict[str, Role] = Field(default_factory=dict)
    """Values of that argument → what they do."""
    path: str | None = None
    """The argument that names the file."""
    text: str | None = None
    """The argument that takes the command or the patch."""
    reasoning: str | None = None
    """The argument that takes thoughts: they are reasoning, though they are written in a call."""


class ToolTable(Settings):
    """The tools of one harness."""

    tools: dict[str, ToolRow]
    """By the name that the prompt shows."""
    failed: tuple[str, ...] = ()
    """Regular expressions, ``^`` for the beginning of a line: the result of a failed call has one of them."""
    shell_failed: tuple[str, ...] = ()
    """Likewise, of shell commands alone: where a harness does not tell the exit status, what programs print."""
    finish_command: str | None = None
    """A shell command that ends the trial, where no tool does."""

    def row(self, name: str) -> ToolRow:
        """The row of a tool."""
        return self.tools.get(name, _UNKNOWN)

    def actions(self, name: str, arguments: Mapping[str, Any]) -> tuple[Action, ...]:
        """What a call does; at least one action."""
        row = self.row(name)
        role = row.uses.get(str(arguments.get(row.by)), row.does) if row.by is not None else row.does
        path = str(arguments.get(row.path, "")) if row.path is not None else ""
        match role:
            case "shell":
                return self._of_command(_command(arguments.get(row.text or "")))
            case "patch":
                found = tuple(map(edit, patched_files(str(arguments.get(row.text or "", "")))))
                return found or (Action(Kind.EDIT),)
            case "edit":
                return (edit(path),)
            case kind:
                return (Action(Kind(kind), path),)

    def _of_command(self, command: str) -> tuple[Action, ...]:
        if self.finish_command is not None and self.finish_command in command:
            return (Action(Kind.FINISH),)
        return shell_actions(command) or (Action(Kind.OTHER),)

    def has_failed(self, name: str, result: str) -> bool:
        """Whether a call's result says that it failed."""
        shown = result if len(result) <= 2 * _SHOWN else f"{result[:_SHOWN]}\n{result[-_SHOWN:]}"
        if self._failed is not None and self._failed.search(shown):
            return True
        return (
            self._shell_failed is not None and self.row(name).does == "shell" and bool(self._shell_failed.search(shown))
        )

    @cached_property
    def _failed(self) -> re.Pattern[str] | None:
        return _any_of(self.failed)

    @cached_property
    def _shell_failed(self) -> re.Pattern[str] | None:
        return _any_of(self.shell_failed)


_UNKNOWN = ToolRow()
_SHOWN = 1_000
"""Characters at either end of a result that say whether the call failed."""
_FOLDER = files("lego_rl.analysis") / "tools"
_SUFFIX = ".toml"
_OF_PROGRAMS = "shell"


def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{each})" for each in patterns), re.MULTILINE) if patterns else None


def _command(value: object) -> str:
    """A command as a text; one that is a list of words ends with the text that a shell is given."""
    if isinstance(value, list):
        return str(value[-1]) if value else ""
    return value if isinstance(value, str) else ""


def table_names() -> list[str]:
    """The harnesses that there is a table for."""
    names = sorted(each.name.removesuffix(_SUFFIX) for each in _FOLDER.iterdir() if each.name.endswith(_SUFFIX))
    return [name for name in names if name != _OF_PROGRAMS]


@cache
def tool_table(harness: str) -> ToolTable:
    """The table of a harness.

    Raises:
        ConfigError: There is none.
    """
    if harness not in table_names():
        raise ConfigError(
            f"nothing is known of the tools of harness {harness!r}",
            f"say what they do in src/lego_rl/analysis/tools/{harness}.toml (docs/harnesses.md)",
        )
    return ToolTable.model_validate(read_toml((_FOLDER / f"{harness}{_SUFFIX}").read_text(encoding="utf-8")))
