"""The demonstrator: an imperfect solver that knows where the bug is, and acts on what the tools really told it.

Invariant: a turn is a function of the task, the trial's seed and the conversation so far. Paths and lines come from
tool results; where a result does not show what a step needs, the demonstrator gives up.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lego_rl.messages import Message
from lego_rl.tasks.bugtask import BugTask
from warm_start.mistakes import Mistake, MistakeRates, break_call, wrong_fix
from warm_start.toolsets import ToolSet, found_path, listed_lines

WORKDIR = "/app"
_CLOSING = "Done."
_GIVING_UP = "I see no bug here."
"""A sentence of its own: what a policy learns of giving up should not spill over to ending a finished trial."""
_QUOTED = re.compile(r"`(\w+)`")


@dataclass(frozen=True)
class Edit:
    """One line to replace, without its indentation."""

    old: str
    new: str


class Demonstrator:
    """Demonstrates one trial.

    Args:
        task: What is to be solved.
        tools: The harness's tools.
        rates: How often it errs.
        seed: Decides the mistakes of this trial.
    """

    def __init__(self, task: BugTask, tools: ToolSet, rates: MistakeRates, seed: int) -> None:
        self._task = task
        self._tools = tools
        self._seed = seed
        rng = random.Random(f"{seed}/{task.id}")
        self.mistakes = rates.draw(rng)

    def next_turn(self, messages: Sequence[Message]) -> str:
        """The assistant's next turn as text, tool call included.

        Args:
            messages: The conversation so far, as the harness echoes it.
        """
        results = [message.content for message in messages if message.role == "tool"]
        said_without_call = any(message.role == "assistant" and not message.tool_calls for message in messages)
        if said_without_call:
            return self._close()
        match results:
            case []:
                return self._tools.search(self._function())
            case [hits]:
                return self._read(hits)
            case [hits, listing]:
                return self._edit(hits, listing)
            case _:
                return self._close()

    def _close(self) -> str:
        return self._tools.finish(_CLOSING)

    def _give_up(self) -> str:
        return self._tools.finish(_GIVING_UP)

    def _read(self, hits: str) -> str:
        path = found_path(hits)
        return self._give_up() if path is None else self._tools.read(f"{WORKDIR}/{path}")

    def _edit(self, hits: str, listing: str) -> str:
        path, edit = found_path(hits), self._choose_edit(listed_lines(listing))
        if path is None or edit is None or Mistake.STOPS_EARLY in self.mistakes:
            return self._give_up()
        turn = self._tools.edit(f"{WORKDIR}/{path}", edit.old, edit.new)
        return break_call(self._rng("break"), turn) if Mistake.MALFORMED in self.mistakes else turn

    def _function(self) -> str:
        """The function to look at: the one with the bug, or the other one that the issue names."""
        wrong = self._task.bug.function
        if Mistake.WRONG_FILE not in self.mistakes:
            return wrong
        source = "\n".join(self._task.files.values())
        quoted: list[str] = _QUOTED.findall(self._task.instruction)
        return next(name for name in quoted if name != wrong and f"def {name}(" in source)

    def _choose_edit(self, lines: Sequence[str]) -> Edit | None:
        """What to change in the file shown; ``None`` where it does not show what it takes."""
        bug = self._task.bug
        if Mistake.WRONG_FILE in self.mistakes:
            return _meddle(lines, f"def {self._function()}(")
        if bug.before not in lines:
            return None
        if Mistake.WRONG_LINE in self.mistakes:
            header = f"def {bug.function}("
            others = [line for line in lines if line.startswith("def ") and not line.startswith(header)]
            return _meddle(lines, self._rng("line").choice(others)) if others else None
        new = bug.after
        if Mistake.WRONG_FIX in self.mistakes:
            new = wrong_fix(self._rng("fix"), bug.before, bug.after, _parameters(lines, bug.function))
        return Edit(bug.before.strip(), new.strip())

    def _rng(self, purpose: str) -> random.Random:
        """Fresh random numbers, so that asking for the same turn again gives the same turn."""
        return random.Random(f"{self._seed}/{self._task.id}/{purpose}")


def _parameters(lines: Sequence[str], function: str) -> list[str]:
    """The parameters of a function, as its first line shows them."""
    header = next(line for line in lines if line.startswith(f"def {function}("))
    return re.findall(r"[a-z]+(?=[,=)])", header)


def _meddle(lines: Sequence[str], header: str) -> Edit | None:
    """A needless change of what the function that begins with `header` returns."""
    starts = [number for number, line in enumerate(lines) if line.startswith(header)]
    returns = [line.strip() for line in lines[starts[0] :] if line.lstrip().startswith("return ")] if starts else []
    return Edit(returns[0], f"{returns[0]} + 1") if returns else None
