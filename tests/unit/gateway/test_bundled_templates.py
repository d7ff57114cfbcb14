"""Rendering what is new equals rendering everything, for every chat template that policies of this project come with.

The demo's template, and those of the Qwen family from the ``trl`` library. Two equalities are asked of each, with the
turns that its policies would sample: kept reasoning, in conversations that the template does not strip, and reasoning
as sent, in all.
"""

import asyncio
from collections.abc import Sequence
from importlib.resources import files

import pytest
from gateway_kit import BASH, TURN_END, Tape, encoder, user
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_rl.engine.protocol import Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call import Request
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.settings import CaptureSettings
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.gateway.tool_calls.probe import check_parser
from lego_rl.messages import Message, ToolCall

_TRL = files("trl") / "chat_templates"
_DEMO = files("lego_rl.policies") / "demo" / "chat_template.jinja"
NAMES = {
    "qwen2_5": "hermes",
    "qwen3": "hermes",
    "qwen3_instruct_2507": "hermes",
    "qwen3_vl": "hermes",
    "qwen3_5_think": "qwen3_coder",
    "qwen3_5_nothink": "qwen3_coder",
    "qwen3_6": "qwen3_coder",
}
"""Templates → the format in which they write calls."""
TEMPLATES = {
    "demo": (ChatTemplate(encoder(), _DEMO.read_text(encoding="utf-8")), "qwen3_coder"),
    **{
        name: (ChatTemplate(encoder(), (_TRL / f"{name}.jinja").read_text(encoding="utf-8")), parser)
        for name, parser in NAMES.items()
    },
}
every_template = pytest.mark.parametrize(("template", "parser"), TEMPLATES.values(), ids=TEMPLATES)

WORDS = st.text(st.sampled_from("abc .é"), min_size=1, max_size=8).map(str.strip).filter(bool)
TURN = st.tuples(WORDS, st.none() | WORDS, st.booleans(), st.booleans())
"""What is said, a command, whether the harness asks anew afterwards, and whether it echoes the reasoning."""


@every_template
def test_parser_and_template_agree(template: ChatTemplate, parser: str) -> None:
    check_parser(template, parser)


@every_template
@given(turns=st.lists(TURN, min_size=1, max_size=4), thinks=st.booleans())
@settings(max_examples=10)
def test_a_conversation_as_it_is_sent_is_rendered_as_at_once(
    template: ChatTemplate, parser: str, turns: Sequence[tuple[str, str | None, bool, bool]], thinks: bool
) -> None:
    talk(template, parser, "as_sent", turns, thinks=thinks)


@every_template
@given(turns=st.lists(TURN.map(lambda turn: (*turn[:2], False, True)), min_size=1, max_size=4))
@settings(max_examples=10)
def test_a_conversation_that_nothing_is_stripped_from_is_rendered_as_at_once(
    template: ChatTemplate, parser: str, turns: Sequence[tuple[str, str | None, bool, bool]]
) -> None:
    # A turn without a call ends in a new question, before which templates strip; all turns but the last have one.
    called = [(said, command or "ls", asks, echoes) for said, command, asks, echoes in turns[:-1]]
    talk(template, parser, "keep", [*called, turns[-1]], thinks=template.opens_reasoning)


def talk(
    template: ChatTemplate,
    parser: str,
    reasoning: str,
    turns: Sequence[tuple[str, str | None, bool, bool]],
    *,
    thinks: bool,
) -> None:
    """Let a policy say what its template would write for each turn, and compare every prompt with the one-shot one."""

    messages = [Message("system", "Be brief."), user("Mend it.")]
    said: list[Message] = []

    def speak(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
        assert list(prompt) == template.opening(messages, [BASH])
        opened = "" if template.opens_reasoning else "<think>\n"
        head = f"{opened}why?\n</think>\n\n" if thinks or template.opens_reasoning else ""
        return Reply(encoder().encode(head + template.written(said[-1], [BASH]) + TURN_END))

    async def run() -> None:
        engine = Tape(ScriptedEngine(speak))
        capture = CaptureSettings.model_validate({"reasoning": reasoning})
        session = Gateway(engine, template, tool_call_parser(parser), capture=capture).open(Budget(), temperature=1.0)
        for text, command, asks, echoes in turns:
            calls = () if command is None else (ToolCall("-", "bash", {"command": command}),)
            said.append(Message("assistant", text, calls))
            exchange = await session.admit(Request(tuple(messages), (BASH,)))
            answer = (await exchange.answer()).message
            assert answer.content == text
            assert len(answer.tool_calls) == len(calls)
            messages.append(
                Message("assistant", text, answer.tool_calls, reasoning=answer.reasoning if echoes else None)
            )
            messages.extend(Message("tool", "out", tool_call_id=call.id) for call in answer.tool_calls)
            if asks or not calls:
                messages.append(user("And now?"))

    asyncio.run(run())
