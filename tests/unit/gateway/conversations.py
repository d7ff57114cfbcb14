"""Random conversations with rewrites, retries, sub-agents and clients that leave, and what the laws ask of each.

The oracle is what the engine was given and returned; the expected fate of every answer is kept by the machine itself.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from capture_oracle import check_laws, check_round_trip
from gateway_kit import (
    BASH,
    ROUTES,
    VERSION,
    Tape,
    call_text,
    chat_template,
    spell,
    spell_oddly,
    stripping_template,
    user,
)
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from lego_rl.engine.protocol import Sample, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call import Request
from lego_rl.gateway.exchange import Exchange
from lego_rl.gateway.session import Session
from lego_rl.gateway.settings import CaptureSettings
from lego_rl.gateway.tool_calls import tool_call_parser
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
    cut: int | None = None
    """Tokens that were delivered, where the stream broke off."""


@dataclass(repr=False)
class Talk:
    """A conversation as its harness would send it."""

    lane: str
    messages: list[Message]
    answers: dict[int, Sampled] = field(default_factory=dict)  # index in `messages` → what was sampled there


class Conversations(RuleBasedStateMachine):
    """One session. Its template renders what it is sent, so that a reasoning is lost only where a harness drops it."""

    capture = CaptureSettings(reasoning="keep")
    template = staticmethod(chat_template)

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.replies: list[Reply] = []
        self.gate: asyncio.Event | None = None
        self.engine = Tape(ScriptedEngine(self.say, routes=ROUTES, version=VERSION))
        self.session = Session(
            self.engine,
            self.template(),
            tool_call_parser("qwen3_coder"),
            budget=Budget(turns=10_000, context_tokens=10**6),
            temperature=1.0,
            seed=None,
            capture=self.capture,
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
        keeps = self.capture.reasoning == "keep"
        asked = [(each.lane, plain(each.asked, keeps=keeps)) for each in self.sampled]
        expected = {
            each.sample.call_id for index, each in enumerate(self.sampled) if delivered(self.sampled, asked, index)
        }
        trajectory = self.session.close()
        cut = {each.sample.call_id: each.cut for each in self.sampled if each.cut is not None}
        check_laws(trajectory, samples, expected, cut=cut)
        check_round_trip(trajectory)
        if keeps:
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
        text = f"{self.unique()} été 😀 in the file"
        call = call_text("bash", {"command": f"ls {text}", "timeout": 7})
        replies = {
            "text": spell(text),
            "odd": spell_oddly(text),
            "call": spell(call),
            "think": spell(f"<think>\n{text}?\n</think>\n\n{call}"),
            "only thought": spell(f"<think>\n{text}?\n</think>\n\n"),
            "unknown tool": spell(call_text("nothing", {"text": text})),
            "think aloud": spell(f"<think>\n{text}?\n</think>\n\n{text}!"),
            "both": spell(f"{text}\n{call}"),
            "two": spell(f"{call}\n{call}"),
            "malformed": spell(f"{text} <tool_call> <function=bash>"),
            "cut": spell(text, end=False),
        }
        self.replies.append(Reply(replies[kind]))

    async def ask(self, talk: Talk) -> Sampled:
        return await self.answer(talk, await self.admit(talk))

    async def admit(self, talk: Talk) -> Exchange:
        exchange = await self.session.admit(Request(tuple(talk.messages), (BASH,), talk.lane))
        self.note_echoes(talk)
        return exchange

    async def answer(self, talk: Talk, exchange: Exchange) -> Sampled:
        answer = await exchange.answer()
        exchange.written()
        sampled = Sampled(self.sample_of(exchange), answer.message, tuple(talk.messages), talk.lane, written=True)
        self.sampled.append(sampled)
        return sampled

    def sample_of(self, exchange: Exchange) -> Sample:
        """What the engine returned to the call that answered an exchange, be it a newer one's."""
        while exchange._successor is not None:
            exchange = exchange._successor
        assert exchange.call is not None
        call_id = exchange.call.answered().call_id
        return next(sample for sample in self.engine.samples if sample.call_id == call_id)

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

    KINDS = st.sampled_from(["text", "odd", "call", "think", "unknown tool", "both", "two", "malformed", "cut"])

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

    @rule(data=st.data(), kind=st.sampled_from(["text", "odd", "think aloud", "both", "cut"]), goes_on=KINDS)
    def stream_breaks_off_and_the_harness_keeps_what_it_has(self, data: st.DataObject, kind: str, goes_on: str) -> None:
        talk = self.pick(data, self.talks)
        self.script(kind)
        sampled = self.runner.run(self.ask(talk))
        self.session._tree.calls[-1].written = sampled.written = False
        said = sampled.message.content
        echo = said[: data.draw(st.integers(1, len(said) - (not sampled.message.tool_calls)))].strip()
        count = whole_tokens(sampled, echo)
        if count:
            sampled.echoed, sampled.cut = True, count
        talk.messages += [Message("assistant", echo), user(f"You were cut off. {self.unique()}")]
        self.script(goes_on)
        self.extend(talk, self.runner.run(self.ask(talk)))

    @rule(data=st.data(), kind=st.sampled_from(["malformed", "text", "only thought"]))
    def turn_left_out_of_the_history(self, data: st.DataObject, kind: str) -> None:
        talk = self.pick(data, self.talks)
        self.script(kind)
        self.runner.run(self.ask(talk))
        talk.messages = [*talk.messages, user(f"Call a tool. {self.unique()}")]
        self.rewrites += 1

    @rule(data=st.data(), kinds=st.lists(KINDS, min_size=2, max_size=3))
    def conversations_at_the_same_time(self, data: st.DataObject, kinds: list[str]) -> None:
        """Two or three sub-agents begin in the background, with the same words, while the main conversation waits."""
        talks = [Talk(self.unique(), [Message("system", "You explore."), user("Look around.")]) for _ in kinds]
        self.talks += talks

        async def together() -> None:
            self.gate = asyncio.Event()
            asking = []
            for talk, kind in zip(talks, kinds, strict=True):
                self.script(kind)
                asking.append(asyncio.create_task(self.admit(talk)))
                await asyncio.sleep(0.001)
            self.gate.set()
            for talk, exchange in zip(talks, await asyncio.gather(*asking), strict=True):
                self.extend(talk, await self.answer(talk, exchange))
            self.gate = None

        self.runner.run(together())

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

    @rule(data=st.data(), drops_reasoning=st.booleans())
    def cosmetic_echo(self, data: st.DataObject, drops_reasoning: bool) -> None:
        talk = self.pick(data, self.talks)
        for index in talk.answers:
            message = talk.messages[index]
            talk.messages[index] = replace(
                message,
                content=f"{message.content}\n",
                tool_calls=tuple(map(written_again, message.tool_calls)),
                reasoning=None if drops_reasoning else message.reasoning,
            )

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


def whole_tokens(sampled: Sampled, echo: str) -> int:
    """Sampled tokens of an answer whose text is all in an echo of its beginning, found the slow way."""
    ids = sampled.sample.token_ids
    text = chat_template().decode(ids)
    before = text.partition("</think>")[0] + "</think>" if "</think>" in text else ""
    margin = len(text) - len(before) - len(text[len(before) :].lstrip())
    seen = text[: len(before) + margin + len(echo)]
    return max(count for count in range(len(ids)) if seen.startswith(chat_template().decode(ids[:count])))


def written_again(call: ToolCall) -> ToolCall:
    """A call as a harness echoes it: its own, if there is no such tool."""
    if call.name != "bash":
        return replace(call, name="invalid", arguments={"tool": "nothing", "error": "no such tool"})
    return replace(call, arguments=dict(reversed(call.arguments.items())) | {"background": False})


def plain(messages: Sequence[Message], *, keeps: bool) -> list[Message]:
    """Messages without what `Conversations.cosmetic_echo` changes."""
    return [
        replace(
            message,
            content=message.content.strip(),
            reasoning=None if keeps else message.reasoning,
            tool_calls=tuple(
                replace(
                    call,
                    name="",
                    arguments={key: call.arguments[key] for key in call.arguments if key in ("command", "timeout")},
                )
                for call in message.tool_calls
            ),
        )
        for message in messages
    ]


def delivered(sampled: Sequence[Sampled], asked: Sequence[tuple[str, list[Message]]], index: int) -> bool:
    each = sampled[index]
    replaced = any(
        asked[at] == asked[index] and (other.echoed or at > index) for at, other in enumerate(sampled) if at != index
    )
    return each.echoed or (each.written and not replaced)


class AsSent(Conversations):
    """The same, where a turn whose reasoning was dropped is another turn."""

    capture = CaptureSettings(reasoning="as_sent")


class Stripping(AsSent):
    """The same with a template that leaves out the reasoning itself, once the user speaks again."""

    template = staticmethod(stripping_template)
