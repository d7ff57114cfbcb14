"""The capture laws over random conversations with rewrites, retries, sub-agents and clients that leave.

The oracle is what the engine was given and returned; the expected fate of every answer is kept by the test itself.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from capture_oracle import check_laws, check_round_trip
from gateway_kit import BASH, ROUTES, VERSION, Tape, call_text, chat_template, spell, spell_oddly, user
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from lego_rl.engine.protocol import Sample, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.session import Session
from lego_rl.gateway.tool_calls import tool_call_parser
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
        self.engine = Tape(ScriptedEngine(self.say, routes=ROUTES, version=VERSION))
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
        samples = [each.sample for each in self.sampled]
        expected = {each.sample.call_id for index, each in enumerate(self.sampled) if delivered(self.sampled, index)}
        trajectory = self.session.close()
        check_laws(trajectory, samples, expected)
        check_round_trip(trajectory)
        assert len(trajectory.segments) <= len(self.talks) + self.rewrites
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
        exchange = await self.session.admit(Request(tuple(talk.messages), (BASH,), talk.lane))
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

    @precondition(lambda self: any(talk.answers for talk in self.talks))
    @rule(data=st.data(), kind=st.sampled_from(["insert", "drop", "edit", "clear", "replace"]))
    def rewrite(self, data: st.DataObject, kind: str) -> None:
        talk = self.pick(data, [talk for talk in self.talks if talk.answers])
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
                answers.pop(index - 1, None)
            case "clear":
                calls = (ToolCall(self.unique(), "bash", {}),) if not messages[index].tool_calls else ()
                messages[index] = replace(messages[index], tool_calls=calls)
                del answers[index]
            case "replace":
                messages[index] = Message("assistant", f"invented {self.unique()}")
                del answers[index]
        self.rewrites += 1
        talk.messages, talk.answers = messages, answers


def plain(messages: Sequence[Message]) -> list[Message]:
    """Messages without what `Conversations.cosmetic_echo` adds."""
    return [
        replace(
            message,
            content=message.content.strip(),
            tool_calls=tuple(
                replace(call, arguments={key: call.arguments[key] for key in call.arguments if key != "background"})
                for call in message.tool_calls
            ),
        )
        for message in messages
    ]


def delivered(sampled: Sequence[Sampled], index: int) -> bool:
    each = sampled[index]
    replaced = any(
        other.lane == each.lane and plain(other.asked) == plain(each.asked) and (other.echoed or at > index)
        for at, other in enumerate(sampled)
        if at != index
    )
    return each.echoed or (each.written and not replaced)


TestConversations = Conversations.TestCase
TestConversations.settings = settings(
    max_examples=40,
    stateful_step_count=15,
    phases=[Phase.generate, Phase.shrink],
)
