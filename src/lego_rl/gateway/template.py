"""Messages to token ids by a policy's own chat template, rendering only what is new.

Invariant: the prompt of a call is the concatenation of context blocks and sampled turns. A sampled turn is its ids,
verbatim; a context block is what the template renders between two sampled turns (or before the first), ends with the
generation prompt, and starts with the end-of-turn token unless the turn before it sampled that token itself.
So extending a conversation never renders, and never tokenises, what is already there.

For a template that renders each turn independently of the later ones this equals the one-shot rendering whenever
the sampled ids are the tokenizer's own spelling. A template that drops reasoning from earlier turns differs in exactly
that: the policy's turn stays in its context as it was sampled. Where it must not, `ChatTemplate.sheet` renders the
whole conversation as a server without memory does, and says which turns came out of that as they were sampled.

Conversations are made to fit what templates accept: system messages at the front become one, joined by a blank line;
a system message further back becomes a user message, in its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jinja2

from lego_rl.documents import read_json
from lego_rl.errors import TemplateError
from lego_rl.gateway.encoding import MARK, Encoder
from lego_rl.gateway.template_language import template_environment
from lego_rl.messages import Json, Message, Tool, as_templates_take, as_users

_REFUSALS = (
    jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError,
    MemoryError,
)  # fmt: skip
"""What a template raises for a conversation that it was not written for, deliberately or not."""


@dataclass(frozen=True)
class Sheet:
    """A conversation rendered at once, cut at the turns that stand in it as they were sampled.

    Attributes:
        blocks: Text before, between and after those turns; each ends with the generation prompt.
        turns: Their places in the conversation.
    """

    blocks: tuple[str, ...]
    turns: tuple[int, ...]


class ChatTemplate:
    """A tokenizer and a chat template.

    Args:
        encoder: The tokenizer.
        source: Jinja source of the template, in the dialect of Hugging Face ``apply_chat_template``.
        variables: Extra variables of the template, such as ``enable_thinking``.
        extra_stops: Ids that end a turn besides the template's end-of-turn token.

    Attributes:
        end_of_turn: Id of the added token that the template writes after an assistant's text.
        stop_token_ids: Ids at which sampling has to end.
        opens_reasoning: Whether the generation prompt leaves a ``<think>`` block open.

    Raises:
        TemplateError: The template does not compile, or does not end a turn with an added token.
    """

    def __init__(
        self,
        encoder: Encoder,
        source: str,
        *,
        variables: Mapping[str, Json] | None = None,
        extra_stops: Sequence[int] = (),
    ) -> None:
        self._encoder = encoder
        self._variables = dict(variables or {})
        try:
            self._template = template_environment().from_string(source)
        except jinja2.TemplateError as error:
            raise TemplateError(f"the chat template does not compile ({error})", "mend chat_template.jinja") from error
        self._stub = [{"role": "user", "content": "-"}, {"role": "assistant", "content": MARK}]
        after = self._after_stub([])
        unasked = self._render(self._stub, None, asks=False).partition(MARK)[2]
        self._prompt = after.removeprefix(unasked)
        token = encoder.leading_token(after)
        if token is None:
            raise TemplateError(
                f"the chat template ends an assistant's turn with {after[:20]!r}, which is no added token",
                "add the template's end-of-turn marker to the tokenizer as an added token",
            )
        self._end = token
        self.end_of_turn = encoder.id_of(token)
        self.stop_token_ids = tuple(dict.fromkeys((self.end_of_turn, *extra_stops)))
        self.opens_reasoning = after.rstrip().endswith("<think>")

    @classmethod
    def load(cls, directory: Path, *, variables: Mapping[str, Json] | None = None) -> "ChatTemplate":
        """Read a policy's ``tokenizer.json``, ``chat_template.jinja`` and, of ``generation_config.json``, the stop ids.

        Raises:
            TemplateError: A file is missing or cannot be used.
        """
        tokenizer, source = (_read(directory / name) for name in ("tokenizer.json", "chat_template.jinja"))
        generation = directory / "generation_config.json"
        encoder = Encoder(tokenizer)
        stops = _stop_ids(generation, encoder.size) if generation.is_file() else ()
        return cls(encoder, source, variables=variables, extra_stops=stops)

    def opening(self, messages: Sequence[Message], tools: Sequence[Tool]) -> list[int]:
        """Ids of the first context block: tools, system prompt, messages and generation prompt.

        Raises:
            TemplateError: The template refuses the conversation.
        """
        offered = [self._quote(tool_spec(tool)) for tool in tools] or None
        return self._encoder.encode(self._render(self._prepare(messages), offered))

    def continuation(self, messages: Sequence[Message], *, after: int) -> list[int]:
        """Ids of a further context block.

        Args:
            messages: What came since the last sampled turn.
            after: Last id of that turn; the end-of-turn token is written only if it is another one.

        Raises:
            TemplateError: The template refuses the messages.
        """
        prepared = [self._quote(_message_spec(as_users(message))) for message in messages]
        ids = self._encoder.encode(self._after_stub(prepared))
        return ids[1:] if after == self.end_of_turn else ids

    def sheet(self, messages: Sequence[Message], tools: Sequence[Tool], thoughts: Mapping[int, str]) -> Sheet:
        """Render a whole conversation at once, and cut it at its sampled turns.

        Args:
            messages: The conversation as the harness sent it.
            tools: Tools offered.
            thoughts: Of each assistant's turn that was sampled, by its place: the text sampled before its content.
                Where anything else is rendered there, because the template or the harness left the reasoning out, the
                turn is not the sampled one any more and stays in its block.

        Raises:
            TemplateError: The template refuses the conversation, or starts no turn with an added token.
        """
        start = self._encoder.leading_token(self._prompt)
        if start is None:
            raise TemplateError(
                f"the chat template starts an assistant's turn with {self._prompt[:20]!r}, which is no added token",
                'set capture.reasoning = "keep"',
            )
        offered = [self._quote(tool_spec(tool)) for tool in tools] or None
        turns = sorted(thoughts)
        while True:
            *opened, last = self._render(self._marked(messages, turns), offered).split(MARK)
            if len(opened) != len(turns):
                raise _not_verbatim()
            heads = [block.rpartition(start) for block in opened]
            same = [
                _squash(self._encoder.unquote(head)) == _squash(self._prompt.removeprefix(start) + thoughts[at])
                for at, (_, _, head) in zip(turns, heads, strict=True)
            ]
            if all(same):
                return Sheet((*(before + self._prompt for before, _, _ in heads), last), tuple(turns))
            turns = [at for at, unchanged in zip(turns, same, strict=True) if unchanged]

    def block_ids(self, block: str, after: int | None) -> list[int]:
        """Ids of a block of a `Sheet`.

        Args:
            block: The text.
            after: Last id of the sampled turn before it, if there is one.
        """
        ids = self._encoder.encode(block)
        return ids[1:] if after == self.end_of_turn else ids

    def written(self, message: Message, tools: Sequence[Tool]) -> str:
        """The text that the template writes for an assistant's content and calls.

        Raises:
            TemplateError: The template refuses the turn.
        """
        turn = _message_spec(message) | {"content": MARK + message.content}
        rendered = self._render([self._stub[0], turn], [tool_spec(tool) for tool in tools] or None)
        return rendered.partition(MARK)[2].partition(self._end)[0]

    def count(self, text: str) -> int:
        """Tokens of a text of a message by itself."""
        return self._encoder.count(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of a sampled turn, without the stop token that ends it."""
        ids = token_ids[:-1] if len(token_ids) and token_ids[-1] in self.stop_token_ids else token_ids
        return self._encoder.decode(ids)

    def _marked(self, messages: Sequence[Message], turns: Sequence[int]) -> list[Any]:
        """Messages of which the given turns have a mark for their content and calls."""
        marked = {at: replace(messages[at], content="", tool_calls=()) for at in turns}
        prepared = self._prepare([marked.get(at, message) for at, message in enumerate(messages)])
        for at in turns:
            prepared[at - len(messages)]["content"] = MARK
        return prepared

    def _prepare(self, messages: Sequence[Message]) -> list[Any]:
        return [self._quote(_message_spec(message)) for message in as_templates_take(messages)]

    def _after_stub(self, prepared: list[Any]) -> str:
        rendered = self._render([*self._stub, *prepared], None)
        _, mark, after = rendered.partition(MARK)
        if not mark or MARK in after:
            raise _not_verbatim()
        return after

    def _render(self, messages: list[Any], tools: list[Any] | None, *, asks: bool = True) -> str:
        try:
            return self._template.render(messages=messages, tools=tools, add_generation_prompt=asks, **self._variables)
        except _REFUSALS as error:
            raise TemplateError(
                f"the chat template refuses this conversation: {error}",
                "use a template that takes the roles and the order of messages that the harness sends",
            ) from error

    def _quote(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._encoder.quote(value)
        if isinstance(value, Mapping):
            return {self._encoder.quote(key): self._quote(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._quote(item) for item in value]
        return value


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise TemplateError(
            f"{path.parent} has no {path.name}", "name a Hugging Face policy directory that has one"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise TemplateError(f"{path} cannot be read ({error})", "save or copy the policy again") from error


def _stop_ids(path: Path, size: int) -> list[int]:
    """The ``eos_token_id`` of a ``generation_config.json``: none, one or several, of a tokenizer's `size` ids."""
    try:
        stops = read_json(_read(path)).get("eos_token_id")
        ids = [] if stops is None else [stops] if isinstance(stops, int) else list(stops)
        if not all(type(each) is int and 0 <= each < size for each in ids):
            raise TypeError(f"eos_token_id is {stops!r}, the tokenizer has {size} ids")
    except (ValueError, AttributeError, TypeError) as error:
        raise TemplateError(
            f"{path} names no stop ids ({error})", "save the policy's generation config again"
        ) from error
    return ids


def _not_verbatim() -> TemplateError:
    return TemplateError(
        "the chat template does not write an assistant's content once, as it is",
        "use a template that renders every assistant turn verbatim",
    )


def _squash(text: str) -> str:
    """Text without its white space."""
    return "".join(text.split())


def _message_spec(message: Message) -> dict[str, Any]:
    spec: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning is not None:
        spec["reasoning_content"] = message.reasoning
    if message.tool_call_id is not None:
        spec["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        spec["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": dict(call.arguments)}}
            for call in message.tool_calls
        ]
    return spec


def tool_spec(tool: Tool) -> dict[str, Any]:
    """A tool as chat templates and ATIF take it: OpenAI's form of a function."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}
