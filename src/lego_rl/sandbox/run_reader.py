"""What a command and the files that it leads to say of how tests are run.

Invariant: what is read is read as text, up to a number of files; nothing of it is executed.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import PurePosixPath

from lego_rl.sandbox.configuration import MERGED
from lego_rl.sandbox.launched import folders_of_path
from lego_rl.sandbox.launchers import LAUNCHERS
from lego_rl.sandbox.makefile import MAKEFILES, run_for
from lego_rl.sandbox.manifests import MANIFESTS, scripts
from lego_rl.sandbox.module_path import below
from lego_rl.sandbox.program_names import PROGRAMS
from lego_rl.sandbox.python_words import PythonWords
from lego_rl.sandbox.run_words import (
    MAX_FILES,
    How,
    Statement,
    asked_of_runners,
    how_read,
    installs,
    leads_to_tests,
    modules,
    names,
    options_in,
    plain,
    plugins,
    pytest_options_in,
)
from lego_rl.sandbox.runners import BUILDS, Runner, runners_in
from lego_rl.sandbox.shell_texts import ShellTexts
from lego_rl.sandbox.shell_words import assignment, without_variable
from lego_rl.sandbox.task_tree import TaskTree
from lego_rl.sandbox.tested_code import TestedCode

MAX_FOLDERS = 64
"""Folders that are tried for a relative path."""

_SHELL = ("", ".sh", ".bash", ".mk")
_OPTIONS = (".ini", ".cfg", ".toml")
_ENTERS = frozenset({"cd", "pushd", "-C", "--directory", "--chdir", "--cwd", "--project"})
_WILD = "*?["
type Counts = Callable[[str], bool]


def anything(_: str) -> bool:
    """Every file that is named counts."""
    return True


@dataclass
class RunReader:
    """Follows what is read to what that leads to."""

    tree: TaskTree
    workdir: str
    tests: tuple[bytes, ...]
    counts: Counts
    files: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=lambda: {"."})
    programs: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    searched: set[str] = field(default_factory=set)
    path: set[str] = field(default_factory=set)
    """Folders in which programs are looked for."""
    may_be_path: set[str] = field(default_factory=set)
    """Those that are named in a file that speaks of it."""
    launched: set[str] = field(default_factory=set)
    """Paths of programs that run tests, there or not."""
    runners: set[Runner] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)
    entered: set[str] = field(default_factory=lambda: {"."})
    _words: set[str] = field(default_factory=set)
    _plugins: set[str] = field(default_factory=set)
    _waiting: list[str] = field(default_factory=list)
    _read: set[str] = field(default_factory=set)
    _texts: ShellTexts = field(default_factory=ShellTexts)
    _known: dict[frozenset[str], TestedCode] = field(default_factory=dict)

    def run(self) -> None:
        """Read whatever waits, and what that leads to."""
        self._find_programs()
        while self._waiting and len(self._read) < MAX_FILES:
            path = self._waiting.pop()
            folder = str(PurePosixPath(path).parent)
            self.may_be_path |= folders_of_path(self.tree.read(path).decode(errors="replace"), folder, self.tree)
            if path.endswith(".py"):
                self._python(path)
            elif path.endswith(_OPTIONS):
                self._options(options_in(self.tree, path), folder)
            else:
                text = self.tree.read(path).decode(errors="replace")
                if PurePosixPath(path).name in MAKEFILES:
                    text = run_for(text, self._words)
                elif path.endswith(".json"):
                    text = scripts(text)
                self.read(text, [".", folder])
            if not self._waiting:
                self._load_plugins()
                for said, bases in self._texts.again():
                    self.shell(said, bases)
                self._find_programs()

    def _find_programs(self) -> None:
        """Keep what the words name in folders of programs, and read what is there."""
        found = {plain(f"{place}/{word}") for place in self.path for word in self._words} - self.programs
        self.programs |= found
        for path in found:
            self.wait_for(path)

    def wait_for(self, path: str) -> None:
        """Have a file read, once; it need not be a file of the run itself."""
        if path not in self._read and self.tree.place(path) is not None:
            self._read.add(path)
            self._waiting.append(path)

    def environment(self, env: Mapping[str, str]) -> None:
        """Read variables that decide where modules, programs and plugins come from."""
        self._texts.know(env)
        self.folders |= {plain(folder) for folder in below(env.get("PYTHONPATH", ""), self.workdir)}
        self.path |= set(below(env.get("PATH", ""), self.workdir))
        for name in ("PYTEST_PLUGINS", "PYTEST_ADDOPTS"):
            self._assigned(name, env.get(name, ""), ["."])
        for name in ("PYTEST_ADDOPTS", "BASH_ENV", "ENV"):
            self.read(env.get(name, ""), ["."])
        self._load_plugins()

    def read(self, text: str, bases: list[str]) -> None:
        """Read a text that is run by a shell in one of some folders."""
        self.shell(self._texts.read(text, bases), bases)

    def shell(self, said: list[Statement], bases: list[str]) -> None:
        """Read simple commands that are run in one of some folders."""
        places = self._entered(said, bases)
        self.entered.update(places)
        for place in places:
            self._options(pytest_options_in(self.tree, place), place)
        for words in said:
            self._statement(words, places)
        self._load_plugins()

    def _entered(self, said: list[Statement], bases: list[str]) -> list[str]:
        places = list(dict.fromkeys(bases))
        for words in said:
            for before, word in pairwise(words):
                if before in _ENTERS:
                    new = [path for place in places for path in self._below(word, place)]
                    places = list(dict.fromkeys([*places, *filter(self.tree.is_folder, new)]))[:MAX_FOLDERS]
        return places

    def _statement(self, words: Statement, places: list[str]) -> None:
        self._words.update(word for word in words if "/" not in word)
        self._plugins.update(plugins(words))
        for name, value in filter(None, map(assignment, words)):
            self._assigned(name, value, places)
        for module in filter(self.counts, modules(words)):
            self.imports.add(module)
            self._import(module, {*self.folders, *places, "src"})
        if installs(words):
            for place in places:
                self._own(plain(f"{place}/setup.py"))
                self._own(plain(f"{place}/hatch_build.py"))
        about_tests = any(map(self.counts, words))
        self.runners |= {each for each in runners_in(words) if about_tests or each.name not in BUILDS}
        for at, word in enumerate(words):
            value = (assignment(word) or ("", ""))[1]
            if about_tests:
                self._run_by_program(word, places)
            if "/" in word and PROGRAMS.fullmatch(PurePosixPath(word).name):
                self.launched.update(each for place in places for each in self._below(word, place))
            path = value or (word.partition("=")[2] if word.startswith("-") else word.partition("::")[0])
            self._named(path, places, how_read(words, at))
        for paths in asked_of_runners(words):
            self._look_for_tests(paths, places)

    def _look_for_tests(self, paths: list[str], places: list[str]) -> None:
        """A runner that is given some words, none of which need be the path of anything."""
        found = {path: [each for place in places for each in self._below(path, place)] for path in paths}
        inside = {each for some in found.values() for each in some}
        is_elsewhere = any(path.startswith("/") and not some for path, some in found.items())
        folders = set(filter(self.tree.is_folder, inside))
        self.searched |= folders
        if not folders and not is_elsewhere and not any(map(self._is_file, inside)):
            self.searched.update(places)
            self.named.update(places)

    def _is_file(self, path: str) -> bool:
        return any(mark in path for mark in _WILD) or self.tree.place(path) is not None

    def _assigned(self, name: str, value: str, places: list[str]) -> None:
        if name in {"PYTHONPATH", "pythonpath", "PATH"}:
            parts = [part for part in value.split(":") if not re.fullmatch(r"\$\{?(PYTHON)?PATH\b.*", part)]
            found = {path for part in parts for place in places for path in self._below(part or ".", place)}
            if name == "PATH":
                self.path |= found
            else:
                self.folders |= found
        elif name == "PYTEST_PLUGINS":
            self._plugins |= set(names(value))
        elif name == "PYTEST_ADDOPTS":
            self._plugins.update(plugins(tuple(value.split())))

    def _run_by_program(self, word: str, places: list[str]) -> None:
        for file in LAUNCHERS.get(PurePosixPath(word).name, ()):
            for place in places:
                self._own(plain(f"{place}/{file}"))

    def _named(self, word: str, places: list[str], how: How) -> None:
        """A word that may be the path of something that is run or read."""
        if not word or word.startswith("-") or not (self.counts(word) or how is How.PART):
            return
        suffix = PurePosixPath(word).suffix
        for path in {path for place in places for path in self._below(word, place)}:
            if how is How.PART and not word.startswith("/"):
                self.path.add(str(PurePosixPath(path).parent))
            if any(mark in path for mark in _WILD):
                if suffix in (*_SHELL[1:], ".py") or how is How.PART:
                    self._own_matching(path)
            elif self.tree.is_folder(path):
                self.named.add(path)
            elif self.tree.place(path) is None:
                if how is not How.NAMED and self.counts(word):
                    self._own(path)
            elif how is not How.NAMED or suffix in (*_SHELL, *_OPTIONS, ".py"):
                self._own(path)

    def _read_by(self, file: str, folder: str) -> None:
        """A file that a program reads, which is the product's where it lies in what is tested."""
        for place in (file, f"{folder}/{file}"):
            path = plain(place)
            if self.tree.place(path) is not None and not self._is_tested(path):
                self._own(path)

    def _own_matching(self, pattern: str) -> None:
        if not pattern.endswith(".py"):
            self.patterns.add(pattern)
        folder = pattern[: min(pattern.find(mark) for mark in _WILD if mark in pattern)].rpartition("/")[0]
        for file in self.tree.files(folder or ".", MAX_FILES):
            if fnmatchcase(file, pattern):
                self._own(file)

    def _below(self, word: str, place: str) -> Iterator[str]:
        """A path as it is in the work tree, from a folder of it; nothing where it leads out of it."""
        top = PurePosixPath(self.workdir)
        path = PurePosixPath(os.path.normpath(top / place / without_variable(word)))
        if path.is_relative_to(top):
            yield str(path.relative_to(top))

    def _own(self, path: str) -> None:
        """Keep a file of the run, and read it; one of which parts can be the agent's is merged instead."""
        if path == "." or (path.endswith(".py") and self._is_tested(path)):
            return
        name = PurePosixPath(path).name
        if name in MANIFESTS:
            self.manifests.add(name)
        elif name not in MERGED - {"tox.ini"}:
            self.files.add(path)
        if path.endswith(".py"):
            self.folders.add(str(PurePosixPath(path).parent))
        self.wait_for(path)

    def _is_tested(self, path: str) -> bool:
        folders = frozenset({*self.folders, "src"})
        if folders not in self._known:
            self._known[folders] = TestedCode(self.tree, folders, self.tests)
        return self._known[folders].has(path)

    def _import(self, name: str, folders: Iterable[str]) -> None:
        for file in {file for folder in folders for file in self.tree.executed_by(name, folder)}:
            self._own(file)

    def _load_plugins(self) -> None:
        """Keep plugins, which are the run's even where what is tested ships them."""
        while self._plugins:
            name = self._plugins.pop()
            self.imports.add(name)
            found = {file for folder in {*self.folders, "src"} for file in self.tree.executed_by(name, folder)}
            place = name.replace(".", "/")
            for file in found:
                if file.endswith((f"{place}.py", f"{place}/__init__.py")):
                    self.files.add(file)
                    self.wait_for(file)
                else:
                    self._own(file)

    def _options(self, said: Mapping[str, str], place: str) -> None:
        words = said.get("pythonpath", "").split()
        self.folders |= {path for word in words for path in self._below(word, place)}
        self._plugins.update(plugins(tuple(said.get("addopts", "").split())))

    def _python(self, path: str) -> None:
        parents = [str(folder) for folder in PurePosixPath(path).parents]
        text = self.tree.read(path)
        said = PythonWords.of(text)
        self._plugins |= said.plugins
        for words in said.commands:
            self._statement(words, [".", parents[0]])
        for file in said.reads if leads_to_tests(path, text) else ():
            self._read_by(file, parents[0])
        for name in said.imports:
            above = len(name) - len(name.lstrip("."))
            if not above:
                self.imports.add(name)
                self._import(name, {*self.folders, ".", parents[0]})
            elif above <= len(parents) and name.lstrip("."):
                self._import(name.lstrip("."), [parents[above - 1]])
