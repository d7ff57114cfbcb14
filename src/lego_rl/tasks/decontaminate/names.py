"""What an instance id or the name of an image says of a task: its repository, its number and its commit.

Invariant: a name is read as its data set writes it, and what cannot be read says nothing: a wrong reading would clear a
task that should be found.

| written | by |
| --- | --- |
| ``owner__name-12`` | SWE-bench and all that copied it |
| ``owner_1776_name-12``, ``owner_s_name-12`` | names of images, where ``__`` may not stand |
| ``owner-name:12``, ``owner/name#12`` | SWE-rebench V2 and lists made by hand |
| ``owner__name#12``, ``owner__name-pr-12`` | lists made by hand |
| ``owner__name.2ab64612.pr_12`` | SWE-smith: a mirror at a commit |
| ``name_final:COMMIT`` | R2E-Gym |
"""

import re
from dataclasses import dataclass

from lego_rl.tasks.decontaminate.normal import plain_letters
from lego_rl.tasks.decontaminate.repositories import canonical, canonical_flat, flat


@dataclass(frozen=True)
class Name:
    """What a name says.

    Attributes:
        repository: The canonical name, where owner and name can be told apart.
        flat: ``owner-name``, in canonical spelling where that is known.
        number: Of the pull request or issue.
        commit: A commit, full or short; it need not be the base commit.
    """

    repository: str | None = None
    flat: str | None = None
    number: int | None = None
    commit: str | None = None


NOTHING = Name()
"""A name that says nothing."""

_IMAGE_PREFIX = re.compile(
    r"^(?:sweb\.eval|swe-?smith|swe-?bench|openswe[a-z]*|sweb)(?:[._-](?:x86_64|arm64|amd64))?[._-]+"
)
_JOINED = re.compile(r"_1776_|_s_|--")
_MIRRORED = re.compile(
    r"^(?P<owner>[a-z0-9][a-z0-9-]*)__(?P<name>[a-z0-9._-]+?)\.(?P<commit>[0-9a-f]{7,40})"
    r"(?:\.(?:[a-z0-9_]*?pr_(?P<number>\d+)|[a-z0-9_.-]+))?$"
)
_NUMBERED = re.compile(r"^(?P<owner>[a-z0-9][a-z0-9-]*)__(?P<name>[a-z0-9._-]+)-(?P<number>\d+)$")
_COMMITTED = re.compile(r"^(?P<owner>[a-z0-9][a-z0-9-]*)__(?P<name>[a-z0-9._-]+)-(?P<commit>[0-9a-f]{40})(?:-v\w+)?$")
_SLASHED = re.compile(r"^(?P<repository>[a-z0-9-]+/[a-z0-9._-]+?)(?:[:#]|/pull/|/issues/|-)(?P<number>\d+)$")
_FLAT = re.compile(r"^(?P<flat>[a-z0-9][a-z0-9._-]*)[:#](?P<number>\d+)(?:-(?P<commit>[0-9a-f]{5,40}))?$")
_KIND = re.compile(r"(?:[-_.](?:pr|pull|issue|gh)s?[-_.]?|[:#])(\d+)$")
"""What stands before a number."""
_FINAL = re.compile(r"^(?P<name>[a-z0-9._-]+)_final:(?P<commit>[0-9a-f]{7,40})$")
_OWNED = re.compile(r"^(?P<owner>[a-z0-9][a-z0-9-]*)__(?P<name>[a-z0-9._-]+)$")


def read_id(instance_id: str) -> Name:
    """What an instance id says."""
    text = plain_letters(instance_id).strip().lower().removeprefix("instance_")
    text = re.sub(r"^https?://(?:www\.)?github\.com/", "", text)
    if (slashed := _SLASHED.match(text)) is not None:
        return _named(slashed["repository"], int(slashed["number"]))
    text = text.rpartition("/")[2]
    if (final := _FINAL.match(text)) is not None:
        return _named(final["name"], commit=final["commit"])
    joined = _JOINED.sub("__", text)
    if (mirrored := _MIRRORED.match(joined)) is not None:
        number = mirrored["number"]
        return _named(f"{mirrored['owner']}/{mirrored['name']}", int(number) if number else None, mirrored["commit"])
    joined = _KIND.sub(r"-\1", joined)
    if (numbered := _NUMBERED.match(joined)) is not None:
        return _named(f"{numbered['owner']}/{numbered['name']}", int(numbered["number"]))
    if (committed := _COMMITTED.match(joined)) is not None:
        return _named(f"{committed['owner']}/{committed['name']}", commit=committed["commit"])
    if (flattened := _FLAT.match(text)) is not None and "__" not in flattened["flat"]:
        return Name(None, canonical_flat(flattened["flat"]), int(flattened["number"]), flattened["commit"])
    return NOTHING


def read_image(image: str) -> Name:
    """What the name of an image says."""
    text = plain_letters(image).strip().lower().partition("@")[0]
    text = text.rpartition("/")[2]
    if (final := _FINAL.match(text)) is not None:
        return _named(final["name"], commit=final["commit"])
    name, _, tag = text.partition(":")
    if _FLAT.match(text) is not None and tag.partition("-")[0].isdigit() and "__" not in _JOINED.sub("__", name):
        return read_id(text)
    stem = _JOINED.sub("__", _IMAGE_PREFIX.sub("", name))
    found = read_id(stem)
    if found == NOTHING and (owned := _OWNED.match(stem)) is not None:
        return _named(f"{owned['owner']}/{owned['name']}")
    return found


def _named(repository: str, number: int | None = None, commit: str | None = None) -> Name:
    name = canonical(repository)
    return NOTHING if name is None else Name(name, flat(name), number, commit)
