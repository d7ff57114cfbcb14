"""A trajectory's messages in Harbor's interchange format (ATIF), for people and other tools, and back.

Invariant: `from_atif` gives back the very messages, tools and counts that `to_atif` was given. What ATIF has no place
for travels in its ``extra`` fields: the position of every message, and under ``lego_rl`` the accounting and the number
of this form.

The conversation of the first segment is the document; those of the others are embedded in it. Token ids are in the
arrays of `store`.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from harbor.models.trajectories import Agent, FinalMetrics, Observation, ObservationResult, Step
from harbor.models.trajectories import ToolCall as AtifToolCall
from harbor.models.trajectories import Trajectory as AtifTrajectory
from pydantic import TypeAdapter

from lego_rl.gateway.template import tool_spec
from lego_rl.gateway.trajectory import Accounting
from lego_rl.gateway.transcript import Captured
from lego_rl.messages import Message, Tool, ToolCall

type Conversation = tuple[Message, ...]

FORMAT = 1
"""Of what is in the ``extra`` fields; the rest is ATIF of the version that the document names."""

_ACCOUNTING = TypeAdapter(Accounting)
_EMPTY = "No model call was delivered."


def to_atif(trajectory: Captured, *, harness: str, version: str, session_id: str) -> AtifTrajectory:
    """The document of a trial.

    Args:
        trajectory: What the gateway captured.
        harness: Name of the harness.
        version: Its version.
        session_id: The trial's id.
    """
    agent = Agent(name=harness, version=version, tool_definitions=[tool_spec(tool) for tool in trajectory.tools])
    documents = [
        AtifTrajectory(
            session_id=session_id, trajectory_id=f"{session_id}.{index}", agent=agent, steps=_steps(messages)
        )
        for index, messages in enumerate(trajectory.conversations)
    ]
    if not documents:  # ATIF has no document without a step
        step = Step(step_id=1, source="system", message=_EMPTY)
        documents = [AtifTrajectory(session_id=session_id, trajectory_id=f"{session_id}.0", agent=agent, steps=[step])]
    first, *others = documents
    accounting = trajectory.accounting
    first.final_metrics = FinalMetrics(
        total_completion_tokens=accounting.sampled_tokens, total_steps=sum(len(each.steps) for each in documents)
    )
    ours = {"format": FORMAT, "conversations": len(trajectory.conversations), "accounting": asdict(accounting)}
    first.extra = {"lego_rl": ours}
    first.subagent_trajectories = others or None
    return first


def format_of(document: AtifTrajectory) -> object:
    """The number of the form that `to_atif` gave a document; ``None`` if there is none."""
    ours = (document.extra or {}).get("lego_rl")
    return ours.get("format") if isinstance(ours, dict) else None


def from_atif(document: AtifTrajectory) -> tuple[tuple[Conversation, ...], tuple[Tool, ...], Accounting]:
    """Conversations, tools and accounting of a document that `to_atif` made, in this `FORMAT`.

    Raises:
        KeyError, TypeError, ValidationError: Another program made it.
    """
    ours = (document.extra or {})["lego_rl"]
    documents = [document, *(document.subagent_trajectories or [])][: ours["conversations"]]
    tools = [definition["function"] for definition in document.agent.tool_definitions or []]
    return (
        tuple(_messages(each.steps) for each in documents),
        tuple(Tool(tool["name"], tool["description"], tool["parameters"]) for tool in tools),
        _ACCOUNTING.validate_python(ours["accounting"]),
    )


def _steps(messages: Sequence[Message]) -> list[Step]:
    """One step a message; a tool's result is an observation of the step that called it."""
    steps: list[Step] = []
    caller: dict[str, Step] = {}
    for position, message in enumerate(messages):
        found = caller.get(message.tool_call_id or "") if message.role == "tool" else None
        if found is None:
            step = _step(len(steps) + 1, message, position)
            steps.append(step)
            caller.update({call.id: step for call in message.tool_calls})
            continue
        result = ObservationResult(
            source_call_id=message.tool_call_id,
            content=message.content,
            extra={"position": position, **_omitted(message)},
        )
        found.observation = Observation(results=[*(found.observation.results if found.observation else []), result])
    return steps


def _step(number: int, message: Message, position: int) -> Step:
    if message.role == "assistant":
        calls = [
            AtifToolCall(tool_call_id=call.id, function_name=call.name, arguments=dict(call.arguments))
            for call in message.tool_calls
        ]
        return Step(
            step_id=number,
            source="agent",
            message=message.content,
            reasoning_content=message.reasoning,
            tool_calls=calls or None,
            extra={"position": position, **_omitted(message)},
        )
    extra: dict[str, Any] = {"position": position, **_omitted(message)}
    if message.role == "tool":  # its call is not in this conversation: ATIF has no place for such a result
        extra["tool_call_id"] = message.tool_call_id
    source = "system" if message.role == "system" else "user"
    return Step(step_id=number, source=source, message=message.content, extra=extra)


def _messages(steps: Sequence[Step]) -> Conversation:
    placed: dict[int, Message] = {}
    for step in steps:
        extra = step.extra or {}
        placed[extra["position"]] = _message(step, extra)
        for result in step.observation.results if step.observation else []:
            extra = result.extra or {}
            placed[extra["position"]] = Message(
                "tool", str(result.content), tool_call_id=result.source_call_id, omitted=_omitted_of(extra)
            )
    return tuple(message for _, message in sorted(placed.items()))


def _message(step: Step, extra: dict[str, Any]) -> Message:
    text, omitted = str(step.message), _omitted_of(extra)
    match step.source:
        case "agent":
            calls = [ToolCall(call.tool_call_id, call.function_name, call.arguments) for call in step.tool_calls or []]
            return Message("assistant", text, tuple(calls), reasoning=step.reasoning_content, omitted=omitted)
        case "system":
            return Message("system", text, omitted=omitted)
        case _ if "tool_call_id" in extra:
            return Message("tool", text, tool_call_id=extra["tool_call_id"], omitted=omitted)
        case _:
            return Message("user", text, omitted=omitted)


def _omitted(message: Message) -> dict[str, Any]:
    return {"omitted": list(message.omitted)} if message.omitted else {}


def _omitted_of(extra: dict[str, Any]) -> tuple[str, ...]:
    return tuple(extra.get("omitted", ()))
