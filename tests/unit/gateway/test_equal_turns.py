"""Equal words in one trial: whose answer is it that a harness holds? The one that it got, in its own place."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from capture_oracle import check_round_trip
from gateway_kit import (
    BASH,
    CALL,
    START,
    Tape,
    call_text,
    chat_template,
    result,
    spell_oddly,
    stripping_template,
    tape,
    user,
)

from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call import Request
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.settings import CaptureSettings
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.gateway.trajectory import Trajectory
from lego_rl.messages import Message, Tool

WORDS = "please mend the function"
EXPLORE = [Message("system", "You explore."), user("Look.")]

modes = pytest.mark.parametrize(
    ("reasoning", "template"),
    [("keep", chat_template()), ("as_sent", chat_template()), ("as_sent", stripping_template())],
    ids=["keep", "as_sent", "as_sent, stripped"],
)


class Trial:
    """A harness that says of every answer whether it arrived."""

    def __init__(self, replies: Iterable[str | Sequence[int]], reasoning: str, template: ChatTemplate) -> None:
        self.engine: Tape = tape(replies)
        self._session = Gateway(
            self.engine,
            template,
            tool_call_parser("qwen3_coder"),
            capture=CaptureSettings.model_validate({"reasoning": reasoning}),
        ).open(Budget(), temperature=1.0)

    async def ask(
        self, messages: Sequence[Message], tools: tuple[Tool, ...] = (BASH,), *, lane: str = "", arrives: bool = True
    ) -> Message:
        exchange = await self._session.admit(Request(tuple(messages), tools, lane))
        answer = await exchange.answer()
        if arrives:
            exchange.written()
        return answer.message

    def close(self) -> Trajectory:
        trajectory = self._session.close()
        check_round_trip(trajectory)
        return trajectory


def fates(trajectory: Trajectory) -> list[str]:
    return [generation.fate for generation in trajectory.generations]


def trained(trajectory: Trajectory) -> list[int]:
    """Trained tokens of every segment."""
    return [int(segment.loss_mask.sum()) for segment in trajectory.segments]


@modes
async def test_of_equal_answers_to_two_agents_it_is_the_one_that_arrived(
    reasoning: str, template: ChatTemplate
) -> None:
    trial = Trial([WORDS, spell_oddly(WORDS), "Next."], reasoning, template)
    said = await trial.ask(START)
    await trial.ask(EXPLORE, lane="sub", arrives=False)
    await trial.ask([START[0], user("So far: much."), said, user("Go on.")])
    trajectory = trial.close()
    assert fates(trajectory) == ["delivered", "abandoned", "delivered"]
    first, _, last = trial.engine.samples
    assert " ".join(map(str, first.token_ids)) in " ".join(map(str, last.prompt_ids)), "its own ids are the context"


@modes
async def test_of_equal_answers_to_equal_requests_it_is_the_one_that_arrived(
    reasoning: str, template: ChatTemplate
) -> None:
    trial = Trial([WORDS, spell_oddly(WORDS), "Next."], reasoning, template)
    said = await trial.ask(START)
    await trial.ask(START, arrives=False)
    await trial.ask([*START, said, user("Go on.")])
    trajectory = trial.close()
    assert fates(trajectory) == ["delivered", "superseded", "delivered"]
    assert len(trajectory.segments) == 1


@modes
async def test_the_beginning_of_an_answer_is_of_the_one_that_arrived(reasoning: str, template: ChatTemplate) -> None:
    trial = Trial(["I will look at the file.", "I will look elsewhere.", "Fine."], reasoning, template)
    await trial.ask(START)
    await trial.ask(START, arrives=False)
    await trial.ask([*START, Message("assistant", "I will look"), user("Go on.")])
    assert fates(trial.close()) == ["delivered", "superseded", "delivered"]


@modes
async def test_an_answer_that_arrived_is_not_replaced_by_one_that_did_not(
    reasoning: str, template: ChatTemplate
) -> None:
    trial = Trial(["All done.", "Finished."], reasoning, template)
    await trial.ask(START)
    await trial.ask(START, arrives=False)
    trajectory = trial.close()
    assert fates(trajectory) == ["delivered", "abandoned"]
    assert trained(trajectory) == [len(trial.engine.samples[0].token_ids)]


@modes
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in a sub-agent"])
async def test_equal_words_thought_otherwise_do_not_change_a_turn(
    reasoning: str, template: ChatTemplate, elsewhere: bool
) -> None:
    thought = "<think>\nhm\n</think>\n\nOK."
    trial = Trial(["OK.", "Two.", thought, "Four.", "Five."], reasoning, template)
    messages, strips = list(START), template is stripping_template()
    for number in range(5):
        if number == 2 and elsewhere:
            await trial.ask(EXPLORE, lane="sub")
        else:
            messages += [await trial.ask(messages), user(f"Go on {number}.")]
    trajectory = trial.close()
    lost_reasoning = strips and not elsewhere  # the only rewrite there is
    assert len(trajectory.segments) == 1 + lost_reasoning + elsewhere
    assert trajectory.accounting.delivered_fraction == 1.0


@modes
async def test_a_turn_that_was_repeated_stays_what_it_was(reasoning: str, template: ChatTemplate) -> None:
    trial = Trial([WORDS, "After.", spell_oddly(WORDS), "More.", "Still more."], reasoning, template)
    said = await trial.ask(START)
    messages = [START[0], user("So far: much."), said, user("Go on.")]
    messages += [await trial.ask(messages), user("Go on.")]
    await trial.ask(EXPLORE, lane="sub")
    for _ in range(2):
        messages += [await trial.ask(messages), user("Go on.")]
    trajectory = trial.close()
    assert len(trajectory.segments) == 3, "the main conversation, the same after its compaction, the sub-agent"
    assert trajectory.accounting.delivered_fraction == 1.0


@modes
@pytest.mark.parametrize("nothing", ["", " \n ", "<think>\nhm\n</think>\n\n"], ids=["empty", "blank", "thought only"])
async def test_a_turn_that_says_nothing_is_a_turn(reasoning: str, template: ChatTemplate, nothing: str) -> None:
    trial = Trial([nothing, "Fine.", "More."], reasoning, template)
    messages = list(START)
    for _ in range(3):
        messages += [await trial.ask(messages), user("Go on.")]
    trajectory = trial.close()
    loses_reasoning = template is stripping_template() and "hm" in nothing
    assert len(trajectory.segments) == 1 + loses_reasoning
    assert trajectory.accounting.delivered_fraction == 1.0


async def test_a_turn_that_was_only_thought_is_found_after_a_rewrite() -> None:
    trial = Trial(["<think>\nhm\n</think>\n\n", "Fine."], "keep", chat_template())
    thought = await trial.ask(START, arrives=False)
    await trial.ask([*START, user("Be quick."), thought, user("Go on.")])
    assert fates(trial.close()) == ["delivered", "delivered"]


@modes
async def test_an_answer_has_arrived_by_whoever_names_its_calls(reasoning: str, template: ChatTemplate) -> None:
    two = "".join(call_text("bash", {"command": command}) for command in ("ls", "pwd"))
    trial = Trial([two, "Fine.", two, "Fine."], reasoning, template)
    said = await trial.ask(START, arrives=False)
    first, second = (replace(said, tool_calls=(call,)) for call in said.tool_calls)
    split = [*START, first, result(said.tool_calls[0], "a"), second, result(said.tool_calls[1], "b")]
    await trial.ask(split)
    other = await trial.ask(EXPLORE, lane="sub", arrives=False)
    one = replace(other, tool_calls=other.tool_calls[:1])
    await trial.ask([*EXPLORE, one, result(other.tool_calls[0], "a")], lane="sub")  # half of it may be all that it got
    assert fates(trial.close()) == ["delivered", "delivered", "abandoned", "delivered"]


@modes
@pytest.mark.parametrize("rewritten", [False, True], ids=["as it was", "first prompt rewritten"])
async def test_a_compaction_is_one_in_every_mode(reasoning: str, template: ChatTemplate, rewritten: bool) -> None:
    thought = f"<think>\nhm\n</think>\n\n{CALL}"
    trial = Trial([thought, thought, "So far all went well.", "Done."], reasoning, template)
    messages = list(START)
    for _ in range(2):
        said = await trial.ask(messages)
        messages += [replace(said, reasoning=None), result(said.tool_calls[0], "ok")]
        if rewritten:
            messages[1] = user("Mend it. Be quick.")
    await trial.ask([user("Sum up: much.")], ())
    await trial.ask([START[0], user("So far all went well.")])
    trajectory = trial.close()
    assert [each.role for each in trajectory.generations] == ["main", "main", "compaction", "main"]
    assert trajectory.accounting.delivered_fraction == 1.0


@modes
@pytest.mark.parametrize("lane", ["", "sub"])
async def test_invented_words_are_not_an_answer_that_nobody_got(
    reasoning: str, template: ChatTemplate, lane: str
) -> None:
    trial = Trial(["Understood.", "Next."], reasoning, template)
    await trial.ask(START, arrives=False)
    elsewhere = [START[0], user("So far: much.")] if lane else EXPLORE
    await trial.ask([*elsewhere, Message("assistant", "Understood."), user("Go on.")], lane=lane)
    trajectory = trial.close()
    assert fates(trajectory) == ["abandoned", "delivered"]
    assert trained(trajectory) == [len(trial.engine.samples[1].token_ids)]


@modes
async def test_an_answer_that_its_own_conversation_holds_after_a_rewrite_arrived(
    reasoning: str, template: ChatTemplate
) -> None:
    trial = Trial(["Understood.", "Next."], reasoning, template)
    said = await trial.ask(START, arrives=False)
    await trial.ask([*START, user("Be quick."), said, user("Go on.")])
    assert fates(trial.close()) == ["delivered", "delivered"]


@modes
@pytest.mark.parametrize("calls", [False, True], ids=["text", "calls"])
@pytest.mark.parametrize("lanes", [("", ""), ("one", "two")], ids=["unnamed", "named"])
async def test_agents_of_one_prompt_are_told_apart_by_their_names_or_their_calls(
    reasoning: str, template: ChatTemplate, lanes: tuple[str, str], calls: bool
) -> None:
    look = [CALL] if calls else []
    trial = Trial([CALL, *look, "One report.", *look, "Another report."], reasoning, template)
    await trial.ask(START)
    for lane in lanes:
        messages, said = list(EXPLORE), await trial.ask(EXPLORE, lane=lane)
        if said.tool_calls:
            messages += [said, result(said.tool_calls[0], "ok")]
            await trial.ask(messages, lane=lane)
    again = lanes == ("", "") and not calls  # nothing tells it from a request that was asked again
    assert fates(trial.close()).count("superseded") == again


@modes
async def test_of_two_agents_that_were_told_the_same_each_goes_on_with_its_own(
    reasoning: str, template: ChatTemplate
) -> None:
    trial = Trial(["Fine.", WORDS, spell_oddly(WORDS), "One.", "Two."], reasoning, template)
    await trial.ask(START)
    said = {lane: await trial.ask(EXPLORE, lane=lane) for lane in ("one", "two")}
    for lane, answer in said.items():
        await trial.ask([*EXPLORE, answer, user("Go on.")], lane=lane)
    trajectory = trial.close()
    assert [generation.parent for generation in trajectory.generations] == [None, None, None, 1, 2]
    assert len(trajectory.segments) == 3


@modes
async def test_thoughts_that_were_left_out_do_not_make_it_an_answer_that_nobody_got(
    reasoning: str, template: ChatTemplate
) -> None:
    trial = Trial(["First.", f"<think>\nhm\n</think>\n\n{WORDS}", WORDS, "Next.", "Last."], reasoning, template)
    begun = [*START, await trial.ask(START), user("Go on.")]
    said = replace(await trial.ask(begun), reasoning=None)
    await trial.ask(begun, arrives=False)
    rewritten = [*START, user("A reminder."), *begun[len(START) :], said, user("And then?")]
    rewritten += [await trial.ask(rewritten), user("What else?")]
    await trial.ask(rewritten)
    trajectory = trial.close()
    assert fates(trajectory) == ["delivered", "delivered", "superseded", "delivered", "delivered"]
    accounting, unseen = trajectory.accounting, len(trial.engine.samples[2].token_ids)
    assert accounting.excluded == {"superseded": unseen}
    assert accounting.trainable_tokens == accounting.sampled_tokens - unseen
