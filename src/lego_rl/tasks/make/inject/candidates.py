"""Every bug that the families can put into a tree, in an order that a seed decides and that spreads them out."""

import ast
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from lego_rl.tasks.make.inject import calls, flow, operators, values
from lego_rl.tasks.make.inject.module import Edit, Function, Module
from lego_rl.tasks.make.tree import Tree

type Family = Callable[[Module, Function], Iterator[Edit]]
"""The bugs of one kind that a function can have."""

FAMILIES: Mapping[str, Family] = {
    "comparison": operators.comparison,
    "boolean": operators.boolean,
    "arithmetic": operators.arithmetic,
    "off_by_one": values.off_by_one,
    "constant": values.constant,
    "variable": values.variable,
    "argument_order": calls.argument_order,
    "missing_argument": calls.missing_argument,
    "lookalike": calls.lookalike,
    "missing_call": calls.missing_call,
    "exception": flow.exception,
    "result": flow.result,
    "missing_condition": flow.missing_condition,
    "missing_branch": flow.missing_branch,
    "missing_statement": flow.missing_statement,
    "loop_control": flow.loop_control,
}
"""Kinds of bugs, by name."""

TRIES = 4
"""Of one function, whatever comes of them."""
A_STEP_BACK = 3
"""Bugs of a module that no test notices, for which the module counts as if it had one task more."""
MISSES = 12
"""Bugs of a module that no test notices, after which it is given up if none was noticed."""


@dataclass(frozen=True)
class Mutant:
    """One bug.

    Attributes:
        path: The file.
        function: Dotted name of the function.
        family: Kind of bug.
        edit: What is changed.
    """

    path: str
    function: str
    family: str
    edit: Edit

    @property
    def id(self) -> str:
        """Names the bug within its tree."""
        (start, end), new = self.edit.span, self.edit.new
        return hashlib.sha256(f"{self.path}\0{start}\0{end}\0{new}".encode()).hexdigest()[:16]

    @property
    def place(self) -> tuple[str, str]:
        """File and function: no two tasks have the same."""
        return self.path, self.function

    def content(self, tree: Tree) -> bytes | None:
        """The file with the bug; ``None`` where it cannot be parsed any more, or means what it meant before."""
        before = Module.read(self.path, tree.files[self.path])
        after = Module.read(self.path, self.edit.applied(tree.files[self.path]))
        if before is None or after is None or ast.dump(before.tree) == ast.dump(after.tree):
            return None
        return after.source


def mutants(tree: Tree) -> Iterator[Mutant]:
    """Every bug that the families can put into the code of a tree."""
    for path in tree.modules:
        module = Module.read(path, tree.files[path])
        if module is None:
            continue
        for name, function in module.functions():
            for family, edits in FAMILIES.items():
                yield from (Mutant(path, name, family, edit) for edit in dict.fromkeys(edits(module, function)))


@dataclass
class Order:
    """Which bug is tried next: of the family and the module that have the fewest tasks so far, as a seed decides.

    While a bug of a function is being tried, no other of it is drawn: both could become tasks. A module that tests
    hardly look at comes later, and one that they do not look at at all is given up.

    Args:
        found: All bugs.
        seed: Of the order.
    """

    found: list[Mutant]
    seed: int
    _families: Counter[str] = field(default_factory=Counter)
    _modules: Counter[str] = field(default_factory=Counter)
    _tries: Counter[tuple[str, str]] = field(default_factory=Counter)
    _drawn: set[tuple[str, str]] = field(default_factory=set)
    _missed: Counter[str] = field(default_factory=Counter)
    _noticed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.found = sorted(self.found, key=lambda each: (self._rank(each), each.id))

    def next(self) -> Mutant | None:
        """The next one, counted as a task until it is said to be none; ``None`` when there is no more for now."""
        open_ = (each for each in self.found if self._open(each))
        chosen = min(open_, key=lambda each: (self._families[each.family], self._weight(each.path)), default=None)
        if chosen is not None:
            self.found.remove(chosen)
            self._families[chosen.family] += 1
            self._modules[chosen.path] += 1
            self._tries[chosen.place] += 1
            self._drawn.add(chosen.place)
        return chosen

    def accepted(self, mutant: Mutant) -> None:
        """It is a task: no other bug of its function will be one."""
        self._drawn.discard(mutant.place)
        self._tries[mutant.place] = TRIES
        self._noticed.add(mutant.path)

    def noticed(self, mutant: Mutant) -> None:
        """It is none, though tests noticed it."""
        self.untried(mutant)
        self._noticed.add(mutant.path)

    def untried(self, mutant: Mutant) -> None:
        """It is none, and no test was asked."""
        self._drawn.discard(mutant.place)
        self._modules[mutant.path] -= 1
        self._families[mutant.family] -= 1

    def unnoticed(self, mutant: Mutant) -> None:
        """It is none: no test looks there."""
        self.untried(mutant)
        self._missed[mutant.path] += 1

    def _open(self, mutant: Mutant) -> bool:
        place = mutant.place
        return place not in self._drawn and self._tries[place] < TRIES and not self._given_up(mutant.path)

    def _given_up(self, path: str) -> bool:
        return self._missed[path] >= MISSES and path not in self._noticed

    def _weight(self, path: str) -> int:
        return self._modules[path] + self._missed[path] // A_STEP_BACK

    def _rank(self, mutant: Mutant) -> str:
        return hashlib.sha256(f"{self.seed}/{mutant.id}".encode()).hexdigest()
