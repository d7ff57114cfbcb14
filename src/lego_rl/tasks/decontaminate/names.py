"""What an instance id or the name of an image says of a task: its repository, its number and its commit.

Invariant: a name is read as its data set writes it, and what cannot be read says nothing: a wrong reading would clear a
task that should be found. What can be read in two ways says both: ``owner__name-12-3`` may be the third try of number
12, or number 3 of a ``name-12``.

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
    r"^(?:(?:[a-z0-9_-]+\.)?eval|swe-?smith|swe-?bench|openswe[a-z]*|sweb)"
    r"(?:[._-](?:x86_64|arm64|aarch64|amd64|linux|win(?:dows)?))*[._-]+"
)
_JOINED = re.compile(r"_1776_|_s_|--")
_JOINED_IN_IMAGE = re.compile(rf"{_JOINED.pattern}|_m_")
_PULL_TAG = re.compile(r"^pr-(\d+)$")
_GOES_ON = re.compile(r"[-:#/]\d+(?=[-._:#/])")
"""A number that something comes after."""
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
_FINAL_NAME = re.compile(r"^(?P<name>[a-z0-9._-]+)_final$")
_OWNED = re.compile(r"^(?P<owner>[a-z0-9][a-z0-9-]*)__(?P<name>[a-z0-9._-]+)$")


def id_readings(instance_id: str) -> tuple[Name, ...]:
    """Every way to read an instance id, as its data set most likely writes it first."""
    return _readings(_plain(instance_id).removeprefix("instance_"))


def read_id(instance_id: str) -> Name:
    """What an instance id says, if there is one way to read it; of several, what its data set most likely means."""
    return next(iter(id_readings(instance_id)), NOTHING)


def image_readings(image: str) -> tuple[Name, ...]:
    """Every way to read the name of an image, likewise."""
    text = _plain(image).partition("@")[0].rpartition("/")[2]
    name, _, tag = text.partition(":")
    if (final := _FINAL.match(text) or _FINAL_NAME.match(name)) is not None:
        return _said(_named(final["name"], commit=final.groupdict().get("commit")))
    stem = _JOINED_IN_IMAGE.sub("__", _IMAGE_PREFIX.sub("", name))
    if _FLAT.match(text) is not None and tag.partition("-")[0].isdigit() and "__" not in stem:
        return _said(_read(text))
    found = _readings(stem)
    if not found and (owned := _OWNED.match(stem)) is not None:
        pull = _PULL_TAG.match(tag)
        found = _said(_named(f"{owned['owner']}/{owned['name']}", int(pull[1]) if pull else None))
    in_tag = _JOINED_IN_IMAGE.sub("__", _IMAGE_PREFIX.sub("", tag))
    return found + (_readings(in_tag) if "__" in in_tag else ())


def read_image(image: str) -> Name:
    """What the name of an image says, likewise."""
    return next(iter(image_readings(image)), NOTHING)


def _readings(text: str) -> tuple[Name, ...]:
    """Of the whole, and of what ends with each number that something comes after."""
    return _said(_read(text), *(_read(text[: number.end()]) for number in _GOES_ON.finditer(text)))


def _said(*names: Name) -> tuple[Name, ...]:
    return tuple(dict.fromkeys(name for name in names if name != NOTHING))


def _plain(text: str) -> str:
    return re.sub(r"^https?://(?:www\.)?github\.com/", "", plain_letters(text).strip().lower())


def _read(text: str) -> Name:
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


def _named(repository: str, number: int | None = None, commit: str | None = None) -> Name:
    name = canonical(repository)
    return NOTHING if name is None else Name(name, flat(name), number, commit)
