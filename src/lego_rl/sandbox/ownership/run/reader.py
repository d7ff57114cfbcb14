"""What a command and the files that it leads to say of how tests are run.

Invariant: what is read is read as text, up to a number of files; nothing of it is executed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.known.collected import collected_by
from lego_rl.sandbox.ownership.known.expected_files import is_expected
from lego_rl.sandbox.ownership.known.launchers import LAUNCHERS, MAKEFILES
from lego_rl.sandbox.ownership.known.program_names import PROGRAMS
from lego_rl.sandbox.ownership.known.runners import BUILDS, runners_in
from lego_rl.sandbox.ownership.merge.manifests import scripts
from lego_rl.sandbox.ownership.run.command_words import (
    MAX_FILES_OF_RUN,
    How,
    Statement,
    asked_of_runners,
    below,
    how_read,
    installs,
    leads_to_tests,
    modules,
    options_in,
    plain,
    plugins,
    pytest_options_in,
)
from lego_rl.sandbox.ownership.run.found import RunFound
from lego_rl.sandbox.ownership.run.imported import Imported
from lego_rl.sandbox.ownership.run.keeper import WILD, RunKeeper
from lego_rl.sandbox.ownership.run.lacking import Lacking
from lego_rl.sandbox.ownership.run.launched import folders_of_path
from lego_rl.sandbox.ownership.run.makefile import run_for
from lego_rl.sandbox.ownership.run.naming import Command, Naming
from lego_rl.sandbox.ownership.run.python_in_shell import given_to_python, is_python, python_texts
from lego_rl.sandbox.ownership.run.python_words import PythonWords
from lego_rl.sandbox.ownership.run.shell_texts import ShellTexts
from lego_rl.sandbox.ownership.run.testpaths import keeps_configuration, looked_in
from lego_rl.sandbox.ownership.run.variables import Variables
from lego_rl.sandbox.ownership.texts.shell_words import assignment
from lego_rl.sandbox.ownership.texts.task_tree import TaskTree

MAX_FOLDERS = 64
"""Folders that are tried for a relative path."""

_SHELL = ("", ".sh", ".bash", ".mk")
_OPTIONS = (".ini", ".cfg", ".toml")
_ENTERS = frozenset({"cd", "pushd", "-C", "--directory", "--chdir", "--cwd", "--project"})
_RUNS = frozenset({How.RUN, How.PART})
_ONLY_NAMED = frozenset({How.NAMED, How.STARTED})
"""What is read only if it is in a language that can be read."""


@dataclass
class RunReader:
    """Follows what is read to what that leads to.

    Attributes:
        keeper: Of what has been found.
        naming: Which of what is named counts.
    """

    keeper: RunKeeper
    naming: Naming = field(default_factory=Command)
    _words: set[str] = field(default_factory=set)
    _texts: ShellTexts = field(default_factory=ShellTexts)

    @property
    def tree(self) -> TaskTree:
        """The task's files."""
        return self.keeper.tree

    @property
    def found(self) -> RunFound:
        """What has been found so far."""
        return self.keeper.found

    @cached_property
    def _variables(self) -> Variables:
        return Variables(self.keeper)

    @cached_property
    def _imports(self) -> Imported:
        return Imported(self.keeper, self.naming)

    @cached_property
    def _lacking(self) -> Lacking:
        return Lacking(self.keeper, self.naming)

    def run(self, loaded: Iterable[str] = ()) -> None:
        """Read whatever waits, and what that leads to: what has a name first, then what only fits a pattern.

        Args:
            loaded: What pytest loads for the tests, after what the command runs.
        """
        self._find_programs()
        self._follow(self.keeper.waiting)
        for file in loaded:
            self.keeper.wait_for(file)
        self.keeper.of_tests.update(set(loaded) - self.keeper.read)
        self._follow(self.keeper.waiting)
        self._follow(self.keeper.waiting, self.keeper.waiting_last)

    def _follow(self, *queues: dict[str, None]) -> None:
        while len(self.keeper.read) < MAX_FILES_OF_RUN:
            if not any(queues):
                self._variables.load_plugins()
                for said, bases, origin in self._texts.again():
                    self.keeper.reading = origin
                    self.shell(said, bases)
                self._find_programs()
            queue = next(filter(None, queues), None)
            if queue is None:
                return
            path, _ = queue.popitem()
            self.keeper.read.add(path)
            self.keeper.reading = path
            self._read_file(path)

    def _read_file(self, path: str) -> None:
        folder, content = str(PurePosixPath(path).parent), self.tree.read(path)
        text = content.decode(errors="replace")
        self.found.may_be_path |= folders_of_path(text, folder, self.tree)
        if is_python(path, content):
            self._python(path, content, [folder])
        elif path.endswith(_OPTIONS):
            self._options(options_in(self.tree, path) or {}, folder)
        else:
            self.read(self._shell_text(path, text), [".", folder])
            self._python(path, content, [folder])

    def _shell_text(self, path: str, text: str) -> str:
        """What of a file a shell would be given."""
        if PurePosixPath(path).name in MAKEFILES:
            return run_for(text, self._words).replace("$$", "$")
        if path in self.found.arguments:
            return f"{text}\nxargs {' '.join(text.split())}"
        return scripts(text) if path.endswith(".json") else text

    def _find_programs(self) -> None:
        """Keep what the words name in folders of programs, and read what is there."""
        found = {plain(f"{place}/{word}") for place in self.found.path for word in self._words} - self.found.programs
        self.found.programs |= found
        for path in found:
            self.keeper.wait_for(path)

    def environment(self, env: Mapping[str, str]) -> None:
        """Read variables that decide where modules, programs and plugins come from."""
        self._texts.know(env)
        self.found.module_folders |= {plain(folder) for folder in below(env.get("PYTHONPATH", ""), self.keeper.workdir)}
        self.found.path |= set(below(env.get("PATH", ""), self.keeper.workdir))
        for name in ("PYTEST_PLUGINS", "PYTEST_ADDOPTS"):
            self._variables.assigned(name, env.get(name, ""), ["."])
        for name in ("PYTEST_ADDOPTS", "BASH_ENV", "ENV"):
            self.read(env.get(name, ""), ["."])
        self._variables.load_plugins()

    def read(self, text: str, bases: list[str]) -> None:
        """Read a text that is run by a shell in one of some folders."""
        self.shell(self._texts.read(text, bases, self.keeper.reading), bases)
        for inner in python_texts(text):
            self._python("", inner, bases)

    def shell(self, said: list[Statement], bases: list[str]) -> None:
        """Read simple commands that are run in one of some folders."""
        places = self._entered(said, bases)
        self.found.entered.update(places)
        for place in places:
            self._options(pytest_options_in(self.tree, place), place)
        for words in said:
            self._statement(words, places)
        self._variables.load_plugins()

    def _entered(self, said: list[Statement], bases: list[str]) -> list[str]:
        places = list(dict.fromkeys(bases))
        for words in said:
            for before, word in pairwise(words):
                if before in _ENTERS:
                    new = [path for place in places for path in self.keeper.below(word, place)]
                    places = list(dict.fromkeys([*places, *filter(self.tree.leads_to_folder, new)]))[:MAX_FOLDERS]
        return places

    def _statement(self, words: Statement, places: list[str]) -> None:
        self._words.update(word for word in words if "/" not in word and word != "<")
        self._variables.plugins.update(plugins(words))
        self.found.collected.update(collected_by(words))
        for name, value in filter(None, map(assignment, words)):
            self._variables.assigned(name, value, places)
        for text in given_to_python(words):
            self._python("", text, places)
        for module in filter(self.naming.counts, modules(words)):
            self.found.imports.add(module)
            folders = {*self.found.module_folders, *places, "src"}
            self.keeper.own_module(module, folders)
            self._lacking.own_module(module, folders)
        if installs(words):
            for place in places:
                self.keeper.own(plain(f"{place}/setup.py"))
                self.keeper.own(plain(f"{place}/hatch_build.py"))
        about_tests = any(map(self.naming.counts, words))
        self.found.runners |= {each for each in runners_in(words) if about_tests or each.name not in BUILDS}
        for at, word in enumerate(words):
            value = (assignment(word) or ("", ""))[1]
            if about_tests:
                self._run_by_program(word, places)
            if "/" in word and PROGRAMS.fullmatch(PurePosixPath(word).name):
                self.found.launched.update(each for place in places for each in self.keeper.below(word, place))
            path = value or (word.partition("=")[2] if word.startswith("-") else word.partition("::")[0])
            how = how_read(words, at)
            self._named(path, places, how)
            if how is How.STARTED:
                self._lacking.own_program(words, path, places)
        for paths in asked_of_runners(words):
            self._look_for_tests(paths, places, words)

    def _look_for_tests(self, paths: list[str], places: list[str], words: Statement) -> None:
        """A runner that is given some words, none of which need be the path of anything.

        Args:
            paths: Those that may be one.
            places: Folders that it may be run in.
            words: All of the command.
        """
        found = {path: [each for place in places for each in self.keeper.below(path, place)] for path in paths}
        inside = {each for some in found.values() for each in some}
        is_elsewhere = any(path.startswith("/") and not some for path, some in found.items())
        folders = set(filter(self.tree.leads_to_folder, inside))
        self.found.searched |= folders
        if not folders and not is_elsewhere and not any(map(self._is_file, inside)):
            kept = keeps_configuration(words) and not self._variables.configures
            below = self.keeper.below
            self.found.searched.update(*(looked_in(self.tree, each, below) if kept else [each] for each in places))
            self.found.folders.update(places)

    def _is_file(self, path: str) -> bool:
        return any(mark in path for mark in WILD) or self.tree.place(path) is not None

    def _run_by_program(self, word: str, places: list[str]) -> None:
        for file in LAUNCHERS.get(PurePosixPath(word).name, ()):
            for place in places:
                self.keeper.own(plain(f"{place}/{file}"))

    def _named(self, word: str, places: list[str], how: How) -> None:
        """A word that may be the path of something that is run or read."""
        if is_expected(word):
            self.keeper.expected(word, places)
        if not word or word.startswith("-") or not (self.naming.counts(word) or how is How.PART):
            return
        word = word[1:] if how is How.READ and word.startswith("@") else word
        suffix = PurePosixPath(word).suffix
        for path in {path for place in places for path in self.keeper.below(word, place)}:
            if how is How.PART and not word.startswith("/"):
                self.found.path.add(str(PurePosixPath(path).parent))
            if any(mark in path for mark in WILD):
                if suffix in (*_SHELL[1:], ".py") or (how in _RUNS and not self.keeper.is_tested(path)):
                    self.keeper.own_matching(path)
            elif self.tree.leads_to_folder(path):
                self.found.folders.add(path)
            elif self.tree.place(path) is None:
                counts = how is How.PART or self._lacking.counts_as_script(word)
                if how in _RUNS and self.naming.counts(word) and counts:
                    self.keeper.own(path)
            elif how is How.READ:
                self.keeper.read_for_arguments(path)
            elif how not in _ONLY_NAMED or suffix in (*_SHELL, *_OPTIONS, ".py"):
                self.keeper.own(path)

    def _options(self, said: Mapping[str, str], place: str) -> None:
        words = said.get("pythonpath", "").split()
        self.found.module_folders |= {path for word in words for path in self.keeper.below(word, place)}
        options = tuple(said.get("addopts", "").split())
        self._variables.plugins.update(plugins(options))
        for word in options:
            if word.startswith("@"):
                self._named(word, [place], How.READ)

    def _python(self, path: str, text: bytes, places: list[str]) -> None:
        """A Python text: that of a file, or one that is given to an interpreter, where `path` is empty.

        Args:
            path: Where it lies.
            text: What it says, or what is no Python.
            places: Folders that it may be run in.
        """
        said = PythonWords.of(text)
        self._variables.plugins |= said.plugins
        for words in said.commands:
            self._statement(words, list(dict.fromkeys([".", *places])))
        for file in said.reads if leads_to_tests(path, text) else ():
            for place in places:
                self.keeper.read_by(file, place)
        for name in said.imports:
            if name in said.optional and name.dotted and not name.level:
                self._lacking.own_module(name.dotted, {*self.found.module_folders, ".", *places})
            above = [] if not path else [place for place in places if place != "."]
            self._imports.keep(name, places, above, by=path)
        if path and said.imports and not path.endswith(".py"):
            self.found.module_folders.update(places)
