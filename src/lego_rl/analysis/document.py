"""A trial's conversations as analysis reads them: of the ATIF document no more than it needs.

Invariant: nothing here depends on the harness. It is read by types, a megabyte in a few milliseconds, for thousands of
trials are read at a time; `gateway.atif` is who writes the document, and reads all of it.
"""

from pathlib import Path
from typing import Any

import msgspec

from lego_rl.errors import RunError
from lego_rl.formats import check_format
from lego_rl.gateway.atif import FORMAT


class Call(msgspec.Struct):
    """One tool call."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]


class Result(msgspec.Struct):
    """What a tool answered."""

    source_call_id: str | None = None
    content: str | None = None


class Observation(msgspec.Struct):
    """The results of a step's calls."""

    results: list[Result] = []


class Step(msgspec.Struct):
    """One message; results are with the step that called."""

    source: str
    message: str = ""
    reasoning_content: str | None = None
    tool_calls: list[Call] | None = None
    observation: Observation | None = None


class Function(msgspec.Struct):
    """A tool that was offered."""

    name: str
    parameters: dict[str, Any] = {}


class Definition(msgspec.Struct):
    """Its place in the document."""

    function: Function


class Agent(msgspec.Struct):
    """The harness."""

    tool_definitions: list[Definition] | None = None


class Ours(msgspec.Struct):
    """What `gateway.atif` adds."""

    format: int | None = None


class Extra(msgspec.Struct):
    """Its place in the document."""

    lego_rl: Ours | None = None


class Document(msgspec.Struct):
    """A trial's conversations.

    Attributes:
        agent: The harness, and the tools that it offered.
        steps: The main conversation.
        extra: What says that this can be read.
        subagent_trajectories: The other conversations.
    """

    agent: Agent
    steps: list[Step]
    extra: Extra | None = None
    subagent_trajectories: list["Document"] | None = None

    @property
    def conversations(self) -> list[list[Step]]:
        """All of them, the main one first."""
        return [self.steps, *(each.steps for each in self.subagent_trajectories or [])]

    @property
    def required(self) -> dict[str, frozenset[str]]:
        """Tool that was offered → the arguments that it must be given."""
        offered = [definition.function for definition in self.agent.tool_definitions or []]
        return {tool.name: frozenset(tool.parameters.get("required") or ()) for tool in offered}


_DECODER = msgspec.json.Decoder(Document)


def read_document(path: Path, text: str) -> Document:
    """Read a document that `gateway.atif` made.

    Args:
        path: Its file, for what is said of it.
        text: What it holds, JSON.

    Raises:
        RunError: It is none, or of another format.
    """
    try:
        document = _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise RunError(f"{path} cannot be read: {error}", "restore it from a copy") from error
    ours = document.extra.lego_rl if document.extra is not None else None
    check_format(path, ours.format if ours is not None else None, FORMAT)
    return document
