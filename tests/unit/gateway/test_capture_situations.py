"""What harnesses do to a conversation, each through every wire format, whole and streamed, on a real socket, in both
modes of reasoning. Where an answer is lost, its connection breaks.

Twelve of these situations are those in which other gateways were measured; the docstrings of their tests give their
numbers there, i to ix. The others were found later, in harnesses.

Per situation: every delivered token exact under its own prompt, none lost, none twice, and no more segments than real
rewrites ask for.
"""

import asyncio
from dataclasses import replace

import pytest
from capture_oracle import check_laws, check_round_trip
from gateway_kit import (
    BASH,
    START,
    Tape,
    call_text,
    chat_template,
    spell,
    spell_oddly,
    stripping_template,
    tape,
    user,
)
from served import Served, served
from wire import Wire
from wires import every_form

from lego_rl.gateway.budget import Budget
from lego_rl.gateway.settings import CaptureSettings
from lego_rl.gateway.template import ChatTemplate
from lego_rl.messages import Message

TURNS = 4
CALLS = [call_text("bash", {"command": f"cat {index}", "timeout": 5}) for index in range(9)]

MODES = [CaptureSettings(reasoning="keep"), CaptureSettings(reasoning="as_sent")]

pytestmark = [
    every_form,
    pytest.mark.parametrize("capture", MODES, ids=[mode.reasoning for mode in MODES]),
]


def outputs(answer: Message) -> list[Message]:
    return [Message("tool", f"output of {call.id}", tool_call_id=call.id) for call in answer.tool_calls]


async def turns(at: Served, wire: Wire, messages: list[Message], count: int) -> list[Message]:
    """A plain loop: ask, echo, answer the calls."""
    for _ in range(count):
        answer = await at.ask(wire, messages)
        messages = [*messages, answer, *outputs(answer)]
    return messages


async def finish(at: Served, engine: Tape, *, segments: int, lost: tuple[int, ...] = ()) -> None:
    trajectory = await at.close()
    expected = {sample.call_id for index, sample in enumerate(engine.samples) if index not in lost}
    check_laws(trajectory, engine.samples, expected)
    check_round_trip(trajectory)
    assert len(trajectory.segments) == segments
    assert trajectory.accounting.refused == {}


async def test_plain_loop(wire: Wire, capture: CaptureSettings) -> None:
    """i: a plain loop."""
    async with served(engine := tape(CALLS), capture=capture) as at:
        await turns(at, wire, START, TURNS)
        await finish(at, engine, segments=1)


async def test_non_canonical_spelling(wire: Wire, capture: CaptureSettings) -> None:
    """ix: sampled ids that no tokenizer would write."""
    async with served(engine := tape([spell_oddly(call) for call in CALLS]), capture=capture) as at:
        await turns(at, wire, START, TURNS)
        await finish(at, engine, segments=1)


@pytest.mark.parametrize("filled", [{}, {"background": False}], ids=["re-ordered", "defaults-filled"])
async def test_arguments_written_again(wire: Wire, capture: CaptureSettings, filled: dict[str, bool]) -> None:
    """ii: arguments are written in another order. iib: and filled with their defaults."""
    async with served(engine := tape(CALLS), capture=capture) as at:
        messages = START
        for _ in range(TURNS):
            answer = await at.ask(wire, messages)
            call = answer.tool_calls[0]
            again = replace(call, arguments={"timeout": 5.0, "command": call.arguments["command"], **filled})
            messages = [*messages, replace(answer, tool_calls=(again,)), *outputs(answer)]
        await finish(at, engine, segments=1)


@pytest.mark.parametrize("back", [1, 2], ids=["before-the-last-turn", "further-back"])
async def test_a_reminder_inside_the_history(wire: Wire, capture: CaptureSettings, back: int) -> None:
    """iii: a reminder before the last turn of the assistant. iiib: further back."""
    async with served(engine := tape(CALLS), capture=capture) as at:
        messages = await turns(at, wire, START, 3)
        place = len(messages) - 2 * back
        await turns(at, wire, [*messages[:place], user("Remember the tests."), *messages[place:]], 2)
        await finish(at, engine, segments=2)


async def test_a_turn_dropped(wire: Wire, capture: CaptureSettings) -> None:
    """iv: a turn of the assistant is dropped."""
    async with served(engine := tape(CALLS), capture=capture) as at:
        messages = await turns(at, wire, START, 3)
        await turns(at, wire, messages[:-4] + messages[-2:], 2)
        await finish(at, engine, segments=2)


async def test_a_sub_agent_in_between(wire: Wire, capture: CaptureSettings) -> None:
    async with served(engine := tape(CALLS), capture=capture) as at:
        messages = await turns(at, wire, START, 2)
        sub = [Message("system", "Explore."), user("Where is it?")]
        sub = await turns(at, wire, sub, 1)
        messages = await turns(at, wire, messages, 1)
        await turns(at, wire, sub, 1)
        await turns(at, wire, messages, 1)
        trajectory = at.session.close()
        assert [g.role for g in trajectory.generations] == ["main", "main", "subagent", "main", "subagent", "main"]
        await finish(at, engine, segments=2)


async def test_sub_agents_at_the_same_time(wire: Wire, capture: CaptureSettings) -> None:
    """v: sub-agents at work while the main conversation goes on."""
    async with served(engine := tape([f"Look {n}.\n{call}" for n, call in enumerate(CALLS)]), capture=capture) as at:
        subs = [[Message("system", "Explore."), user(f"Where is {name}?")] for name in ("it", "the other")]
        messages, *_ = await asyncio.gather(turns(at, wire, START, 3), *(turns(at, wire, sub, 2) for sub in subs))
        await turns(at, wire, messages, 1)
        await finish(at, engine, segments=3)


async def test_an_answer_that_the_harness_never_saw(wire: Wire, capture: CaptureSettings) -> None:
    async with served(engine := tape(CALLS), capture=capture) as at:
        messages = await turns(at, wire, START, 2)
        await at.lose(wire, messages, engine)
        await turns(at, wire, [*messages[:-1], user("The connection broke.")], 1)
        trajectory = at.session.close()
        assert [each.fate for each in trajectory.generations] == ["delivered"] * 2 + ["abandoned", "delivered"]
        await finish(at, engine, segments=1, lost=(2,))


async def test_compaction(wire: Wire, capture: CaptureSettings) -> None:
    """vi: a compaction."""
    async with served(engine := tape([*CALLS[:3], "The summary.", *CALLS[3:]]), capture=capture) as at:
        messages = await turns(at, wire, START, 3)
        summary = await at.ask(wire, [*messages, user("Summarise.")])
        await turns(at, wire, [START[0], user(f"So far: {summary.content}")], 2)
        await finish(at, engine, segments=2)


async def test_an_answer_lost_and_asked_again(wire: Wire, capture: CaptureSettings) -> None:
    """vii: the connection breaks before the answer is there; the harness asks again."""
    async with served(engine := tape(CALLS), capture=capture) as at:
        messages = await turns(at, wire, START, 2)
        await at.lose(wire, messages, engine)
        await turns(at, wire, messages, 2)
        trajectory = at.session.close()
        assert [each.fate for each in trajectory.generations] == ["delivered"] * 2 + ["superseded"] + ["delivered"] * 2
        await finish(at, engine, segments=1, lost=(2,))


async def test_asked_twice(wire: Wire, capture: CaptureSettings) -> None:
    """Both answers arrive, and the harness goes on with the newer one."""
    async with served(engine := tape(CALLS), capture=capture) as at:
        messages = await turns(at, wire, START, 2)
        await at.ask(wire, messages)
        await turns(at, wire, messages, 2)
        await finish(at, engine, segments=1, lost=(2,))


TEMPLATES = {"template-keeps": chat_template(), "template-strips": stripping_template()}


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
@pytest.mark.parametrize("follow_up", [False, True], ids=["in-a-loop", "with-a-new-question"])
@pytest.mark.parametrize("kept", [False, True], ids=["stripped", "echoed"])
async def test_reasoning(
    wire: Wire, capture: CaptureSettings, template: ChatTemplate, follow_up: bool, kept: bool
) -> None:
    """viii: the harness drops the reasoning. viiib: the template does, once the user speaks again."""
    thoughts = [f"<think>\nI look at {index}.\n</think>\n\n{call}" for index, call in enumerate(CALLS)]
    async with served(engine := tape(thoughts), capture=capture, template=template) as at:
        messages = START
        for index in range(TURNS):
            answer = await at.ask(wire, messages)
            assert answer.reasoning == f"I look at {index}."
            if capture.reasoning == "as_sent":
                assert list(engine.samples[-1].prompt_ids) == template.opening(messages, [BASH])
            echo = answer if kept else replace(answer, reasoning=None)
            messages = [*messages, echo, *outputs(answer), *([user("And now?")] if follow_up else [])]
        lost = not kept or (follow_up and template is stripping_template())
        await finish(at, engine, segments=TURNS if capture.reasoning == "as_sent" and lost else 1)


async def test_invented_turns_are_context(wire: Wire, capture: CaptureSettings) -> None:
    async with served(engine := tape(CALLS), capture=capture) as at:
        invented = [*START, Message("assistant", "Got it. Thanks for the context!"), user("Go on.")]
        await turns(at, wire, invented, 2)
        await finish(at, engine, segments=1)


async def test_tool_calls_taken_out_of_a_turn(wire: Wire, capture: CaptureSettings) -> None:
    async with served(engine := tape([f"Look.\n{call}" for call in CALLS]), capture=capture) as at:
        messages = await turns(at, wire, START, 1)
        cleared = [*START, replace(messages[2], tool_calls=()), user("Go on.")]
        await turns(at, wire, cleared, 1)
        await finish(at, engine, segments=2)


async def test_turns_kept_under_a_new_start_keep_their_spelling(wire: Wire, capture: CaptureSettings) -> None:
    odd = [spell_oddly(call) for call in CALLS]
    async with served(engine := tape(odd), capture=capture) as at:
        messages = await turns(at, wire, START, 2)
        await turns(at, wire, [START[0], user("Another question."), *messages[2:]], 1)
        prompt = engine.samples[-1].prompt_ids
        for sample in engine.samples[:2]:
            assert any(prompt[i : i + len(sample.token_ids)] == sample.token_ids for i in range(len(prompt)))
        await finish(at, engine, segments=2)


async def test_of_two_equal_answers_the_newest_is_the_one_that_is_echoed(wire: Wire, capture: CaptureSettings) -> None:
    async with served(engine := tape(["Fine.", "Fine.", *CALLS]), capture=capture) as at:
        await at.ask(wire, START)
        answer = await at.ask(wire, START)
        await turns(at, wire, [*START, answer, user("Go on.")], 1)
        await finish(at, engine, segments=1, lost=(0,))


async def test_other_tools_are_another_prompt(wire: Wire, capture: CaptureSettings) -> None:
    async with served(engine := tape([spell(call) for call in CALLS]), capture=capture) as at:
        messages = await turns(at, wire, START, 2)
        answer = await at.ask(wire, messages, [BASH, replace(BASH, name="other")])
        assert answer.tool_calls
        await finish(at, engine, segments=2)


LONG = call_text("bash", {"command": "please mend the function in the file\n" * 6000})
"""A call that no socket holds whole, behind a text that arrives."""
ROOMY = Budget(context_tokens=10**6, output_tokens=10**6)


async def test_a_stream_that_breaks_off_of_which_the_harness_keeps_the_text(
    wire: Wire, capture: CaptureSettings
) -> None:
    said = "I look at the file."
    odd = spell_oddly(said)[:-1]
    async with served(engine := tape([[*odd, *spell(f"\n{LONG}")], *CALLS]), ROOMY, capture=capture) as at:
        await at.break_off(wire, START, said)
        await turns(at, wire, [*START, Message("assistant", said), user("You were cut off. Go on.")], 2)
        trajectory = await at.close()
    first = trajectory.generations[0]
    assert first.fate == "delivered"
    assert first.delivered_prefix == len(odd)
    delivered = {sample.call_id for sample in engine.samples}
    check_laws(trajectory, engine.samples, delivered, cut={first.call_id: len(odd)})
    check_round_trip(trajectory)
    assert trajectory.accounting.excluded == {"cut": len(engine.samples[0].token_ids) - len(odd)}
    if capture.reasoning == "keep":  # what the policy said stays in its context, as it was sampled
        (segment,) = trajectory.segments
        prompt = len(engine.samples[0].prompt_ids)
        assert segment.token_ids[prompt:][: len(odd) + 1].tolist() == [*odd, chat_template().end_of_turn]
        assert Message("assistant", said) in trajectory.conversations[0]
    else:  # a plain server would have read the text: the turn is context, and the policy's own is a segment of its own
        assert len(trajectory.segments) == 2


async def test_a_call_cleared_from_a_turn_leaves_the_text_as_it_was_sampled(
    wire: Wire, capture: CaptureSettings
) -> None:
    said = [f"I look {index}.\n{call}" for index, call in enumerate(CALLS)]
    async with served(engine := tape(map(spell_oddly, said)), capture=capture) as at:
        messages = await turns(at, wire, START, 2)
        cleared = [replace(m, tool_calls=()) if m is messages[len(START)] else m for m in messages]
        await turns(at, wire, [m for m in cleared if m.role != "tool"], 1)
        await finish(at, engine, segments=2)


async def test_an_answer_breaks_off_after_an_equal_answer_was_given_twice(wire: Wire, capture: CaptureSettings) -> None:
    replies = ["Sure.", f"First of all I look.\n{LONG}", "Sure.", *CALLS]
    async with served(engine := tape(replies), ROOMY, capture=capture) as at:
        sure = await at.ask(wire, START)
        await at.break_off(wire, [*START, sure, user("Then do it.")], "First of all I look.")
        await at.ask(wire, START)
        kept = Message("assistant", "First of all I look.")
        await at.ask(wire, [*START, sure, user("Then do it."), kept, user("Go on.")])
        trajectory = await at.close()
    first, second, again, last = trajectory.generations
    assert [call.fate for call in (first, second, again, last)] == ["delivered", "delivered", "superseded", "delivered"]
    assert chat_template().decode(second.token_ids[: second.delivered_prefix].tolist()) == kept.content
    delivered = {call.call_id for call in (first, second, last)}
    check_laws(trajectory, engine.samples, delivered, cut={second.call_id: second.delivered_prefix or 0})


async def test_an_answer_breaks_off_after_a_turn_that_lost_its_reasoning(wire: Wire, capture: CaptureSettings) -> None:
    said = ["<think>\nhm\n</think>\n\nHello there.", f"I will look at it.\n{LONG}", *CALLS]
    async with served(engine := tape(said), ROOMY, capture=capture, template=stripping_template()) as at:
        hello = await at.ask(wire, START)
        await at.break_off(wire, [*START, hello, user("Mend it.")], "I will look at it.")
        kept = Message("assistant", "I will look at it.")
        await at.ask(wire, [*START, hello, user("Mend it."), kept, user("You were cut off.")])
        trajectory = await at.close()
    second = trajectory.generations[1]
    assert chat_template().decode(second.token_ids[: second.delivered_prefix].tolist()) == kept.content
    delivered = {sample.call_id for sample in engine.samples}
    check_laws(trajectory, engine.samples, delivered, cut={second.call_id: second.delivered_prefix or 0})
