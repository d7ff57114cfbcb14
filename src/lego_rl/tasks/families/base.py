"""What a bug family draws: one small function in its right and its wrong form, and what an issue says about it.

Invariant: the two forms differ in exactly one line, and both answer every input without raising.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lego_rl.tasks.names import Namer

type Value = bool | int | str | list[int] | list[str] | dict[str, int]
"""What generated functions take and give; ``repr`` of it is its source."""

type Arguments = tuple[Value, ...]
"""Positional arguments of one call."""

SLOT = "@"
"""Stands in a shape for the fragment that a bug alters."""


@dataclass(frozen=True)
class Function:
    """A function of a generated module.

    Attributes:
        name: ``verb_noun``.
        params: Parameters as written, defaults included.
        body: Lines without the function's own indentation; nested lines keep theirs.
        inputs: Arguments that tests may call it with.
        helpers: Functions of another module that the body calls.
    """

    name: str
    params: tuple[str, ...]
    body: tuple[str, ...]
    inputs: tuple[Arguments, ...]
    helpers: tuple["Function", ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """Source lines, the ``def`` line first."""
        return (f"def {self.name}({', '.join(self.params)}):", *(f"    {line}" for line in self.body))


@dataclass(frozen=True)
class Shape:
    """One way to write a function with a bug in it.

    Attributes:
        params: As in `Function`; may hold the `SLOT`.
        body: As in `Function`; the `SLOT` stands once in params and body together.
        inputs: As in `Function`.
    """

    params: tuple[str, ...]
    body: tuple[str, ...]
    inputs: tuple[Arguments, ...]


@dataclass(frozen=True)
class Defect:
    """A function before and after its fix.

    Attributes:
        right: The function as it should be.
        wrong: The same function with the bug.
        complaint: Sentences of the issue that say what the function should do.
        rivals: Other wrong forms, which a hasty fix may end at; the tests tell them from the right one.
    """

    right: Function
    wrong: Function
    complaint: str
    rivals: tuple[Function, ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        shape: Shape,
        *,
        right: str,
        wrong: str,
        complaint: str,
        rivals: Iterable[str] = (),
        helpers: tuple[Function, ...] = (),
    ) -> "Defect":
        """Fill the slot of `shape` with the right fragment, with the wrong one and with its other rivals."""

        def filled(fragment: str) -> Function:
            return Function(
                name=name,
                params=tuple(param.replace(SLOT, fragment) for param in shape.params),
                body=tuple(line.replace(SLOT, fragment) for line in shape.body),
                inputs=shape.inputs,
                helpers=helpers,
            )

        others = tuple(filled(rival) for rival in rivals if rival not in (right, wrong))
        return cls(filled(right), filled(wrong), complaint, others)


@dataclass(frozen=True)
class Family:
    """A kind of bug.

    Attributes:
        name: Stable, used in task ids.
        draw: Draws one instance for a function of the given name.
    """

    name: str
    draw: Callable[[Namer, str], Defect]


def number_inputs(names: Namer, arity: int, *, low: int = 1, high: int = 9, count: int = 12) -> tuple[Arguments, ...]:
    """`count` tuples of `arity` whole numbers, small enough that equal neighbours turn up."""
    return tuple(tuple(names.number(low, high) for _ in range(arity)) for _ in range(count))


def with_list(names: Namer, rest: Sequence[Arguments]) -> tuple[Arguments, ...]:
    """The given arguments, each with a list of numbers before them."""
    return tuple((names.numbers(), *arguments) for arguments in rest)


def pick(rng: random.Random, options: Sequence[str]) -> str:
    """One of several phrasings."""
    return rng.choice(list(options))


def in_words_or_code(rng: random.Random, words: Sequence[str], code: str) -> str:
    """What is wanted, half of the time in words and half of the time as code, as reporters do."""
    return code if rng.random() < 0.5 else pick(rng, words)
