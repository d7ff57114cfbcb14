"""Manifests of packages in other languages: what says how tests run stays the task's, and a part is the agent's.

Invariant: only what is listed here is taken of a change, for everything else of such a file may name what runs the
tests, or puts something in the place of what they use: a script, a plugin, a replaced dependency, a test without its
harness, even the package's own name (a package may import itself by it).
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping

import tomli_w

from lego_rl.sandbox.ownership.texts.toml_keys import read_toml

_NODE = (
    "version", "description", "keywords", "homepage", "bugs", "license", "author", "contributors", "repository",
    "funding", "main", "module", "exports", "types", "typings", "type", "files", "sideEffects",
)  # fmt: skip
_COMPOSER = ("version", "description", "keywords", "homepage", "license", "authors", "support", "type")
_CARGO = (
    ("features",), ("dependencies",), ("lints",), ("package", "version"), ("package", "description"),
    ("package", "edition"), ("package", "rust-version"), ("package", "authors"), ("package", "license"),
    ("package", "keywords"), ("package", "categories"), ("package", "repository"), ("package", "readme"),
    ("package", "include"), ("package", "exclude"),
)  # fmt: skip
_GO = frozenset({"module", "replace", "exclude", "toolchain", "tool", "godebug", "ignore"})
"""Directives of ``go.mod`` that are the task's."""

type _Document = dict[str, object]


class ManifestError(ValueError):
    """It cannot be read, or cannot be written again."""


def merged(name: str, pristine: str, changed: str) -> str | None:
    """The text of a manifest with the agent's part of a change; ``None`` where that is all of the change.

    Args:
        name: Its file name, one of `MANIFESTS`.
        pristine: The task's; empty where it has none.
        changed: The agent's.

    Raises:
        ManifestError: One of them is not what its name says.
    """
    try:
        return MANIFESTS[name](pristine, changed)
    except (ValueError, TypeError, RecursionError) as error:
        raise ManifestError(str(error)) from error


def scripts(text: str) -> str:
    """The commands in a JSON file, a line each; all of the text where it has no ``scripts``."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    found = document.get("scripts") if isinstance(document, dict) else None
    return text if found is None else "\n".join(_strings(found))


def _strings(value: object) -> Iterator[str]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, str):
        yield value
    for each in inner:
        yield from _strings(each)


def _json(free: tuple[str, ...]) -> Callable[[str, str], str | None]:
    def merge(pristine: str, changed: str) -> str | None:
        wanted, document = (json.loads(text or "{}", object_pairs_hook=_once) for text in (pristine, changed))
        paths = tuple((key,) for key in free)
        result = _with(wanted, document, paths)
        return None if result == document else json.dumps(result, indent=2, ensure_ascii=False) + "\n"

    return merge


def _once(pairs: list[tuple[str, object]]) -> _Document:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ManifestError("a key stands there twice")
    return dict(pairs)


def _cargo(pristine: str, changed: str) -> str | None:
    document = read_toml(changed)
    result = _with(read_toml(pristine), document, _CARGO)
    return None if result == document else tomli_w.dumps(result)


def _with(wanted: object, document: object, free: tuple[tuple[str, ...], ...]) -> _Document:
    """The pristine document with some of the changed one's."""
    if not isinstance(wanted, dict) or not isinstance(document, dict):
        raise ManifestError("it is no table")
    result = dict(wanted)
    for first, *rest in free:
        if not rest:
            _take(result, first, document)
            continue
        here, there = result.get(first), document.get(first)
        if isinstance(there, dict) and isinstance(here, dict | None):
            inner = dict(here or {})
            _take(inner, rest[0], there)
            if inner or here is not None:
                result[first] = inner
    return result


def _take(result: _Document, key: str, document: Mapping[str, object]) -> None:
    if key in document:
        result[key] = document[key]
    else:
        result.pop(key, None)


def _go(pristine: str, changed: str) -> str | None:
    wanted, found = _directives(pristine), _directives(changed)
    own = [each for each in wanted if each[0] in _GO]
    if [each for each in found if each[0] in _GO] == own:
        return None
    kept = [each for each in found if each[0] not in _GO]
    return "".join(f"{' '.join(words)}\n" for words in (*own, *kept))


def _directives(text: str) -> list[tuple[str, ...]]:
    """Each directive with its words, those of blocks one by one."""
    found: list[tuple[str, ...]] = []
    block = ""
    for line in text.splitlines():
        words = re.sub(r"//.*", "", line).replace("(", " ( ").replace(")", " ) ").split()
        if block:
            if words == [")"]:
                block = ""
            elif words:
                found.append((block, *words))
        elif len(words) == 2 and words[1] == "(":
            block = words[0]
        elif words:
            found.append(tuple(words))
    if block or any({"(", ")"} & set(words) or "`" in " ".join(words) for words in found):
        raise ManifestError("it cannot be read as a go.mod")
    return found


MANIFESTS: Mapping[str, Callable[[str, str], str | None]] = {
    "package.json": _json(_NODE),
    "composer.json": _json(_COMPOSER),
    "Cargo.toml": _cargo,
    "go.mod": _go,
}
"""File name → how two texts of it become one."""
