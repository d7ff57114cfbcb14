"""What a rule is, what it is asked of, and what it answers.

Invariant: a rule is data (`Rule`) around one question (`Rule.ask`). It looks at nothing but the facts it is given, so
what it needs of them is said in `Rule.needs`, and a rule whose needs are not met is left out, never guessed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from lego_rl.config.cluster import ClusterSection
from lego_rl.config.recipe import Recipe
from lego_rl.config.shapes import ModelShape
from lego_rl.errors import LegoError


class Level(StrEnum):
    """How an answer stands."""

    OK = "OK"
    WARN = "WARN"
    FATAL = "FATAL"


class Need(StrEnum):
    """What a rule cannot be asked without."""

    CLUSTER = "cluster"
    """A recipe with ``[cluster]``."""
    SHAPE = "shape"
    """The sizes of the policy."""
    MACHINE = "machine"
    """The machine that the run is started on."""


@dataclass(frozen=True)
class Finding:
    """What a rule found.

    Attributes:
        level: How it stands.
        what: In one line.
        fix: What to do about it, where the rule's own advice is too general.
    """

    level: Level
    what: str
    fix: str | None = None


def ok(what: str) -> Finding:
    """Nothing is wrong."""
    return Finding(Level.OK, what)


def warn(what: str, fix: str | None = None) -> Finding:
    """It may be wrong, or is wasteful."""
    return Finding(Level.WARN, what, fix)


def fatal(what: str, fix: str | None = None) -> Finding:
    """The run would fail, or be another one than the recipe says."""
    return Finding(Level.FATAL, what, fix)


class Machine(Protocol):
    """What rules ask of the machine that a run is started on. A method raises `LegoError` where something is wrong."""

    def sandbox(self) -> str:
        """Start, seal, use and remove a sandbox; says what holds its limits."""
        ...

    def parser(self) -> str:
        """Read with the recipe's parser what the policy's chat template writes; says which template."""
        ...

    def bundle(self) -> str:
        """The installed harness; says its version."""
        ...

    def tasks(self) -> int:
        """Tasks of the training split; every task that is tried can be, and what it starts from is here."""
        ...

    def room(self) -> str | None:
        """Whether there is room for the trials that run at the same time; says what to be told of."""
        ...

    def free_bytes(self) -> int:
        """Free bytes of the disk of the run directory."""
        ...

    def versions(self) -> Mapping[str, str | None]:
        """Packages that a cluster's run needs → their installed version."""
        ...


@dataclass(frozen=True)
class Facts:
    """What a recipe is judged by.

    Attributes:
        recipe: The recipe.
        shape: The policy's sizes, where they are known.
        machine: The machine; ``None`` where only the recipe is looked at.
    """

    recipe: Recipe
    shape: ModelShape | None = None
    machine: Machine | None = None

    @property
    def cluster(self) -> ClusterSection:
        """The recipe's cluster; only for rules that need one."""
        assert self.recipe.cluster is not None
        return self.recipe.cluster

    @property
    def model(self) -> ModelShape:
        """The policy's sizes; only for rules that need them."""
        assert self.shape is not None
        return self.shape

    @property
    def here(self) -> Machine:
        """The machine; only for rules that need it."""
        assert self.machine is not None
        return self.machine

    @property
    def met(self) -> frozenset[Need]:
        """Which needs are met."""
        found = {
            Need.CLUSTER: self.recipe.cluster is not None,
            Need.SHAPE: self.shape is not None,
            Need.MACHINE: self.machine is not None,
        }
        return frozenset(need for need, is_met in found.items() if is_met)


@dataclass(frozen=True)
class Rule:
    """One thing that a recipe can be wrong about.

    Attributes:
        id: Short and stable.
        checks: What is asked.
        reason: What happens to a run that breaks it.
        fix: What to do then.
        ask: Asks it.
        needs: Without which it cannot be asked.
    """

    id: str
    checks: str
    reason: str
    fix: str
    ask: Callable[[Facts], Finding]
    needs: frozenset[Need] = frozenset({Need.CLUSTER})


@dataclass(frozen=True)
class Verdict:
    """A rule's answer about one recipe.

    Attributes:
        rule: The rule.
        level: How it stands.
        what: What was found.
        fix: What to do about it; empty where nothing is wrong.
    """

    rule: Rule
    level: Level
    what: str
    fix: str


def judge(rules: Iterable[Rule], facts: Facts) -> Sequence[Verdict]:
    """Ask every rule whose needs are met, in order.

    A rule that runs into a `LegoError` found something fatal. Where several run into the same one, such as a pool that
    cannot be read, the first of them says it.
    """
    verdicts: list[Verdict] = []
    said: set[str] = set()
    for rule in rules:
        if rule.needs <= facts.met:
            verdict = _asked(rule, facts)
            if verdict.level is not Level.FATAL or verdict.what not in said:
                verdicts.append(verdict)
            said.add(verdict.what)
    return verdicts


def _asked(rule: Rule, facts: Facts) -> Verdict:
    try:
        found = rule.ask(facts)
    except LegoError as error:
        found = fatal(error.problem, error.fix or None)
    fix = "" if found.level is Level.OK else (found.fix or rule.fix)
    return Verdict(rule, found.level, found.what, fix)
