"""One neutral view of what a trial's policy did, whatever the harness: its tool calls in order, and how much it wrote.

Invariant: a call that several conversations hold, because the harness rewrote its history, is there once. What the
harness says to the policy is not the policy's: of it, only the request is kept, and whether a call's result says that
it failed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from lego_rl.analysis.actions import Action, Kind
from lego_rl.analysis.document import Call, Document, Step
from lego_rl.analysis.tables import ToolTable


@dataclass(frozen=True)
class NeutralCall:
    """One tool call.

    Attributes:
        key: Name and arguments: equal calls have equal keys.
        actions: What it does; at least one.
        malformed: Whether it names no tool that was offered, or lacks an argument that the tool must be given, and was
            not carried out.
        failed: Whether its result says that it failed; ``None`` where there is no result.
    """

    key: str
    actions: tuple[Action, ...]
    malformed: bool
    failed: bool | None


@dataclass(frozen=True)
class View:
    """What a trial's policy did.

    Attributes:
        request: What the user said before the policy's first turn.
        calls: Its tool calls, in order; those of sub-agents after the main conversation's.
        reasoning_chars: Characters of reasoning, in thoughts and in tools that take thoughts.
        written_chars: Characters of all that it wrote: reasoning, text, and the arguments of calls.
    """

    request: str
    calls: tuple[NeutralCall, ...]
    reasoning_chars: int
    written_chars: int


def view_of(document: Document, table: ToolTable) -> View:
    """The view of a trial.

    Args:
        document: Its conversations.
        table: Of its harness.
    """
    calls: list[NeutralCall] = []
    reasoning = written = 0
    required = document.required
    for step in _steps_once(document.conversations):
        thought = len(step.reasoning_content or "")
        reasoning += thought
        written += thought + len(step.message)
        results = (
            {} if step.observation is None else {r.source_call_id: r.content or "" for r in step.observation.results}
        )
        for call in step.tool_calls or ():
            found, arguments = _neutral(call, results.get(call.tool_call_id), required, table)
            calls.append(found)
            written += arguments
            takes = table.row(call.function_name).reasoning
            reasoning += len(str(call.arguments.get(takes, ""))) if takes is not None else 0
    return View(_request(document.steps), tuple(calls), reasoning, written)


def _steps_once(conversations: Sequence[Sequence[Step]]) -> Iterator[Step]:
    """The policy's steps, each once."""
    seen: set[object] = set()
    for steps in conversations:
        own: set[object] = set()
        for step in steps:
            if step.source != "agent":
                continue
            marks: list[object] = [call.tool_call_id for call in step.tool_calls or ()]
            marks = marks or [(step.reasoning_content, step.message)]
            if not seen.issuperset(marks):
                yield step
            own.update(marks)
        seen |= own


def _neutral(
    call: Call, result: str | None, required: dict[str, frozenset[str]], table: ToolTable
) -> tuple[NeutralCall, int]:
    """A call, and the length of its arguments as JSON."""
    arguments = _ENCODER.encode(call.arguments).decode()
    failed = None if result is None else table.has_failed(call.function_name, result)
    asked = required.get(call.function_name)
    malformed = (asked is None or not asked.issubset(call.arguments)) and failed is not False
    actions = table.actions(call.function_name, call.arguments)
    refused = malformed or (failed is True and (table.row(call.function_name).does != "shell" or _is_single(actions)))
    return (
        NeutralCall(
            key=f"{call.function_name} {arguments}",
            actions=(_NOTHING,) if refused else actions,
            malformed=malformed,
            failed=failed,
        ),
        len(arguments) if call.arguments else 0,
    )


_ENCODER = msgspec.json.Encoder(order="sorted")
_NOTHING = Action(Kind.OTHER)
"""What a call does that was not carried out."""


def _is_single(actions: Sequence[Action]) -> bool:
    """Whether a command that failed did not do what it says: one that does several things may have done some."""
    return [action.kind for action in actions] in ([Kind.READ], [Kind.EDIT])


def _request(steps: Sequence[Step]) -> str:
    said: list[str] = []
    for step in steps:
        if step.source == "agent":
            break
        if step.source == "user":
            said.append(step.message)
    return "\n".join(said)
