"""Drills: a dense signal for copying, before the first demonstration.

Invariant: a drill is a function of its seed and number; its tasks are of split ``warm``; everything it asks for can be
copied or read off from what it shows.

Two kinds. *Phrases*: a few phrases of random words, again and again; what follows the first word of a known phrase can
be copied. *Lookups*: an issue, a search hit, a numbered listing and an edit, shown as a harness would show them, but
without the harness and its prompt. What is learned is the function's name out of the issue, the path out of the hit,
the line out of the listing and its fix out of issue and line.
"""

import random
from collections.abc import Sequence
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
    """Drills of looking things up in what tools print.

    Args:
        policy: Directory with the policy's tokenizer and chat template.
        harness: Whose tools are called, and how they print.
        count: How many drills there are.
        seed: Seeds their tasks.
    """

    def __init__(self, policy: Path, harness: str, count: int, seed: int) -> None:
        self._encoder = Encoder((policy / "tokenizer.json").read_text(encoding="utf-8"))
        self._template = ChatTemplate.load(policy)
        self._harness = harness
        self._count = count
        self._seed = seed
        self._families = [family.name for family in families_of("warm")]

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Segment:  # type: ignore[override]  # no slices
        number, family = divmod(index, len(self._families))
        task = generate(self._seed, self._families[family], number, "warm")
        ids = self._template.opening([Message("user", task.instruction)], [])
        mask = [0] * len(ids)
        for turn, result in self._exchange(task):
            said = [*self._encoder.encode(turn), self._template.end_of_turn]
            shown = self._template.continuation([Message("tool", result)], after=said[-1]) if result else []
            ids += said + shown
            mask += [1] * len(said) + [0] * len(shown)
        return demonstrated(ids, mask)

    def _exchange(self, task: BugTask) -> list[tuple[str, str]]:
        """Turns that look up and use what is shown, each with what is shown next; nothing follows the last."""
        bug, path, tools, prints = task.bug, f"{WORKDIR}/{task.bug.path}", toolset(self._harness), PRINTS[self._harness]
        lines = task.files[bug.path].split("\n")
        defined = next(n for n, line in enumerate(lines, start=1) if line.startswith(f"def {bug.function}("))
        return [
            (tools.search(bug.function), prints.search(f"./{bug.path}:{defined}:{lines[defined - 1]}")),
            (tools.read(path), prints.read(path, lines)),
            (tools.edit(path, bug.before.strip(), bug.after.strip()), ""),
        ]


@dataclass(frozen=True)
class Prints:
    """How a harness shows what its tools find.

    Attributes:
        after_hit: What follows a search hit.
        before_listing: What precedes a numbered listing; ``{path}`` stands for the file's.
        number: Format of a line's number within a listing.
    """

    after_hit: str
    before_listing: str
    number: str

    def search(self, hit: str) -> str:
        """The result of a search."""
        return hit + self.after_hit

    def read(self, path: str, lines: Sequence[str]) -> str:
        """The result of reading a file."""
        listing = "\n".join(f"{n:{self.number}}\t{line}" for n, line in enumerate(lines, start=1))
        return self.before_listing.format(path=path) + listing


PRINTS = {
    "claude-code": Prints(after_hit="", before_listing="", number="d"),
    "openhands-sdk": Prints(
        after_hit=(
            "\n[The command completed with exit code 0.]\n[Current working directory: /app]\n"
            "[Command finished with exit code 0]"
        ),
        before_listing="Here's the result of running `cat -n` on {path}:\n",
        number="6d",
    ),
}


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
