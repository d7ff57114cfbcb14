"""Is what the engine was given what the policy's own template renders? Asked of an implementation the gateway lacks.

Invariant: only the first prompt of a trial's main conversation is looked at. The agent has run nothing by then, so no
policy can bring about a difference that stops a run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from lego_rl.errors import ConfigError
from lego_rl.gateway.trajectory import Trajectory
from lego_rl.messages import Message, Tool
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.train.fidelity import PromptCheck

_ENOUGH = 2


class PromptChecker:
    """Renders first prompts again with ``transformers``' chat templating (`apply_chat_template`).

    Args:
        policy: The policy directory, with its tokenizer and template.

    Raises:
        ConfigError: ``transformers`` cannot read the tokenizer's files.
    """

    def __init__(self, policy: Path) -> None:
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(policy)
        except Exception as error:  # the library passes on whatever a damaged file makes it stumble over
            raise ConfigError(
                f"transformers cannot read the tokenizer of {policy}: {error}", "save it again"
            ) from error
        self._special = tuple(str(token) for token in self._tokenizer.added_tokens_decoder.values())

    def __call__(self, records: Sequence[TrialRecord]) -> tuple[PromptCheck, ...]:
        """Checks of a few trials; none where no trial has a first prompt that can be rendered here."""
        checks: list[PromptCheck] = []
        for record in records:
            if len(checks) < _ENOUGH and record.trajectory is not None:
                first = first_request(record.trajectory)
                checks += [self._check(first)] if first is not None and self._is_plain(first) else []
        return tuple(checks[:_ENOUGH])

    def _check(self, first: "FirstRequest") -> PromptCheck:
        rendered: list[int] = self._tokenizer.apply_chat_template(
            _messages(first.opening),
            tools=[_tool(tool) for tool in first.tools] or None,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
        )
        return PromptCheck(recorded=first.prompt_ids, rendered=tuple(rendered))

    def _is_plain(self, first: "FirstRequest") -> bool:
        """Whether no text looks like a special token, which stays text in the gateway and would not here."""
        texts = [message.content for message in first.opening]
        texts += [f"{tool.name} {tool.description} {tool.parameters}" for tool in first.tools]
        return not any(token in text for token in self._special for text in texts)


@dataclass(frozen=True)
class FirstRequest:
    """The main conversation's first model call: its prompt, and the messages and tools that it was rendered from."""

    prompt_ids: tuple[int, ...]
    opening: tuple[Message, ...]
    tools: tuple[Tool, ...]


def first_request(trajectory: Trajectory) -> FirstRequest | None:
    """The first request of the main conversation, where its answer came to be trained: then its messages are known.

    A harness may have asked for a title before.
    """
    first = next((call for call in trajectory.generations if call.role == "main"), None)
    if first is None:
        return None
    for segment, conversation in zip(trajectory.segments, trajectory.conversations, strict=False):
        if first.call_id in segment.calls:
            turns = [message.role for message in conversation]
            opening = conversation[: turns.index("assistant")] if "assistant" in turns else conversation
            return FirstRequest(tuple(map(int, first.context_ids)), tuple(opening), trajectory.tools)
    return None


def _messages(opening: Sequence[Message]) -> list[dict[str, str]]:
    """Leading system messages are one, and later ones are the user's, as the gateway makes of them."""
    system = [message.content for message in takewhile(lambda message: message.role == "system", opening)]
    head = [{"role": "system", "content": "\n\n".join(system)}] if system else []
    rest = opening[len(system) :]
    return head + [{"role": "user" if m.role == "system" else m.role, "content": m.content} for m in rest]


def _tool(tool: Tool) -> Mapping[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}
