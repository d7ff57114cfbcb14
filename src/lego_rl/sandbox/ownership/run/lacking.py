"""Programs and modules that a run starts and the task lacks: an agent could put them there.

Invariant: what only the tests start is what is tested, there or not. What a script of the task's own starts is what an
agent was asked for (`naming`); a script of the repository's cannot ask for it, and there the name counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.known.known_modules import SHADOWED_MODULES
from lego_rl.sandbox.ownership.run.keeper import WILD, RunKeeper
from lego_rl.sandbox.ownership.run.naming import Naming
from lego_rl.sandbox.ownership.run.started import files_of

_OF_MODULE = (".py", "/__init__.py", "/__main__.py")
"""Ends of the paths of what is run where a module is."""


@dataclass
class Lacking:
    """Decides for one run.

    Attributes:
        keeper: Of what has been found, and of what is read at the moment.
        naming: Which of what is named counts.
    """

    keeper: RunKeeper
    naming: Naming

    def counts(self, word: str) -> bool:
        """Whether what a text starts by a name is the run's, there or not."""
        keeper = self.keeper
        return self.naming.counts(word) and keeper.reading not in keeper.of_tests and self.counts_as_script(word)

    def counts_as_script(self, word: str) -> bool:
        """Whether a script is that a shell is told to run, by a name that counts; the tests' own is, too."""
        return bool(self.keeper.reading) or self.naming.counts_lacking(word)

    def own_program(self, words: Sequence[str], word: str, places: Iterable[str]) -> None:
        """Keep what starting one of the words of a command would run from some folders."""
        if any(mark in word for mark in WILD) or not self.counts(word):
            return
        for path in {path for place in places for path in self.keeper.below(word, place)} - {"."}:
            for file in files_of(words, path):
                self._own(file)

    def own_module(self, name: str, folders: Iterable[str]) -> None:
        """Keep what would be run as a module, where the task has it in none of some folders.

        What a test run has anyway, pytest say, is not lacking: where a file could take its place, `shadowing` tells.
        """
        if name.partition(".")[0] in SHADOWED_MODULES:
            return
        places = {folder: PurePosixPath(folder, *name.split(".")) for folder in sorted(folders)}
        has_it = any(self.keeper.tree.place(f"{place}{end}") for place in places.values() for end in _OF_MODULE)
        for folder, place in places.items() if self.counts(name) and not has_it else ():
            above = [each for each in place.parents if each != PurePosixPath(folder) and each.is_relative_to(folder)]
            for file in (*(f"{place}{end}" for end in _OF_MODULE), *(f"{each}/__init__.py" for each in above)):
                self._own(file)

    def _own(self, path: str) -> None:
        is_there = self.keeper.tree.place(path) is not None or self.keeper.tree.leads_to_folder(path)
        if not is_there and not (path.endswith(".py") and self.keeper.is_asked_for(path)):
            self.keeper.found.lacking.add(path)
