"""A policy that does a small job in any harness.

Invariant: it knows what its prompt says and nothing else: which tools it is offered, and how far the job is. So a
request that is sent again gets the same answer, and a harness that forgets is told again. Only what may happen once
(a malformed call, a sub-agent) is remembered.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lego_rl.conformance.toolbox import Toolbox
from lego_rl.engine.protocol import Sampling
from lego_rl.engine.scripted import Reply
from lego_rl.gateway.encoding import Encoder
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.trajectory import CallRole
from lego_rl.harness.base import Conduct

FILE = "shop/price.rule"
MISSION = f"In {FILE} the fee has to be added to the cost"
INSTRUCTION = f"{MISSION}, but it is subtracted. Mend it.\n"
MENDED = "total = cost + fee"
PROBE = "Find out what day it is in the sandbox"
MALFORMED = "<tool_call>\n<function=look\nsomewhere"

_USER = "<|im_start|>user\n"
_MARK = "-done"
"""In every command, and in what it prints: where it is, the work has begun."""
_MENTIONS = 3
_TAG = re.compile(r"</?[\w-]+>")

_PROBES = ("with date", "with the clock of the kernel")
"""How several sub-agents of one turn are to find out: their first words differ."""

type Said = Literal["malformed", "unknown tool", "subagent", "subagents"]
"""A turn that is said once."""

type Step = Shell | Said
"""What the job consists of."""


@dataclass(frozen=True)
class Shell:
    """A command that is given until its output is in the prompt."""

    command: str


FIX = (
    Shell("grep -rn total ."),
    Shell(f"cat {FILE}"),
    Shell(f"sed -i 's/cost - fee/cost + fee/' {FILE}"),
    Shell(f"cat {FILE}"),
)
"""The job in four commands; the fifth turn ends it."""

type Interference = Callable[[int], Awaitable[None]]
"""Is told the number of each model call, from 1 on, before it is answered; it may wait or raise an `EngineError`."""


async def no_interference(_: int) -> None:
    """Every call is answered at once."""


@dataclass
class Policy:
    """A script for a `ScriptedEngine`.

    Attributes:
        template: Of the policy.
        encoder: Its tokenizer.
        conduct: Which tools of the harness do what.
        steps: The job.
        interfere: What happens to the engine.
        lacks: What the harness has no tool for.
    """

    template: ChatTemplate
    encoder: Encoder
    conduct: Conduct
    steps: Sequence[Step] = FIX
    interfere: Interference = no_interference
    lacks: set[str] = field(default_factory=set)
    _calls: int = 0
    _said: set[int] = field(default_factory=set)

    async def __call__(self, prompt: tuple[int, ...], sampling: Sampling) -> Reply:
        """Answer a prompt."""
        self._calls += 1
        await self.interfere(self._calls)
        text = self.template.decode(prompt)
        return Reply(self._spell(self._answer(text, Toolbox.read(text)), oddly=_done(2) not in text))

    def role(self, prompt: Sequence[int]) -> CallRole:
        """What a call is for, by its prompt."""
        text = self.template.decode(prompt)
        return _role(text, Toolbox.read(text))

    def _answer(self, text: str, tools: Toolbox) -> str:
        match _role(text, tools):
            case "title" | "compaction":
                done = [_done(index) for index in range(len(self.steps)) if _done(index) in text]
                return " ".join([f"{MISSION}.", *done])
            case "subagent":
                return self._probe(text, tools)
            case "main":
                return self._work(text, tools)

    def _work(self, text: str, tools: Toolbox) -> str:
        for index, step in enumerate(self.steps):
            if isinstance(step, Shell):
                if _done(index) not in text:
                    return self._shell(index, step, tools)
            elif index not in self._said:
                self._said.add(index)
                said = self._once(step, tools)
                if said:
                    return said
        return self._end(tools)

    def _shell(self, index: int, step: Shell, tools: Toolbox) -> str:
        call = tools.use(self.conduct.shell, _with_mark(step.command, index))
        if call is None:
            return self._end(tools)
        before = ("I look for it.\n", "<think>\nIt may be there.\n</think>\n\n", "", "")[index % 4]
        return before + call

    def _once(self, step: Said, tools: Toolbox) -> str:
        match step:
            case "malformed":
                return MALFORMED
            case "unknown tool":
                return tools.call("no_such_tool", {"where": "somewhere"})
            case "subagent":
                return self._call_sub_agents(tools, [f"{PROBE}."])
            case "subagents":
                return self._call_sub_agents(tools, [f"{PROBE}, {how}." for how in _PROBES])

    def _call_sub_agents(self, tools: Toolbox, tasks: Sequence[str]) -> str:
        """One turn that calls a sub-agent for each task; empty if there is no tool for it."""
        calls = [tools.use(self.conduct.subagent, task) for task in tasks]
        if None in calls:
            self.lacks.add("subagent")
        return "\n".join(call for call in calls if call is not None)

    def _probe(self, text: str, tools: Toolbox) -> str:
        mark = len(self.steps)
        call = tools.use(self.conduct.shell, _with_mark("date", mark)) if _done(mark) not in text else None
        return call or self._end(tools)

    def _end(self, tools: Toolbox) -> str:
        if self.conduct.last_command is not None:
            return tools.use(self.conduct.shell, self.conduct.last_command) or "Done."
        return tools.use(self.conduct.finish, "Done.") or "Done."

    def _spell(self, text: str, *, oddly: bool) -> list[int]:
        """Ids of a turn; `oddly` in a spelling of the policy's own that no tokenizer would choose."""
        pieces = list(text) if oddly else [text]
        ids = [token for piece in pieces for token in self.encoder.encode(piece)]
        return [*ids, self.template.end_of_turn]


def _done(index: int) -> str:
    """What the output of a step says."""
    return f"step-{index + 1}{_MARK}"


def _role(text: str, tools: Toolbox) -> CallRole:
    """What a call with such a prompt is for. A title is asked of the instruction alone."""
    if not tools.tools:
        return "title" if INSTRUCTION.strip() in text and _MARK not in text else "compaction"
    if _asks_for_a_summary(text):
        return "compaction"
    return "subagent" if PROBE in text and MISSION not in text else "main"


def _asks_for_a_summary(text: str) -> bool:
    """Whether the last words of a prompt are about summing up, at length, and hold no summary."""
    last = text.rpartition(_USER)[2]
    # The tags in which a harness tells what a sub-agent did are no words.
    return MISSION not in last and _TAG.sub("", last).lower().count("summar") >= _MENTIONS


def _with_mark(command: str, index: int) -> str:
    """A command whose output says that it was run, which the command itself does not."""
    return f"{command}; echo step-$(({index} + 1)){_MARK}"
