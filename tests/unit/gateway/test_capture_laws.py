"""The capture laws over random conversations with rewrites, retries, sub-agents and clients that leave.

The oracle is what the engine was given and returned; the expected fate of every answer is kept by the test itself.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from gateway_kit import BASH, ROUTES, Tape, call_text, chat_template, spell, spell_oddly, user
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from lego_rl.engine.protocol import Sample, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine, synthetic_routes
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.session import Session
from lego_rl.gateway.store import load_segments, read_trajectory, write_trajectory
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.gateway.trajectory import Segment, Trajectory
from lego_rl.gateway.tree import Request
from lego_rl.messages import Message, ToolCall


@dataclass(repr=False)
class Sampled:
    """One answered call and what the test did with its answer."""

    sample: Sample
    message: Message
    asked: tuple[Message, ...]
    lane: str
    written: bool = False
    echoed: bool = False


@dataclass(repr=False)
class Talk:
    """A conversation as its harness would send it."""

    lane: str
    messages: list[Message]
    answers: dict[int, Sampled] = field(default_factory=dict)  # index in `messages` → what was sampled there


class Conversations(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.replies: list[Reply] = []
        self.gate: asyncio.Event | None = None
        self.engine = Tape(ScriptedEngine(self.say, routes=ROUTES, version=3))
        self.session = Session(
            self.engine,
            chat_template(),
            tool_call_parser("qwen3_coder"),
            budget=Budget(turns=10_000, context_tokens=10**6),
            temperature=1.0,
            seed=None,
        )
        self.sampled: list[Sampled] = []
        self.talks: list[Talk] = []
        self.rewrites = 0
        self.number = 0

    async def say(self, prompt: tuple[int, ...], sampling: Sampling) -> Reply:
        reply = self.replies.pop(0)
        if self.gate is not None:
            await self.gate.wait()
        return reply

    def teardown(self) -> None:
        check(self.session.close(), self.sampled, max_segments=len(self.talks) + self.rewrites)
        self.runner.close()

    def unique(self) -> str:
        self.number += 1
        return f"n{self.number}"

    @staticmethod
    def pick(data: st.DataObject, talks: list[Talk]) -> Talk:
        return talks[data.draw(st.integers(0, len(talks) - 1))]

    # --- asking -------------------------------------------------------------------------------------------------------

    def script(self, kind: str) -> None:
        text = self.unique()
        call = call_text("bash", {"command": f"ls {text}", "timeout": 7})
        replies = {
            "text": spell(text),
            "odd": spell_oddly(text),
            "call": spell(call),
            "both": spell(f"{text}\n{call}"),
            "two": spell(f"{call}\n{call}"),
            "malformed": spell(f"{text} <tool_call> <function=bash>"),
            "cut": spell(text, end=False),
        }
        self.replies.append(Reply(replies[kind]))

    async def ask(self, talk: Talk) -> Sampled:
        exchange = self.session.admit(Request(tuple(talk.messages), (BASH,), talk.lane))
        self.note_echoes(talk)
        answer = await exchange.answer()
        exchange.written()
        sampled = Sampled(self.engine.samples[-1], answer.message, tuple(talk.messages), talk.lane, written=True)
        self.sampled.append(sampled)
        return sampled

    def note_echoes(self, talk: Talk) -> None:
        for sampled in talk.answers.values():
            sampled.echoed = True

    def extend(self, talk: Talk, sampled: Sampled) -> None:
        talk.answers[len(talk.messages)] = sampled
        talk.messages.append(sampled.message)
        results = [
            Message("tool", f"output {self.unique()} <|im_end|>", tool_call_id=call.id)
            for call in sampled.message.tool_calls
        ]
        talk.messages += results or [user(f"next {self.unique()}")]

    # --- rules --------------------------------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        self.talks.append(Talk("", [Message("system", "Mend code."), user("Mend it.")]))

    KINDS = st.sampled_from(["text", "odd", "call", "both", "two", "malformed", "cut"])

    @rule(data=st.data(), kind=KINDS)
    def turn(self, data: st.DataObject, kind: str) -> None:
        talk = self.pick(data, self.talks)
        self.script(kind)
        self.extend(talk, self.runner.run(self.ask(talk)))

    @rule(kind=KINDS)
    def sub_agent(self, kind: str) -> None:
        name = self.unique()
        talk = Talk(name, [Message("system", "You explore."), user("Look around.")])
        self.talks.append(talk)
        self.script(kind)
        self.extend(talk, self.runner.run(self.ask(talk)))

    @rule(data=st.data())
    def answer_lost_and_asked_again(self, data: st.DataObject) -> None:
        talk = self.pick(data, self.talks)
        self.script("odd")
        lost = self.runner.run(self.ask(talk))
        lost.written = data.draw(st.booleans())
        if not lost.written:
            # What the session saw: the response broke off.
            self.session._tree.calls[-1].written = False
        self.script("call")
        self.extend(talk, self.runner.run(self.ask(talk)))

    @rule(data=st.data())
    def the_same_twice_at_once(self, data: st.DataObject) -> None:
        talk = self.pick(data, self.talks)

        async def both() -> Sampled:
            self.gate = asyncio.Event()
            self.script("text")
            self.script("both")
            older = asyncio.create_task(self.ask(talk))
            await asyncio.sleep(0.001)
            newer = asyncio.create_task(self.ask(talk))
            await asyncio.sleep(0.001)
            self.gate.set()
            first, second = await asyncio.gather(older, newer)
            assert first.message == second.message
            self.sampled.remove(first)  # one model call, two clients
            self.gate = None
            return second

        self.extend(talk, self.runner.run(both()))

    @rule(data=st.data())
    def client_leaves_before_the_answer(self, data: st.DataObject) -> None:
        talk = self.pick(data, self.talks)

        async def leave() -> None:
            self.gate = asyncio.Event()
            self.script("text")
            asking = asyncio.create_task(self.ask(talk))
            await asyncio.sleep(0.001)
            asking.cancel()
            await asyncio.wait({asking})
            await asyncio.sleep(0)
            self.gate = None

        before = len(self.engine.samples)
        self.runner.run(leave())
        assert len(self.engine.samples) == before

    @rule(data=st.data())
    def cosmetic_echo(self, data: st.DataObject) -> None:
        talk = self.pick(data, self.talks)
        for index in talk.answers:
            message = talk.messages[index]
            calls = tuple(
                replace(call, arguments=dict(reversed(call.arguments.items())) | {"background": False})
                for call in message.tool_calls
            )
            talk.messages[index] = replace(message, content=f"{message.content}\n", tool_calls=calls)

    @precondition(lambda self: any(len(talk.messages) > 4 for talk in self.talks))
    @rule(data=st.data(), kind=st.sampled_from(["insert", "drop", "edit", "clear", "replace"]))
    def rewrite(self, data: st.DataObject, kind: str) -> None:
        talk = self.pick(data, [talk for talk in self.talks if len(talk.messages) > 4])
        index = data.draw(st.sampled_from(sorted(talk.answers)))
        messages = list(talk.messages)
        answers = dict(talk.answers)
        match kind:
            case "insert":
                messages.insert(index, user(f"reminder {self.unique()}"))
                answers = {at + (at >= index): sampled for at, sampled in answers.items()}
            case "drop":
                del messages[index]
                answers = {at - (at > index): sampled for at, sampled in answers.items() if at != index}
            case "edit":
                messages[index - 1] = replace(messages[index - 1], content=f"edited {self.unique()}")
            case "clear":
                calls = (ToolCall(self.unique(), "bash", {}),) if not messages[index].tool_calls else ()
                messages[index] = replace(messages[index], tool_calls=calls)
                del answers[index]
            case "replace":
                messages[index] = Message("assistant", f"invented {self.unique()}")
                del answers[index]
        self.rewrites += 1
        talk.messages, talk.answers = messages, answers


def check(trajectory: Trajectory, sampled: Sequence[Sampled], max_segments: int) -> None:
    """Laws 1 to 4, routes, and the round trip to disk."""
    by_call = {each.sample.call_id: each for each in sampled}
    assert [each.call_id for each in trajectory.generations] == [each.sample.call_id for each in sampled]
    delivered = {each.sample.call_id for index, each in enumerate(sampled) if expected_delivered(sampled, index)}
    assert {each.call_id for each in trajectory.generations if each.fate == "delivered"} == delivered
    for index, generation in enumerate(trajectory.generations):
        assert tuple(trajectory.prompt_ids(index)) == by_call[generation.call_id].sample.prompt_ids
    trained: set[tuple[str, int]] = set()
    for segment in trajectory.segments:
        here = trained_tokens(segment, by_call)
        assert here and not here & trained
        trained |= here
        assert segment.route_coverage == 1.0
        assert segment.routes is not None
        assert np.array_equal(segment.routes, synthetic_routes(segment.token_ids[:-1].tolist(), ROUTES))
    assert trained == {(call, at) for call in delivered for at in range(len(by_call[call].sample.token_ids))}
    assert len(trajectory.segments) <= max_segments
    accounting = trajectory.accounting
    assert accounting.sampled_tokens == sum(len(each.sample.token_ids) for each in sampled)
    assert accounting.trainable_tokens == accounting.delivered_tokens == len(trained)
    assert sum(accounting.excluded.values()) == accounting.sampled_tokens - accounting.trainable_tokens
    with TemporaryDirectory() as folder:
        write_trajectory(trajectory, Path(folder))
        again = read_trajectory(Path(folder))
        assert_same_segments(again.segments, trajectory.segments)
        assert_same_segments(load_segments(Path(folder)), trajectory.segments)
    assert (again.conversations, again.tools) == (trajectory.conversations, trajectory.tools)
    assert again.accounting == accounting


def expected_delivered(sampled: Sequence[Sampled], index: int) -> bool:
    each = sampled[index]
    asked_again = any(later.asked == each.asked and later.lane == each.lane for later in sampled[index + 1 :])
    return each.echoed or (each.written and not asked_again)


def trained_tokens(segment: Segment, by_call: dict[str, Sampled]) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    ids = segment.token_ids.tolist()
    for position in np.flatnonzero(segment.loss_mask).tolist():
        call = segment.calls[segment.call_ids[position]]
        at = int(segment.call_positions[position])
        sample = by_call[call].sample
        start = len(sample.prompt_ids)
        assert position == start + at
        assert tuple(ids[:position]) == (*sample.prompt_ids, *sample.token_ids[:at])
        assert ids[position] == sample.token_ids[at]
        assert segment.logprobs[position] == sample.logprobs[at]
        assert segment.versions[position] == 3
        found.add((call, at))
    context = segment.loss_mask == 0
    assert not segment.logprobs[context].any()
    for unset in (segment.versions, segment.call_ids, segment.call_positions):
        assert (unset[context] == -1).all()
    return found


def assert_same_segments(one: Sequence[Segment], two: Sequence[Segment]) -> None:
    assert len(one) == len(two)
    for a, b in zip(one, two, strict=True):
        for name, value in vars(b).items():
            if isinstance(value, np.ndarray):
                other = getattr(a, name)
                assert other.dtype == value.dtype
                assert np.array_equal(other, value)
            else:
                assert getattr(a, name) == value


TestConversations = Conversations.TestCase
TestConversations.settings = settings(
    max_examples=60,
    stateful_step_count=15,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)
