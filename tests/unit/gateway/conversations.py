"""Random conversations with rewrites, retries, sub-agents, failures and clients that leave, and what the laws ask of
each.

Every request goes through a wire format of its own, whole or streamed, some of them over a socket: all those whose
connection breaks. The oracle is what the engine was given and
returned; the expected role and fate of every answer are kept by the machine itself.
"""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from capture_oracle import check_laws, check_round_trip, check_trained
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
from served import Served, listening
from wire import SHOWN, Wire
from wires import FORMS

from lego_rl.engine.protocol import EngineError, Sample, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.dialects import DIALECTS
from lego_rl.gateway.dialects.base import Asked, Dialect
from lego_rl.gateway.exchange import Exchange
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.settings import CaptureSettings
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.gateway.trajectory import CallRole
from lego_rl.messages import Message, Tool, ToolCall

OTHER = replace(BASH, name="other")
"""A tool that is offered now and then."""


@dataclass(repr=False, eq=False)
class Sampled:
    """One answered call and what the test did with its answer."""

    sample: Sample
    message: Message
    asked: tuple[Message, ...]
    tools: tuple[Tool, ...]
    lane: str
    role: CallRole
    written: bool
    echoed: bool = False
    cut: int | None = None
    """Tokens that were delivered, where the stream broke off."""

    @property
    def delivered(self) -> int:
        """Tokens that were delivered, if any were."""
        return len(self.sample.token_ids) if self.cut is None else self.cut

    @property
    def sees_all(self) -> bool:
        """Whether its prompt held nothing that a text model cannot see."""
        return not any(message.omitted for message in self.asked)


@dataclass(repr=False, eq=False)
class Talk:
    """A conversation as its harness would send it."""

    lane: str
    messages: list[Message]
    tools: tuple[Tool, ...] = (BASH,)
    role: CallRole = "subagent"
    """What its calls are for, as the harness knows."""
    answers: dict[int, Sampled] = field(default_factory=dict)  # index in `messages` → what was sampled there
    unthought: set[Sampled] = field(default_factory=set)
    """Answers that were sent without the reasoning that they were sampled with, by the harness or its template."""

    def loses_reasoning(self, *, strips: bool) -> bool:
        """Whether an answer has no reasoning any more that still had it in the request before.

        Args:
            strips: Whether the template leaves out the reasoning of turns before the last of the user's.
        """
        spoken = max(at for at, message in enumerate(self.messages) if message.role == "user")
        lost = {
            sampled
            for at, sampled in self.answers.items()
            if sampled.message.reasoning and ((strips and at < spoken) or not self.messages[at].reasoning)
        }
        loses_more = not lost <= self.unthought
        self.unthought |= lost
        return loses_more


@dataclass(frozen=True)
class Sent:
    """A request on its way through a wire format."""

    wire: Wire
    dialect: Dialect
    asked: Asked
    exchange: Exchange

    async def answer(self) -> Message:
        """What the client reads in the answer, once all of it is there."""
        answer = await self.exchange.answer()
        if self.asked.stream:
            opening = self.dialect.opening(self.asked, self.exchange.prompt_tokens, "reply")
            raw = b"".join((opening, *self.dialect.events(self.asked, answer, "reply")))
        else:
            raw = json.dumps(self.dialect.reply(self.asked, answer, "reply")).encode()
        heard = self.wire.heard(raw)
        assert heard == answer.message, "every form says the same"
        return heard


FORM = st.lists(st.sampled_from(list(FORMS.values())), min_size=3, max_size=3)
"""How the requests of a rule are written, and their answers read. All of a rule is drawn before anything of it happens,
for a case may end with any draw."""
_DIALECTS = {dialect.completion_path: dialect for dialect in DIALECTS}


class Conversations(RuleBasedStateMachine):
    """One session. Its template renders what it is sent, so that a reasoning is lost only where a harness drops it."""

    capture = CaptureSettings(reasoning="keep")
    template = staticmethod(chat_template)
    strips = False

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.replies: list[Reply | EngineError] = []
        self.gate: asyncio.Event | None = None
        self.started = asyncio.Event()  # of the engine's last call
        self.engine = Tape(ScriptedEngine(self.say, routes=ROUTES, version=VERSION))
        self.gateway = Gateway(self.engine, self.template(), tool_call_parser("qwen3_coder"), capture=self.capture)
        self.session = self.gateway.open(Budget(turns=10_000, context_tokens=10**6), temperature=1.0)
        self.open = contextlib.AsyncExitStack()
        self.socket: Served | None = None
        self.sampled: list[Sampled] = []
        self.talks: list[Talk] = []
        self.summary: Sampled | None = None  # what the last call of the main conversation said when asked to sum up
        self.rewrites = 0
        self.failures = 0
        self.gone = 0
        self.number = 0

    async def say(self, prompt: tuple[int, ...], sampling: Sampling) -> Reply:
        reply = self.replies.pop(0)
        self.started.set()
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(reply, EngineError):
            raise reply
        return reply

    def teardown(self) -> None:
        samples = [each.sample for each in self.sampled]
        keeps = self.capture.reasoning == "keep"
        asked = [(each.lane, each.tools, plain(each.asked, keeps=keeps)) for each in self.sampled]
        expected = [each for index, each in enumerate(self.sampled) if delivered(self.sampled, asked, index)]
        trajectory = self.session.close()
        self.runner.run(self.open.aclose())
        self.runner.close()
        cut = {each.sample.call_id: each.cut for each in self.sampled if each.cut is not None}
        check_laws(
            trajectory,
            samples,
            {each.sample.call_id for each in expected},
            blind={each.sample.call_id for each in expected if not each.sees_all},
            cut=cut,
        )
        check_round_trip(trajectory)
        roles = {each.sample.call_id: each.role for each in self.sampled}
        assert {each.call_id: each.role for each in trajectory.generations} == roles
        trains = [each for each in expected if each.role in self.capture.train_roles and each.sees_all]
        check_trained(trajectory, {each.sample.call_id: each.delivered for each in trains})
        assert trajectory.accounting.refused.get("engine_error", 0) == self.failures
        assert trajectory.accounting.refused.get("client_gone", 0) == self.gone
        assert len(trajectory.segments) <= len(self.talks) + self.rewrites

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

    async def ask(self, forms: list[Wire], talk: Talk) -> Sampled:
        return await self.receive(talk, await self.send(forms.pop(), talk))

    async def lose(self, forms: list[Wire], talk: Talk) -> Sampled:
        """Ask on a connection that breaks: the response is not written to its end."""
        sent = await self.send(forms.pop(), talk)
        message = await sent.answer()
        return self.note(talk, self.sample_of(sent.exchange), message, written=False)

    async def break_connection(self, forms: list[Wire], talk: Talk) -> None:
        """Ask on a socket that breaks before any of the answer is sent."""
        at = await self.served()
        await at.lose(forms.pop(), talk.messages, self.engine, lane=talk.lane)
        self.note_sent(talk)
        self.note(talk, self.engine.samples[-1], Message("assistant", ""), written=False)

    async def ask_over_a_socket(self, forms: list[Wire], talk: Talk) -> Sampled:
        at = await self.served()
        message = await at.ask(forms.pop(), talk.messages, lane=talk.lane)
        self.note_sent(talk)
        return self.note(talk, self.engine.samples[-1], message, written=True)

    async def served(self) -> Served:
        """The session behind a real socket, from the first time on that a case needs one."""
        if self.socket is None:
            self.socket = await self.open.enter_async_context(listening(self.gateway, self.session))
        return self.socket

    async def receive(self, talk: Talk, sent: Sent) -> Sampled:
        message = await sent.answer()
        sent.exchange.written()
        return self.note(talk, self.sample_of(sent.exchange), message, written=True)

    async def send(self, wire: Wire, talk: Talk) -> Sent:
        dialect = _DIALECTS[wire.path]
        body = json.loads(json.dumps(wire.body(talk.messages, talk.tools)))
        asked = dialect.read(body, {})
        exchange = await self.session.admit(replace(asked.request, lane=talk.lane))
        self.note_sent(talk)
        return Sent(wire, dialect, asked, exchange)

    def note(self, talk: Talk, sample: Sample, message: Message, *, written: bool) -> Sampled:
        sampled = Sampled(sample, message, tuple(talk.messages), talk.tools, talk.lane, talk.role, written)
        check_prompt(sampled)
        if talk.role == "main":
            self.note_compaction(sampled)
        self.sampled.append(sampled)
        return sampled

    def sample_of(self, exchange: Exchange) -> Sample:
        """What the engine returned to the call that answered an exchange, be it a newer one's."""
        assert exchange.answered_by is not None
        call_id = exchange.answered_by.answered().call_id
        return next(sample for sample in self.engine.samples if sample.call_id == call_id)

    def note_compaction(self, following: Sampled) -> None:
        """A main call that was asked to sum up is a compaction if the next one is told what it said."""
        told = "".join(message.content for message in following.asked if message.role == "user")
        if self.summary is not None and self.summary.message.content in told:
            self.summary.role = "compaction"
        self.summary = None

    def note_sent(self, talk: Talk) -> None:
        if talk.loses_reasoning(strips=self.strips) and self.capture.reasoning == "as_sent":
            self.rewrites += 1
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

    KINDS = st.sampled_from(["text", "odd", "call", "think", "unknown tool", "both", "two", "malformed", "cut"])

    @initialize(forms=FORM, kind=KINDS, titled=st.sampled_from(["never", "before", "after"]))
    def begin(self, forms: list[Wire], kind: str, titled: str) -> None:
        """A harness begins with its main conversation, for which it may want a title."""
        main = Talk("", [Message("system", "Mend code."), user("Mend it.")], role="main")
        self.talks.append(main)
        if titled == "before":
            self.title(forms.pop())
        self.script(kind)
        self.extend(main, self.runner.run(self.ask(forms, main)))
        if titled == "after":
            self.title(forms.pop())

    def title(self, form: Wire) -> None:
        self.script("text")
        talk = Talk("", [Message("system", "Write a title."), user("Mend it.")], (), "title")
        self.runner.run(self.ask([form], talk))

    @rule(forms=FORM, data=st.data(), kind=KINDS)
    def turn(self, forms: list[Wire], data: st.DataObject, kind: str) -> None:
        talk = self.pick(data, self.talks)
        self.script(kind)
        self.extend(talk, self.runner.run(self.ask(forms, talk)))

    @rule(forms=FORM, data=st.data(), kind=KINDS)
    def turn_over_a_socket(self, forms: list[Wire], data: st.DataObject, kind: str) -> None:
        talk = self.pick(data, self.talks)
        self.script(kind)
        self.extend(talk, self.runner.run(self.ask_over_a_socket(forms, talk)))

    @rule(forms=FORM, data=st.data(), kind=KINDS)
    def sub_agent(self, forms: list[Wire], data: st.DataObject, kind: str) -> None:
        name = self.unique()
        talk = Talk(name, [Message("system", "You explore."), user("Look around.")])
        self.talks.append(talk)
        self.script(kind)
        self.extend(talk, self.runner.run(self.ask(forms, talk)))

    @rule(forms=FORM, data=st.data(), arrives=st.booleans())
    def answer_lost_and_asked_again(self, forms: list[Wire], data: st.DataObject, arrives: bool) -> None:
        talk = self.pick(data, self.talks)
        self.script("odd")
        self.runner.run(self.ask(forms, talk) if arrives else self.break_connection(forms, talk))
        self.script("call")
        self.extend(talk, self.runner.run(self.ask(forms, talk)))

    @rule(forms=FORM, data=st.data(), kind=KINDS, failures=st.integers(1, 2))
    def engine_fails_and_the_harness_asks_again(
        self, forms: list[Wire], data: st.DataObject, kind: str, failures: int
    ) -> None:
        talk = self.pick(data, self.talks)
        for _ in range(failures):
            self.replies.append(EngineError("node down"))
            with pytest.raises(EngineError):
                self.runner.run(self.ask(forms, talk))
        self.failures += failures
        self.script(kind)
        self.extend(talk, self.runner.run(self.ask(forms, talk)))

    @rule(forms=FORM, data=st.data(), kind=KINDS, at=st.sampled_from([1, -1]))
    def image(self, forms: list[Wire], data: st.DataObject, kind: str, at: int) -> None:
        """A sub-agent gets one: in its first message, which is a rewrite, or with a tool's result."""
        talk = Talk(self.unique(), [Message("system", "You explore."), user("Look around.")])
        self.talks.append(talk)
        self.script("call")
        self.extend(talk, self.runner.run(self.ask(forms, talk)))
        talk.messages[at] = replace(talk.messages[at], content=f"See {SHOWN} {self.unique()}", omitted=("image",))
        self.rewrites += at == 1
        self.script(kind)
        self.extend(talk, self.runner.run(self.ask(forms, talk)))

    @rule(forms=FORM, data=st.data(), kind=KINDS, goes_on=st.booleans())
    def other_tools_for_once(self, forms: list[Wire], data: st.DataObject, kind: str, goes_on: bool) -> None:
        talk = self.pick(data, self.talks)
        self.script(kind)
        sampled = self.runner.run(self.ask(forms, replace(talk, tools=(BASH, OTHER), role="subagent")))
        self.rewrites += 1
        if goes_on:  # else the harness goes on as if it had not asked
            self.extend(talk, sampled)

    @precondition(lambda self: any(talk.answers for talk in self.talks))
    @rule(forms=FORM, data=st.data(), tools=st.sampled_from([(), (BASH,)]))
    def compaction(self, forms: list[Wire], data: st.DataObject, tools: tuple[Tool, ...]) -> None:
        """The conversation is summed up, in itself or beside it, and begins again with the summary."""
        talk = self.pick(data, [talk for talk in self.talks if talk.answers])
        self.script("text")
        messages = [*talk.messages, user(f"Sum up. {self.unique()}")]
        asking = replace(talk, messages=messages, tools=tools, role=talk.role if tools else "compaction")
        summary = self.runner.run(self.ask(forms, asking))
        if asking.role == "main":
            self.summary = summary
        talk.messages, talk.answers = [talk.messages[0], user(f"So far: {summary.message.content}")], {}
        self.rewrites += 2

    @rule(
        forms=FORM,
        data=st.data(),
        kinds=st.tuples(st.sampled_from(["text", "odd", "think aloud", "both", "cut"]), KINDS),
        arrives=st.booleans(),
        length=st.integers(1, 60) | st.just(10**3),
    )
    def the_harness_keeps_the_beginning_of_an_answer(
        self, forms: list[Wire], data: st.DataObject, kinds: tuple[str, str], arrives: bool, length: int
    ) -> None:
        """Mostly because the stream broke off."""
        talk = self.pick(data, self.talks)
        self.script(kinds[0])
        sampled = self.runner.run(self.ask(forms, talk) if arrives else self.lose(forms, talk))
        said = sampled.message.content
        echo = said[: min(length, len(said) - (not sampled.message.tool_calls))].strip()
        count = whole_tokens(sampled, echo)
        if sampled.written and (not count or echo == said.strip()):  # all of it arrived, and what is echoed is another
            sampled.echoed = bool(count)
            self.rewrites += 1
        elif count:
            sampled.echoed, sampled.cut = True, count
            self.rewrites += self.capture.reasoning == "as_sent"  # what the policy said is read again
        talk.messages += [Message("assistant", echo), user(f"You were cut off. {self.unique()}")]
        self.script(kinds[1])
        self.extend(talk, self.runner.run(self.ask(forms, talk)))

    @rule(forms=FORM, data=st.data(), kind=st.sampled_from(["malformed", "text", "only thought"]))
    def turn_left_out_of_the_history(self, forms: list[Wire], data: st.DataObject, kind: str) -> None:
        talk = self.pick(data, self.talks)
        self.script(kind)
        self.runner.run(self.ask(forms, talk))
        talk.messages = [*talk.messages, user(f"Call a tool. {self.unique()}")]
        self.rewrites += 1

    @rule(forms=FORM, data=st.data(), kinds=st.lists(KINDS, min_size=2, max_size=3))
    def conversations_at_the_same_time(self, forms: list[Wire], data: st.DataObject, kinds: list[str]) -> None:
        """Two or three sub-agents begin in the background, with the same words, while the main conversation waits."""
        talks = [Talk(self.unique(), [Message("system", "You explore."), user("Look around.")]) for _ in kinds]
        self.talks += talks

        async def together() -> None:
            self.gate = asyncio.Event()
            asking = []
            for talk, kind in zip(talks, kinds, strict=True):
                self.script(kind)
                asking.append(asyncio.create_task(self.send(forms.pop(), talk)))
                await asyncio.sleep(0.001)
            self.gate.set()
            for talk, sent in zip(talks, await asyncio.gather(*asking), strict=True):
                self.extend(talk, await self.receive(talk, sent))
            self.gate = None

        self.runner.run(together())

    @rule(forms=FORM, data=st.data())
    def the_same_twice_at_once(self, forms: list[Wire], data: st.DataObject) -> None:
        talk = self.pick(data, self.talks)

        async def both() -> Sampled:
            self.gate = asyncio.Event()
            self.script("text")
            self.script("both")
            older = asyncio.create_task(self.ask(forms, talk))
            await asyncio.sleep(0.001)
            newer = asyncio.create_task(self.ask(forms, talk))
            await asyncio.sleep(0.001)
            self.gate.set()
            first, second = await asyncio.gather(older, newer)
            assert first.message == second.message
            self.sampled.remove(first)  # one model call, two clients
            self.gate = None
            return second

        self.extend(talk, self.runner.run(both()))

    @rule(forms=FORM, data=st.data())
    def client_leaves_before_the_answer(self, forms: list[Wire], data: st.DataObject) -> None:
        talk = self.pick(data, self.talks)

        async def leave() -> None:
            self.gate = asyncio.Event()
            self.script("text")
            self.started.clear()
            at = await self.served()
            await at.leave(forms.pop(), talk.messages, self.started, lane=talk.lane)
            self.note_sent(talk)
            self.gate = None
            self.gone += 1

        before = len(self.engine.samples)
        self.runner.run(leave())
        assert len(self.engine.samples) == before

    @rule(data=st.data(), drops_reasoning=st.booleans())
    def cosmetic_echo(self, data: st.DataObject, drops_reasoning: bool) -> None:
        talk = self.pick(data, self.talks)
        if self.capture.reasoning == "as_sent" and talk.unthought.intersection(talk.answers.values()):
            self.rewrites += 1  # without its reasoning a turn is context, in which every character counts
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
                messages[index - 1] = replace(messages[index - 1], content=f"edited {self.unique()}", omitted=())
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


def check_prompt(sampled: Sampled) -> None:
    """A prompt offers the tools of its request, and holds what the harness said, in its order."""
    text = chat_template().decode(sampled.sample.prompt_ids)
    assert (f'"{OTHER.name}"' in text) == (OTHER in sampled.tools)
    at = 0
    for message in sampled.asked:
        if message.role != "assistant":
            at = text.index(message.content, at) + len(message.content)


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


type Asking = tuple[str, tuple[Tool, ...], list[Message]]
"""What makes two requests the same: lane, tools, and messages without what is cosmetic."""


def delivered(sampled: Sequence[Sampled], asked: Sequence[Asking], index: int) -> bool:
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
    strips = True
