"""Compares an index with a reference by every rule, and says what was found, and what could not be compared."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lego_rl.errors import ConfigError
from lego_rl.tasks.decontaminate.candidates import origins_of
from lego_rl.tasks.decontaminate.name_rules import (
    CommitRule,
    ForkRule,
    InstanceRule,
    ProvenanceRule,
    PullRequestRule,
    RepositoryRule,
)
from lego_rl.tasks.decontaminate.reference_task import ReferenceTask
from lego_rl.tasks.decontaminate.rule import Hit, Reference, Rule, RuleName
from lego_rl.tasks.decontaminate.text_rules import IssueTextRule, PatchRule
from lego_rl.tasks.decontaminate.texts import read_texts
from lego_rl.tasks.index.current import Sight
from lego_rl.tasks.index.file import Index

_AT_ONCE = 2_000
"""Tasks whose texts are in memory at a time."""

RULES: tuple[Callable[[Reference], Rule], ...] = (
    RepositoryRule,
    ForkRule,
    InstanceRule,
    PullRequestRule,
    CommitRule,
    IssueTextRule,
    PatchRule,
    ProvenanceRule,
)
"""Every rule, in the order of `RuleName`."""


@dataclass(frozen=True)
class RuleReport:
    """What one rule came to.

    Attributes:
        rule: Its name.
        tasks: Tasks that it hit.
        relaxed: Whether it was asked to leave them in.
        not_comparable: Tasks that lack what it needs.
        reference: Tasks of the reference that it can compare with.
        needs: What it needs.
    """

    rule: RuleName
    tasks: int
    relaxed: bool
    not_comparable: int
    reference: int
    needs: str


@dataclass(frozen=True)
class Decontaminated:
    """An index that was compared.

    Attributes:
        index: All of it.
        hits: Every reason, in the order of the tasks.
        rules: What every rule came to.
        relaxed: Rules whose hits stay in.
        compared_with: Tasks of the reference.
        unseen: Tasks whose directories are not there; what the index says of them was not looked at.
    """

    index: Index
    hits: Sequence[Hit]
    rules: Sequence[RuleReport]
    relaxed: frozenset[RuleName]
    compared_with: int
    unseen: int = 0

    @property
    def contaminated(self) -> npt.NDArray[np.bool_]:
        """``[tasks]`` whether a rule that is not relaxed hit it."""
        found = np.zeros(len(self.index), dtype=bool)
        found[[hit.task for hit in self.hits if hit.rule not in self.relaxed]] = True
        return found

    def table(self) -> Any:
        """The hits as a table, one row each."""
        ids = self.index.ids
        return pa.table(
            {
                "instance_id": [ids[hit.task] for hit in self.hits],
                "rule": [hit.rule.value for hit in self.hits],
                "relaxed": [hit.rule in self.relaxed for hit in self.hits],
                "reference": [hit.reference for hit in self.hits],
                "reason": [hit.reason for hit in self.hits],
            },
            schema=_TABLE,
        )


_TABLE = pa.schema(
    [
        ("instance_id", pa.string()),
        ("rule", pa.string()),
        ("relaxed", pa.bool_()),
        ("reference", pa.string()),
        ("reason", pa.string()),
    ]
)


def rules_named(names: Collection[str]) -> frozenset[RuleName]:
    """Rules by their names.

    Raises:
        ConfigError: There is no such rule.
    """
    known = {rule.value: rule for rule in RuleName}
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no rule {name} to relax", f"choose from {', '.join(known)}")
    return frozenset(known[name] for name in names)


def decontaminate(
    index: Index,
    reference: Sequence[ReferenceTask],
    relaxed: frozenset[RuleName] = frozenset(),
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Decontaminated:
    """Compare every task of an index with every task of a reference.

    Args:
        index: The pool. What says where a task comes from is read from its directory again, and so are its issue text
            and its patch, where the reference has any.
        reference: What must not be trained on.
        relaxed: Rules whose hits are reported and left in.
        progress: Is told how many tasks are compared, and of how many.

    Raises:
        TaskError: A task directory cannot be read, or holds something else than when the index was made.
    """
    prepared = Reference(reference)
    rules = [rule(prepared) for rule in RULES]
    origins = origins_of(index)
    with_texts = any(task.issue or task.patch for task in reference)
    hits: list[Hit] = []
    sight = Sight(index)
    for first in range(0, len(origins), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        texts = read_texts(index.paths[part]) if with_texts else None
        sight.look(part, None if texts is None else texts.digests)
        for rule in rules:
            hits += rule.hits(origins[part], first, texts)
        progress(min(first + _AT_ONCE, len(origins)), len(origins))
    sight.refuse_older("the index")
    order = {rule.name: number for number, rule in enumerate(rules)}
    hits.sort(key=lambda hit: (hit.task, order[hit.rule]))
    tasks = Counter(rule for rule, _ in {(hit.rule, hit.task) for hit in hits})
    lacking = {rule.name: sum(not rule.compares(origin) for origin in origins) for rule in rules}
    reports = [_report(rule, tasks[rule.name], rule.name in relaxed, lacking[rule.name]) for rule in rules]
    return Decontaminated(index, hits, reports, relaxed, len(reference), sight.missing)


def _report(rule: Rule, tasks: int, is_relaxed: bool, lacking: int) -> RuleReport:
    return RuleReport(rule.name, tasks, is_relaxed, lacking, rule.comparable, rule.needs)
