"""Drills: a dense signal for copying, before the first demonstration.

Invariant: a drill is a function of its seed and number; its tasks are of split ``warm``; everything it asks for can be
copied or read off from what it shows.

Two kinds. *Phrases*: a few phrases of random words, again and again; what follows the first word of a known phrase can
be copied. *Lookups*: an issue, a search hit, a numbered listing and an edit, shown as a harness would show them, but
without the harness and its prompt. What is learned is the function's name out of the issue, the path out of the hit,
the line out of the listing and its fix out of issue and line. Nothing is learned here of the order in which a trial
goes on, of its end or of mistakes: that is what demonstrations are for.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lego_rl.gateway.encoding import Encoder
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.trajectory import Segment
from lego_rl.messages import Message
from lego_rl.tasks.bugtask import BugTask
from lego_rl.tasks.generate import families_of, generate
from lego_rl.tasks.words import NOUNS, VERBS
from warm_start.demonstrator import WORKDIR
from warm_start.toolsets import toolset

_PHRASE_TOKENS = 96
_MOST_PHRASES = 8
_MOST_WORDS = 4
_DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")


class Phrases(Sequence[Segment]):
    """Drills of repeated phrases.

    Args:
        encoder: The policy's tokenizer.
        count: How many drills there are.
        seed: Seeds them.
    """

    def __init__(self, encoder: Encoder, count: int, seed: int) -> None:
        self._words = [encoder.encode(word)[0] for word in (*VERBS, *NOUNS)]
        self._count = count
        self._seed = seed

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Segment:  # type: ignore[override]  # no slices
        rng = random.Random(f"{self._seed}/phrases/{index}")
        words = rng.sample(self._words, _MOST_PHRASES * _MOST_WORDS)
        count = rng.randint(3, _MOST_PHRASES)
        phrases = [words[_MOST_WORDS * i :][: rng.randint(2, _MOST_WORDS)] for i in range(count)]
        ids: list[int] = []
        mask: list[int] = []
        known: set[int] = set()
        while len(ids) < _PHRASE_TOKENS:
            chosen = rng.randrange(count)
            ids += phrases[chosen]
            mask += [0] + [int(chosen in known)] * (len(phrases[chosen]) - 1)
            known.add(chosen)
        return demonstrated(ids, mask)


class Lookups(Sequence[Segment]):
    """Drills of looking things up in what tools print: every second one whole, the others narrow.

    A whole drill goes from issue to edit. A narrow one shows the search hit and the lines of the one function, and asks
    for the edit alone: three times the signal for its length.

    Args:
        policy: Directory with the policy's tokenizer and chat template.
        prompts: Harnesses whose tools are called, and the fixed prompt that a drill begins with; "" for none.
        count: How many drills there are.
        seed: Seeds their tasks.
    """

    def __init__(self, policy: Path, prompts: Mapping[str, str], count: int, seed: int) -> None:
        self._encoder = Encoder((policy / "tokenizer.json").read_text(encoding="utf-8"))
        self._template = ChatTemplate.load(policy)
        self._prompts = dict(prompts)
        self._count = count
        self._seed = seed
        self._families = [family.name for family in families_of("warm")]

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Segment:  # type: ignore[override]  # no slices
        number, family = divmod(index, len(self._families))
        task = generate(self._seed, self._families[family], number, "warm")
        rng = random.Random(f"{self._seed}/lookups/{index}")
        harness = rng.choice(sorted(self._prompts))
        prompt = self._encoder.encode(_on_some_day(self._prompts[harness], rng))
        view = _View(task, harness)
        return self._narrow(view, prompt) if rng.random() < 0.5 else self._whole(view, prompt)

    def _whole(self, view: "_View", prompt: Sequence[int]) -> Segment:
        ids = [*prompt, *self._template.opening([Message("user", view.task.instruction)], [])]
        mask = [0] * len(ids)
        for turn, shown in ((view.search, view.hit), (view.read, view.listing), (view.edit, None)):
            said = [*self._encoder.encode(turn), self._template.end_of_turn]
            result = [] if shown is None else self._template.continuation([Message("tool", shown)], after=said[-1])
            ids += said + result
            mask += [1] * len(said) + [0] * len(result)
        return demonstrated(ids, mask)

    def _narrow(self, view: "_View", prompt: Sequence[int]) -> Segment:
        shown = [Message("user", view.task.instruction), Message("tool", view.hit), Message("tool", view.function)]
        context = [*prompt, *self._template.opening(shown, [])]
        said = [*self._encoder.encode(view.edit), self._template.end_of_turn]
        return demonstrated([*context, *said], [0] * len(context) + [1] * len(said))


@dataclass(frozen=True)
class _Prints:
    """How a harness shows what its tools find.

    Attributes:
        before_hit: What precedes the path of a search hit.
        after_hit: What follows a search hit.
        before_listing: What precedes a numbered listing; ``{path}`` stands for the file's.
        number: Format of a line's number.
        after_number: What stands between a line and its number.
        after_listing: What follows a numbered listing; ``{lines}`` stands for how many lines it has.
        ends_with_number: Whether the nothing after the last newline is numbered too; else a newline ends the listing.
    """

    before_hit: str
    after_hit: str
    before_listing: str
    number: str
    ends_with_number: bool
    after_number: str = "\t"
    after_listing: str = ""


_PRINTS = {
    "claude-code": _Prints(before_hit="", after_hit="", before_listing="", number="d", ends_with_number=True),
    "openhands-sdk": _Prints(
        before_hit="./",
        after_hit=(
            "\n[The command completed with exit code 0.]\n[Current working directory: /app]\n"
            "[Python interpreter: /opt/toolchain/bin/python]\n"
            "[Command finished with exit code 0]"
        ),
        before_listing="Here's the result of running `cat -n` on {path}:\n",
        number="6d",
        ends_with_number=False,
        after_listing="\n",
    ),
    "opencode": _Prints(
        before_hit="./",
        after_hit="",
        before_listing="<path>{path}</path>\n<type>file</type>\n<content>\n",
        number="d",
        ends_with_number=False,
        after_number=": ",
        after_listing="\n\n(End of file - total {lines} lines)\n</content>",
    ),
}


class _View:
    """A task through the tools of a harness: what is asked and what is shown.

    Args:
        task: The task.
        harness: The harness.
    """

    def __init__(self, task: BugTask, harness: str) -> None:
        bug, tools = task.bug, toolset(harness)
        self.task = task
        self._prints = _PRINTS[harness]
        self._path = f"{WORKDIR}/{bug.path}"
        lines = task.files[bug.path].split("\n")
        first = next(n for n, line in enumerate(lines) if line.startswith(f"def {bug.function}("))
        last = lines.index("", first)
        self.search = tools.search(bug.function)
        self.hit = f"{self._prints.before_hit}{bug.path}:{first + 1}:{lines[first]}{self._prints.after_hit}"
        self.read = tools.read(self._path)
        self.listing = self._listed(lines if self._prints.ends_with_number else lines[:-1], 1)
        self.function = self._listed(lines[first:last], first + 1)
        self.edit = tools.edit(self._path, bug.before.strip(), bug.after.strip())

    def _listed(self, lines: Sequence[str], first: int) -> str:
        prints = self._prints
        numbered = (f"{number:{prints.number}}{prints.after_number}{line}" for number, line in enumerate(lines, first))
        after = prints.after_listing.format(lines=len(lines))
        return prints.before_listing.format(path=self._path) + "\n".join(numbered) + after


def _on_some_day(prompt: str, rng: random.Random) -> str:
    """The prompt as it would have read on another day: what day it is must not matter."""
    day = f"{rng.randint(2020, 2039)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    return _DATE.sub(day, prompt)


def demonstrated(ids: Sequence[int], mask: Sequence[int]) -> Segment:
    """A segment that a deterministic demonstrator wrote: its log-probs are 0, the log of certainty."""
    length = len(ids)
    sampled = np.asarray(mask, np.uint8)
    return Segment(
        token_ids=np.asarray(ids, np.int32),
        loss_mask=sampled,
        logprobs=np.zeros(length, np.float32),
        versions=np.where(sampled, 0, -1).astype(np.int32),
        call_ids=np.where(sampled, 0, -1).astype(np.int32),
        call_positions=np.where(sampled, np.cumsum(sampled, dtype=np.int32) - 1, -1).astype(np.int32),
        calls=("drill",),
        routes=None,
        routes_recorded=0,
    )
