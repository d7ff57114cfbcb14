"""A tiny policy's tokenizer and chat template, and scripts for the engine, for every test of the gateway."""

import asyncio
import functools
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from lego_rl.engine.protocol import Sample, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine, SyntheticRoutes
from lego_rl.gateway.encoding import Encoder
from lego_rl.gateway.template import ChatTemplate
from lego_rl.messages import Json, Message, Tool, ToolCall

TURN_END = "<|im_end|>"
SPECIAL = ("<|endoftext|>", "<|im_start|>", TURN_END)
MARKUP = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
TEMPLATE = (Path(__file__).parent / "qwen_format.jinja").read_text(encoding="utf-8")
VERSION = 7
ROUTES = SyntheticRoutes(layers=3, top_k=2, experts=8)

BASH = Tool(
    "bash",
    "Run a command.",
    {
        "type": "object",
        "properties": {
            "command": {"type": "string"},
            "timeout": {"type": "number"},
            "background": {"type": "boolean", "default": False},
        },
        "required": ["command"],
    },
)


@functools.cache
def tokenizer_json() -> str:
    """A byte-level BPE tokenizer, trained on the spot on a few sentences."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    corpus = [
        TEMPLATE,
        "def add(first, second):\n    return first + second\n",
        "please mend the function in the file\n" * 4,
    ]
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    tokenizer.add_tokens([AddedToken(name, special=False, normalized=False) for name in MARKUP])
    text: str = tokenizer.to_str()
    return text


@functools.cache
def encoder() -> Encoder:
    return Encoder(tokenizer_json())


@functools.cache
def chat_template() -> ChatTemplate:
    return ChatTemplate(encoder(), TEMPLATE)


STRIPPING = """{%- set ns = namespace(last=-1) %}
{%- for message in messages %}{%- if message.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}
""" + TEMPLATE.replace("if message.reasoning_content", "if message.reasoning_content and loop.index0 > ns.last")
"""A template that drops the reasoning of turns before the last user message, as those of the Qwen3 family do."""


@functools.cache
def stripping_template() -> ChatTemplate:
    return ChatTemplate(encoder(), STRIPPING)


def spell(text: str, *, end: bool = True) -> list[int]:
    """Ids of a sampled turn in the tokenizer's own spelling, the stop token included."""
    return encoder().encode(text + TURN_END if end else text)


def spell_oddly(text: str) -> list[int]:
    """Ids of a sampled turn of which every character is spelled by its bytes, as no tokenizer would."""
    ids: list[int] = []
    for character in text:
        ids += encoder().encode(character)
    return [*ids, chat_template().end_of_turn]


def call_text(name: str, arguments: dict[str, Json]) -> str:
    """A tool call as the policy writes it."""
    parameters = "".join(
        f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
        for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


class Tape:
    """Wraps an engine and keeps what every call was given and returned: the oracle of the tests.

    Attributes:
        when_answered: Called when an answer is there, before anybody has it.
    """

    def __init__(self, engine: ScriptedEngine) -> None:
        self.engine = engine
        self.samples: list[Sample] = []
        self.samplings: list[Sampling] = []
        self.when_answered: Callable[[], None] | None = None

    @property
    def weight_version(self) -> int:
        return self.engine.weight_version

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        self.samplings.append(sampling)
        sample = await self.engine.generate(prompt_ids, sampling, routes_from=routes_from)
        self.samples.append(sample)
        if self.when_answered is not None:
            self.when_answered()
        return sample

    async def progressed(self) -> None:
        await self.engine.progressed()


def tape(replies: Iterable[str | Sequence[int]], *, routes: SyntheticRoutes | None = ROUTES) -> Tape:
    """An engine that gives these answers in turn."""
    left = iter(replies)

    def script(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
        reply = next(left)
        return Reply(spell(reply) if isinstance(reply, str) else reply)

    return Tape(ScriptedEngine(script, routes=routes, version=VERSION))


class GatedEngine:
    """Answers only once it may, and notices when nobody waits any more."""

    def __init__(self, text: str = "Done.") -> None:
        self.inner = tape([text] * 9)
        self.started = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.aborted = asyncio.Event()

    weight_version = 7

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        self.started.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.aborted.set()
            raise
        return await self.inner.generate(prompt_ids, sampling, routes_from=routes_from)

    async def progressed(self) -> None:
        await self.inner.progressed()


def user(text: str) -> Message:
    return Message("user", text)


START = [Message("system", "Mend code."), user("Mend it.")]
"""How a conversation begins."""

CALL = call_text("bash", {"command": "ls"})
"""A sampled turn that calls a tool."""


def result(call: ToolCall, text: str) -> Message:
    return Message("tool", text, tool_call_id=call.id)
