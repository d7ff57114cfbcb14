"""What single commands and options of a test run name: modules, plugins, files that are read, options of pytest."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.merge.configuration import pytest_options
from lego_rl.sandbox.ownership.run.started import started
from lego_rl.sandbox.ownership.texts.ini_texts import UnreadableError
from lego_rl.sandbox.ownership.texts.task_tree import TaskTree


class How(Enum):
    """What becomes of a file that a command names."""

    NAMED = "named"
    """It has to be there to count."""
    RUN = "run"
    """It is run, be it there or not: an agent could put it there."""
    PART = "part"
    """It is read as a part of the script that names it, be it there or not."""
    STARTED = "started"
    """It is a program that is started; one that lacks could be put there by an agent."""
    READ = "read"
    """It is read for words of a command; it has to be there, whatever it is called."""


_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
_SOURCES = frozenset({".", "source"})
_INCLUDES = frozenset({"include", "-include", "sinclude"})
_READ_BY_MAKE = frozenset({"-f", "--file", "--makefile"})
"""Words after which a file is read."""
_BEFORE_PROGRAMS = frozenset({"do", "then", "else", "if", "elif", "while", "until", "!", "{", "exec", "env", "time"})
_READS_WORDS = frozenset({"xargs", "parallel", "done", "read", "mapfile", "readarray", "cat", *_SHELLS})
"""Commands that have other commands work on what they read (``<``)."""
_ARGUMENTS = frozenset({"-a", "--arg-file", "--args-file"})
_SHOWS = frozenset({"cat", "head", "tail", "grep", "egrep", "sed", "awk", "sort", "uniq", "cut", "tr"})
_LISTS = frozenset({".txt", ".lst", ".list", ".args", ".opts", ".rsp"})
"""Suffixes of files that hold words for commands; what has none is read anyway."""
_READ_BY_PIP = frozenset({"-r", "--requirement", "-c", "--constraint", "--requirements"})
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy|coverage)[0-9.]*")
FINDS_TESTS = re.compile(r"(?:.*/)?(?:py\.?test|unittest|nose2?|nosetests)")
_MAY_LEAD_TO_PYTEST = re.compile(
    r"(?:.*/)?(?:(?:python|pypy|coverage)[0-9.]*|tox|nox|xargs|(?!test$)[^/]*test[^/]*)|\$(?:\w+|\{[^{}]*\})"
)
"""Programs that are pytest or pass their words on to it, as a script that speaks of tests may."""
TAKES_VALUE = frozenset({
    "-k", "-m", "-p", "-c", "-o", "-W", "-n", "-r", "--rootdir", "--confcutdir", "--junitxml", "--junit-xml",
    "--ignore", "--ignore-glob", "--deselect", "--cov", "--cov-config", "--maxfail", "--tb", "--timeout", "--durations",
    "--basetemp", "--log-file", "--import-mode", "--override-ini", "--color",
})  # fmt: skip
"""Options of pytest whose value may be the next word."""
_SPEAKS_OF_RUNNER = re.compile(rb"\b(?:py\.?test|unittest|nose2?|tox|nox)\b")
_INSTALLERS = frozenset({"pip", "pip3", "uv", "poetry", "flit", "hatch", "pdm", "pipx", "maturin", "build", "conda"})
_INSTALLS = frozenset({"-e", "--editable", "sync", "develop"})
_FROM_FOLDER = re.compile(r"(?:--editable=|-e)?(?:\.{1,2}|\$PWD|/[\w.-]+)(?:/[\w./-]*)?(?:\[[\w,.-]*\])?")
_MODULE = re.compile(r"[A-Za-z_][\w.]*")
_PYTEST_FILES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
"""Where pytest looks for its options, in its order."""
MAX_FILES_OF_RUN = 2_000
"""Files that are read for what they run; what more they would lead to stays the agent's."""

type Statement = tuple[str, ...]
"""The words of a simple command."""


def plain(path: str) -> str:
    """A relative path without what says nothing."""
    return str(PurePosixPath(path))


def how_read(words: Statement, at: int) -> How:
    """What a command does with a file that one of its words could be."""
    before, word = words[at - 1] if at else "", words[at]
    if before in _SOURCES or (at > 0 and words[0] in _INCLUDES):
        return How.PART
    by_make = before in _READ_BY_MAKE and "make" in words[0].casefold()
    by_pip = before in _READ_BY_PIP and not _INSTALLERS.isdisjoint(words)
    if before in _SHELLS or by_make or by_pip or ("*" in word and _is_program(words, at)):
        return How.RUN
    if _is_read_for_words(words, at):
        return How.READ
    return How.STARTED if at in started(words) else How.NAMED


def _is_program(words: Statement, at: int) -> bool:
    """Whether a word is what a command runs: the first one, or the script of an interpreter."""
    return at == 0 or words[at - 1] in _BEFORE_PROGRAMS or _PYTHON.fullmatch(words[at - 1]) is not None


def _is_read_for_words(words: Statement, at: int) -> bool:
    """Whether a command takes arguments, or commands, from the file that a word names."""
    word, before = words[at], words[at - 1] if at else ""
    if word.startswith("@") or word.startswith(("--arg-file=", "-a=")):
        return True
    program = PurePosixPath(next((word for word in (words[2:] if words[0] == "<" else words) if word), "cat")).name
    if before == "<":
        return program in _READS_WORDS or _PYTHON.fullmatch(program) is not None
    if before in _ARGUMENTS:
        return program in _READS_WORDS
    return at > 0 and program in _SHOWS and PurePosixPath(word).suffix in _LISTS


def modules(words: Statement) -> Iterator[str]:
    """Modules that Python runs as programs (``-m``); what comes after pytest is its own, as the name of a mark."""
    at_python = False
    for before, word in zip(("", *words), words, strict=False):
        at_python = at_python or _PYTHON.fullmatch(word) is not None
        name = ""
        if at_python and re.fullmatch(r"-[A-Za-z]*m", before) and _MODULE.fullmatch(word):
            name = word
        elif at_python and (found := re.fullmatch(r"-[A-Za-z]*?m([A-Za-z_][\w.]*)", word)) and before != "-o":
            name = found[1]
        if name:
            yield name
        at_python = at_python and not FINDS_TESTS.fullmatch(name or word)


def installs(words: Statement) -> bool:
    """Whether a command installs a package from a folder, which runs what its packaging says."""
    return not _INSTALLERS.isdisjoint(PurePosixPath(word).name for word in words) and any(
        word in _INSTALLS or _FROM_FOLDER.fullmatch(word) for word in words
    )


def leads_to_tests(path: str, text: bytes) -> bool:
    """Whether a program is read by pytest, or speaks of a runner of tests."""
    return PurePosixPath(path).name == "conftest.py" or _SPEAKS_OF_RUNNER.search(text) is not None


def asked_of_runners(words: Statement) -> Iterator[list[str]]:
    """For a runner that a command starts: what may be paths of tests. Where none of it is one, it finds them itself."""
    at = next((at for at, word in enumerate(words) if FINDS_TESTS.fullmatch(word)), None)
    if at is not None:
        after = zip(words[at:], words[at + 1 :], strict=False)
        yield [
            word.partition("::")[0]
            for before, word in after
            if word and not word.startswith("-") and before not in TAKES_VALUE
        ]


def plugins(words: Statement) -> Iterator[str]:
    """Modules that pytest's ``-p`` names, where a command may lead to it; without a program all words are its own."""
    is_asked = not words or words[0].startswith("-")
    for before, word in zip(("", *words), words, strict=False):
        is_asked = is_asked or _MAY_LEAD_TO_PYTEST.fullmatch(word) is not None
        name = word if before == "-p" else word[2:] if word.startswith("-p") and len(word) > 2 else ""
        if is_asked and _MODULE.fullmatch(name):
            yield name


def names(value: str) -> Iterator[str]:
    """Modules in a list with commas, as of ``PYTEST_PLUGINS``."""
    yield from (name for part in value.split(",") if _MODULE.fullmatch(name := part.strip()))


def conftests(tree: TaskTree, tests: Iterable[str]) -> list[str]:
    """Every ``conftest.py`` that pytest could load for some tests, and those that are hidden until then."""
    above = {str(folder) for file in tests for folder in PurePosixPath(file).parents}
    tops = {folder.partition("/")[0] for folder in above} - {"."}
    below_tests = {file for top in tops for file in tree.files(top, MAX_FILES_OF_RUN) if file.endswith("/conftest.py")}
    nearby = {path.relative_to(tree.pristine).as_posix() for path in tree.pristine.glob("*/conftest.py")}
    return sorted({"conftest.py", *nearby, *below_tests, *(f"{folder}/conftest.py" for folder in above)})


def pytest_options_in(tree: TaskTree, folder: str) -> Mapping[str, str]:
    """pytest's options in a folder: those of the first file that is for it, which may hold none."""
    paths = (plain(f"{folder}/{name}") for name in _PYTEST_FILES)
    found = (options_in(tree, path) for path in paths if tree.place(path) is not None)
    return next((options for options in found if options is not None), {})


def options_in(tree: TaskTree, path: str) -> Mapping[str, str] | None:
    """pytest's options in a file; ``None`` where it is nothing that pytest would read."""
    try:
        return pytest_options(PurePosixPath(path).name, tree.read(path))
    except UnreadableError:
        return None


def below(value: str, workdir: str) -> Iterator[str]:
    """The folders of a work tree in a search path, as of ``PYTHONPATH``.

    Args:
        value: Folders with colons between them; an empty one is the work directory.
        workdir: The work tree's absolute path.
    """
    for part in value.split(":") if value else ():
        path = os.path.normpath(os.path.join(workdir, part))  # noqa: PTH118  # Paths of the sandbox.
        if path == workdir or path.startswith(f"{workdir.rstrip('/')}/"):
            yield os.path.relpath(path, workdir)
