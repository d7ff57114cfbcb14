"""Rules that compare what a task is called and where it comes from."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import override

from lego_rl.tasks.decontaminate.candidates import Origin
from lego_rl.tasks.decontaminate.normal import plain_letters
from lego_rl.tasks.decontaminate.repositories import UNKNOWN_OWNER, bare
from lego_rl.tasks.decontaminate.rule import Hit, Reference, Rule, RuleName
from lego_rl.tasks.decontaminate.texts import Texts

_SHORT = 7
"""Digits of a short commit."""
_SIGNS = re.compile(r"_1776_|_s_|[^a-z0-9]+")
_NUMBER = re.compile(r"(?<![a-z0-9])\d+(?![a-z0-9])")


class RepositoryRule(Rule):
    """A repository of the reference, under any of its names."""

    name = RuleName.REPOSITORY
    needs = "a repository"

    def __init__(self, reference: Reference) -> None:
        self._names = reference.repositories
        self._flat = reference.by(lambda origin: origin.flat)
        self._bare = {bare(name): name for name in sorted(self._names)}
        self.comparable = sum(origin.is_placed for origin in reference.origins)

    @override
    def hits(self, origins: Sequence[Origin], first: int, texts: Texts | None) -> Iterator[Hit]:
        for place, origin in enumerate(origins, first):
            found = self._found(origin)
            if found is not None:
                yield Hit(place, self.name, found, f"is of {found}, a repository of the reference")

    def _found(self, origin: Origin) -> str | None:
        for name in sorted(origin.repositories):
            if name in self._names:
                return name
            same = self._bare.get(bare(name))
            if same is not None and UNKNOWN_OWNER in (name.partition("/")[0], same.partition("/")[0]):
                return same
        common = sorted(origin.flat & self._flat.keys())
        return common[0] if common else None

    @override
    def compares(self, origin: Origin) -> bool:
        return origin.is_placed


class ForkRule(Rule):
    """A repository of the same name and another owner: a fork, or a namesake."""

    name = RuleName.FORK
    needs = "a repository"

    def __init__(self, reference: Reference) -> None:
        self._names = reference.repositories
        self._bare = {bare(name): name for name in sorted(self._names)}
        self.comparable = sum(bool(origin.repositories) for origin in reference.origins)

    @override
    def hits(self, origins: Sequence[Origin], first: int, texts: Texts | None) -> Iterator[Hit]:
        for place, origin in enumerate(origins, first):
            for name in sorted(origin.repositories - self._names):
                same = self._bare.get(bare(name))
                if same is not None and UNKNOWN_OWNER not in (name.partition("/")[0], same.partition("/")[0]):
                    yield Hit(
                        place, self.name, same, f"is of {name}, which has the name of {same}: a fork, or a namesake"
                    )
                    break

    @override
    def compares(self, origin: Origin) -> bool:
        return bool(origin.repositories)


class InstanceRule(Rule):
    """The same id, however it is spelt."""

    name = RuleName.INSTANCE
    needs = "an id"

    def __init__(self, reference: Reference) -> None:
        self._keys = reference.by(_instance_keys)
        self._within = reference.by(_within_keys)
        self.comparable = len(reference.origins)

    @override
    def hits(self, origins: Sequence[Origin], first: int, texts: Texts | None) -> Iterator[Hit]:
        for place, origin in enumerate(origins, first):
            found = next((self._keys[key] for key in _instance_keys(origin) if key in self._keys), None)
            if found is not None:
                yield Hit(place, self.name, found, f"has the id of {found}")
            elif (within := self._held(origin)) is not None:
                yield Hit(place, self.name, within, f"holds the id of {within} in its own, or in its image's name")

    def _held(self, origin: Origin) -> str | None:
        """What of the reference an id or an image's name holds, between other words."""
        for text in filter(None, (origin.instance_id, origin.image)):
            words = _SIGNS.sub("-", plain_letters(text).lower())
            for number in _NUMBER.finditer(words):
                ends = words[: number.start()].rstrip("-")
                for size in self._sizes.get(number[0], ()):
                    held = ends[-size:]
                    at_border = f"-{ends}".endswith(f"-{held}")
                    if at_border and (held, number[0]) in self._within:
                        return self._within[held, number[0]]
        return None

    @cached_property
    def _sizes(self) -> dict[str, set[int]]:
        """Number → lengths of the repositories' names that the reference has it with."""
        found: dict[str, set[int]] = defaultdict(set)
        for name, number in self._within:
            found[number].add(len(name))
        return found

    @override
    def compares(self, origin: Origin) -> bool:
        return bool(origin.instance_id)


class PullRequestRule(Rule):
    """The same pull request, or issue, of the same repository."""

    name = RuleName.PULL_REQUEST
    needs = "a repository and a number"

    def __init__(self, reference: Reference) -> None:
        self._keys = reference.by(_pull_keys)
        self.comparable = sum(bool(_pull_keys(origin)) for origin in reference.origins)

    @override
    def hits(self, origins: Sequence[Origin], first: int, texts: Texts | None) -> Iterator[Hit]:
        for place, origin in enumerate(origins, first):
            key = next((key for key in _pull_keys(origin) if key in self._keys), None)
            if key is not None:
                yield Hit(place, self.name, self._keys[key], f"is number {key[1]} of {key[0]}, as {self._keys[key]} is")

    @override
    def compares(self, origin: Origin) -> bool:
        return bool(_pull_keys(origin))


class CommitRule(Rule):
    """The same commit, full or short: a base commit of the reference."""

    name = RuleName.COMMIT
    needs = "a commit"

    def __init__(self, reference: Reference) -> None:
        self._commits: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for origin in reference.origins:
            for commit in origin.commits:
                if len(commit) >= _SHORT:
                    self._commits[commit[:_SHORT]].append((commit, origin.instance_id))
        self.comparable = sum(any(len(each) >= _SHORT for each in origin.commits) for origin in reference.origins)

    @override
    def hits(self, origins: Sequence[Origin], first: int, texts: Texts | None) -> Iterator[Hit]:
        for place, origin in enumerate(origins, first):
            found = next(self._found(origin), None)
            if found is not None:
                yield Hit(place, self.name, found[1], f"names the commit {found[0]}, as {found[1]} does")

    def _found(self, origin: Origin) -> Iterator[tuple[str, str]]:
        for commit in sorted(origin.commits):
            for other, instance in self._commits.get(commit[:_SHORT], ()):
                if other.startswith(commit) or commit.startswith(other):
                    yield commit, instance

    @override
    def compares(self, origin: Origin) -> bool:
        return any(len(each) >= _SHORT for each in origin.commits)


class ProvenanceRule(Rule):
    """Nothing says which repository a task is of: whether it is one of the reference's cannot be told."""

    name = RuleName.PROVENANCE
    needs = "nothing"

    def __init__(self, reference: Reference) -> None:
        self.comparable = len(reference.origins)

    @override
    def hits(self, origins: Sequence[Origin], first: int, texts: Texts | None) -> Iterator[Hit]:
        for place, origin in enumerate(origins, first):
            if not origin.is_placed:
                yield Hit(place, self.name, "", "says of no repository that it is its own: it cannot be compared")

    @override
    def compares(self, origin: Origin) -> bool:
        return True


def _instance_keys(origin: Origin) -> list[str]:
    """Its id in small letters, and ``owner-name:12`` where that is what it says."""
    numbered = (name for name in origin.id_names if name.flat is not None and name.number is not None)
    return [origin.instance_id.strip().lower(), *(f"{name.flat}:{name.number}" for name in numbered)]


def _within_keys(origin: Origin) -> list[tuple[str, str]]:
    """``owner-name`` with one sign between words, and the number."""
    numbered = (name for name in origin.id_names if name.number is not None)
    return [(_SIGNS.sub("-", name.flat), str(name.number)) for name in numbered if name.flat is not None]


def _pull_keys(origin: Origin) -> list[tuple[str, int]]:
    return [(name, number) for name in sorted(origin.flat) for number in sorted(origin.numbers)]
