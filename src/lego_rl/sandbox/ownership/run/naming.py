"""What counts of the files and programs that a text of a task's names: not all of it need run tests."""

import re
from typing import Protocol

TESTS_FOLDER = "/tests"
"""Where the task's own files are while they run."""

_OF_TESTS = re.compile(
    r"(?<![a-z])(?:run)?(?:py)?(?:unit|self)?(?:tests?|testing|checks?|ci|verif(?:y|ier)|tox|nox)(?![a-z])"
)


class Naming(Protocol):
    """How names are taken in the texts of one task."""

    def counts(self, word: str) -> bool:
        """Whether a file that is named, or a program with its words, runs tests."""
        ...

    def counts_lacking(self, word: str) -> bool:
        """Whether a script does that is run, and that the task lacks."""
        ...


class Command(Naming):
    """A command that does nothing but run the tests: everything that it names counts."""

    def counts(self, word: str) -> bool:
        """See `Naming.counts`."""
        return True

    def counts_lacking(self, word: str) -> bool:
        """See `Naming.counts_lacking`."""
        return True


class Script(Naming):
    """A script that runs tests, and the program that an agent was asked to write: only a name can tell them apart."""

    def counts(self, word: str) -> bool:
        """Whether there is a word for tests in it; the task's own folder of tests does not count."""
        return not f"{word}/".startswith(f"{TESTS_FOLDER}/") and _OF_TESTS.search(word.casefold()) is not None

    def counts_lacking(self, word: str) -> bool:
        """What the task lacks is what an agent was asked for, whatever its name."""
        return False
