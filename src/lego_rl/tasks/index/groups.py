"""Which tasks are of one repository, by anything that they say of it.

Invariant: two tasks that decontamination reads one repository from, in their columns, ids or images, have one key, and
so have those whose repositories differ in the owner only: bare names, mirrors and forks. The key of a task that names
one repository is that name without its owner, whatever else is in the pool, with two exceptions. A task that names two
of them makes their tasks one group, which they are from then on. And where an id or an image joins owner and name with
a hyphen, the rest of the pool may tell where the name begins.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lego_rl.tasks.decontaminate.candidates import Origin, origins_of
from lego_rl.tasks.decontaminate.repositories import bare, canonical, flat, is_no_name, known_flat
from lego_rl.tasks.index.file import Index

_AFTER_NAMES = "~"
"""Begins what is in a column and no name of a repository, which then is first in no group that has a name."""


def repository_keys(index: Index) -> list[str]:
    """``[tasks]`` the name of a task's group; its own id where nothing says of which repository it is."""
    origins = origins_of(index)
    placed = {_one_sign(flat(name)): bare(name) for origin in origins for name in origin.repositories}
    named = [sorted(_names(origin, placed)) for origin in origins]
    groups = _Groups()
    for names in named:
        groups.join(names)
    first = groups.first()
    keys = zip(named, index.ids, strict=True)
    return [first[names[0]] if names else instance for names, instance in keys]


def named_alike(repositories: Any) -> Any:
    """Names of repositories, those of one in one spelling: the most used of them.

    Args:
        repositories: ``[tasks]`` as sources spell them, with nulls.
    """
    counts = {each["values"]: each["counts"] for each in pc.value_counts(repositories).to_pylist()}
    spelt = sorted(filter(None, counts), key=lambda name: (-counts[name], name))
    first: dict[str, str] = {}
    for name in spelt:
        first.setdefault(canonical(name) or name, name)
    return pa.array([name and first[canonical(name) or name] for name in repositories.to_pylist()], pa.string())


def _names(origin: Origin, placed: dict[str, str]) -> set[str]:
    """Every name, without owners, of what a task says that it is of.

    Args:
        origin: What it says.
        placed: ``owner-name`` → name, of those of the pool of which it is known where the name begins.
    """
    names = set(map(bare, origin.repositories))
    for joined in map(_one_sign, origin.flat):
        names.add(placed.get(joined) or _name_of(joined))
    if origin.repo is not None and canonical(origin.repo) is None and not is_no_name(origin.repo):
        names.add(_AFTER_NAMES + " ".join(origin.repo.lower().split()))
    return names


def _name_of(joined: str) -> str:
    """The name in an ``owner-name``: most owners are one word."""
    known = known_flat(joined)
    return bare(known) if known else joined.partition("-")[2] or joined


def _one_sign(name: str) -> str:
    return re.sub(r"[._-]+", "-", name)


class _Groups:
    """Names that are of one group, as a forest in which every name points towards the first of its group."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def join(self, names: Sequence[str]) -> None:
        """See to it that some names are of one group."""
        tops = sorted({self._top(name) for name in names})
        for top in tops[1:]:
            self._above[top] = tops[0]

    def first(self) -> dict[str, str]:
        """Name → the first name of its group, in the order of the alphabet."""
        return {name: self._top(name) for name in self._above}

    def _top(self, name: str) -> str:
        way: list[str] = []
        while (above := self._above.setdefault(name, name)) != name:
            way.append(name)
            name = above
        self._point(way, name)
        return name

    def _point(self, names: Iterable[str], top: str) -> None:
        for name in names:
            self._above[name] = top
