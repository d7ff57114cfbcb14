"""Which repository a source tree is of, by what its git configuration and its own packaging say.

Invariant: a folder's name says nothing, and nothing here is executed. Where something in a tree names a repository that
public sets of tasks are made from, that is what it is of, whatever else is said: a task too many is then left out, and
none is kept because its folder had another name.
"""

import ast
import configparser
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lego_rl.documents import DocumentError, read_toml
from lego_rl.errors import TaskError
from lego_rl.tasks.decontaminate.repositories import PACKAGES, UNKNOWN_OWNER, canonical, is_known
from lego_rl.tasks.make.tree import Tree

_HOSTED = re.compile(r"(?:github|gitlab|bitbucket|codeberg|gitee)\.(?:com|org)[/:][\w.-]+/[\w.-]+", re.IGNORECASE)
_REMOTE = re.compile(r'^\[\s*remote\s+"(?P<name>[^"]*)"\s*\]', re.IGNORECASE)
_URL = re.compile(r"^\s*url\s*=\s*(?P<url>\S+)", re.IGNORECASE)
_FIRST = ("upstream", "origin")
"""Remotes that are looked at before the others."""
_HEADER = re.compile(r"^(?P<key>Name|Home-page|Project-URL):\s*(?P<value>.+)$", re.MULTILINE)


def remotes_of(git: Path) -> tuple[str, ...]:
    """Addresses of the remotes of a repository, the one that it is a fork of first.

    Args:
        git: Its git directory.
    """
    try:
        lines = (git / "config").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    found: list[tuple[str, str]] = []
    remote: str | None = None
    for line in lines:
        if line.lstrip().startswith("["):
            section = _REMOTE.match(line.strip())
            remote = section["name"] if section is not None else None
        elif remote is not None and (url := _URL.match(line)) is not None:
            found.append((remote, url["url"].strip('"')))
    places = {name: place for place, name in enumerate(_FIRST)}
    return tuple(url for _, url in sorted(found, key=lambda each: places.get(each[0], len(_FIRST))))


def repository_of(tree: Tree, remotes: Sequence[str] = (), distribution: str = "") -> str:
    """The repository of a tree, ``owner/name`` or a package's name; empty where nothing says.

    Args:
        tree: Its newest state.
        remotes: Addresses of its remotes; those of this machine's own folders say nothing.
        distribution: Name of the package, where it came as source distributions.
    """
    said = [*filter(_HOSTED.search, remotes), *_said(tree), distribution]
    names = [name for name in map(canonical, filter(None, said)) if name is not None]
    packages = [PACKAGES[name] for name in _packages(tree) if name in PACKAGES]
    known = next((name for name in (*names, *packages) if is_known(name)), None)
    found = known or next(iter(sorted(names, key=lambda name: name.startswith(UNKNOWN_OWNER))), "")
    return found.removeprefix(f"{UNKNOWN_OWNER}/")


def confirmed(named: str, said: str) -> str:
    """The repository of a tree of which somebody names one.

    Args:
        named: What they name.
        said: What the tree says, of `repository_of`.

    Raises:
        TaskError: The tree says that it is of a known repository, and another is named.
    """
    if not is_known(said):
        return named
    if canonical(named) != said:
        raise TaskError(f"the source says that it is of {said}, and --repo names {named}", "leave --repo out")
    return said


def _said(tree: Tree) -> Iterator[str]:
    """Addresses and names in the packaging of a tree, addresses first."""
    values = [*_pyproject(tree), *_setup_cfg(tree), *_setup_py(tree), *_pkg_info(tree)]
    for _, value in values:
        yield from (found[0] for found in _HOSTED.finditer(value))
    yield from (value.strip() for key, value in values if key == "name")


def _pyproject(tree: Tree) -> Iterator[tuple[str, str]]:
    try:
        said = read_toml(_text(tree, "pyproject.toml"))
    except DocumentError:
        return
    tool = said.get("tool", {})
    for section in (said.get("project"), tool.get("poetry") if isinstance(tool, dict) else None):
        if isinstance(section, dict):
            yield from _strings(section, ("name", "urls", "homepage", "repository"))


def _strings(section: Mapping[str, Any], keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    for key in keys:
        value = section.get(key)
        for text in value.values() if isinstance(value, dict) else (value,):
            if isinstance(text, str):
                yield ("name" if key == "name" else "url"), text


def _setup_cfg(tree: Tree) -> Iterator[tuple[str, str]]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(_text(tree, "setup.cfg"))
    except configparser.Error:
        return
    if parser.has_section("metadata"):
        for key, value in parser.items("metadata"):
            if key in ("name", "url", "home-page", "home_page", "project_urls"):
                yield ("name" if key == "name" else "url"), value


def _setup_py(tree: Tree) -> Iterator[tuple[str, str]]:
    try:
        module = ast.parse(_text(tree, "setup.py"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for call in ast.walk(module):
        if isinstance(call, ast.Call) and getattr(call.func, "id", getattr(call.func, "attr", "")) == "setup":
            for word in call.keywords:
                texts = (node.value for node in ast.walk(word.value) if isinstance(node, ast.Constant))
                if word.arg in ("name", "url", "project_urls"):
                    yield from (("name" if word.arg == "name" else "url", text) for text in texts if type(text) is str)


def _pkg_info(tree: Tree) -> Iterator[tuple[str, str]]:
    head = _text(tree, "PKG-INFO").partition("\n\n")[0]
    for line in _HEADER.finditer(head):
        yield ("name" if line["key"] == "Name" else "url"), line["value"]


def _packages(tree: Tree) -> list[str]:
    """Its top-level packages, as they are imported."""
    tops = [f"{top}/" for top in tree.module_folders if top != "."]
    inits = (path.removesuffix("/__init__.py") for path in tree.files if path.endswith("/__init__.py"))
    folders = (path.removeprefix(next(filter(path.startswith, tops), "")) for path in inits)
    return sorted({folder for folder in folders if "/" not in folder})


def _text(tree: Tree, path: str) -> str:
    return tree.files.get(path, b"").decode("utf-8", errors="replace")
