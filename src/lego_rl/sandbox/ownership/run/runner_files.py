"""Files that the configuration of a runner names, and runners that a repository has of its own.

A ``jest.config.js`` names what is set up before the tests, a ``phpunit.xml`` its bootstrap: those are run as the tests
are. But a configuration names what is tested, too; so a file counts only where its path speaks of tests.

A script that runs a repository's tests often does so by a module of the very package that is tested
(``sympy/testing/runtests.py``, ``django/test/runner.py``). What such a module is called is all that tells it.

Invariant: only the task's own files are read.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.known.runners import BUILDS, Runners
from lego_rl.sandbox.ownership.known.test_names import is_test
from lego_rl.sandbox.ownership.merge.manifests import MANIFESTS, ManifestError, merged
from lego_rl.sandbox.ownership.texts.python_imports import imported
from lego_rl.sandbox.ownership.texts.task_tree import TaskTree
from lego_rl.sandbox.ownership.texts.words import path_words

MAX_FILES_LISTED = 20_000
"""Of a work tree, among which configuration is looked for."""
MAX_READ = 500
"""Files that are read for what they name."""

_NAMES_SOURCES = BUILDS - {"bun", "karma", "rake", "tap"}
"""Runners whose configuration names every source of the product."""
_INSTALLED = frozenset({"node_modules", "vendor", "site-packages", ".git"})
_SUFFIXES = ("", ".js", ".ts", ".cjs", ".mjs", ".json", ".jsx", ".tsx", ".rb", ".php", ".sh", ".pl")
_OF_TESTS = re.compile(
    r"test|spec|jest|mocha|karma|jasmine|setup|mock|report|environment|bootstrap|preprocess|transform|babel|preset"
    r"|runner|polyfill|shim"
)
_RUNS_TESTS = re.compile(
    r"(?:.*/)?(?:run_?tests?|tests?_?runner|_?pytest_?tester)\.py|(?:.*/)?tests?(?:ing)?/runner\.py"
)


def named_by_runners(tree: TaskTree, runners: Runners) -> frozenset[str]:
    """Files that the configuration of some runners names, and what these name again."""
    read_by = Runners(frozenset(each for each in runners.found if each.name not in _NAMES_SOURCES))
    names = read_by.manifests
    waiting = [file for file in _files(tree) if read_by.decide_by(file) or file.rpartition("/")[2] in names]
    found: set[str] = set()
    read = set(waiting)
    while waiting and len(read) < MAX_READ:
        file = waiting.pop()
        new = set(_named(tree, _text(tree, file), str(PurePosixPath(file).parent))) - found
        found |= new
        waiting += sorted(new - read)
        read |= new
    return frozenset(found)


def runners_of_its_own(tree: TaskTree, programs: Iterable[str]) -> frozenset[str]:
    """Modules of a repository that are called like runners of tests, where a program of its own runs them.

    Args:
        tree: The task's files.
        programs: Files that the command runs.
    """
    is_run = any(_is_program(tree, file) for file in programs)
    return frozenset(filter(_RUNS_TESTS.fullmatch, _files(tree)) if is_run else ())


def _is_program(tree: TaskTree, file: str) -> bool:
    """Whether a file is a program, and not what pytest or a launcher reads: by its suffix, or by what it says."""
    name = file.rpartition("/")[2]
    if name.endswith(".py"):
        return name != "__init__.py" and not is_test(name)
    text = tree.read(file) if "." not in name else b""
    return text.startswith(b"#!") or bool(imported(text))


def _files(tree: TaskTree) -> Iterator[str]:
    return (file for file in tree.files(".", MAX_FILES_LISTED) if _INSTALLED.isdisjoint(PurePosixPath(file).parts))


def _text(tree: TaskTree, file: str) -> str:
    """Of a file; of a manifest the part that says how tests run."""
    text, name = tree.read(file).decode(errors="replace"), file.rpartition("/")[2]
    try:
        return text if name not in MANIFESTS else merged(name, text, "") or ""
    except ManifestError:
        return ""


def _named(tree: TaskTree, text: str, folder: str) -> Iterator[str]:
    for word in set(path_words(text)):
        if _OF_TESTS.search(word.casefold()):
            for place in {word, str(PurePosixPath(folder, word))}:
                yield from (file for suffix in _SUFFIXES if tree.place(file := f"{place}{suffix}") is not None)
