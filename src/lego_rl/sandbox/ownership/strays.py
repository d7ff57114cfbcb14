"""New files of an agent's that pytest would collect as tests, where a command leaves it to pytest to find them.

Scratch tests are left behind without a thought, and one that cannot be imported, or is called like a test of the
task's, stops the run of all the others. So they are left out, as in a folder of tests; but for a file that is part of
the product whatever it is called: one that a module of the product imports or names, or the task itself.

Invariant: what a change says counts only for files of that change, and only where it is no comment and no doc string.
"""

import ast
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.module_path import MAX_TEXT_BYTES
from lego_rl.sandbox.ownership.python_words import PythonWords
from lego_rl.sandbox.ownership.run_words import pytest_options_in
from lego_rl.sandbox.ownership.task_tree import TaskTree
from lego_rl.sandbox.verdict import Change
from lego_rl.tasks.task import Task

STRAY = "only the task's own tests run, and nothing of the product names it"
PATTERNS = ("test_*.py", "*_test.py")
"""What pytest collects by itself."""
MAX_FILES = 20_000
"""Python files of the task that are searched."""


@dataclass(frozen=True)
class Strays:
    """Decides for one task.

    Attributes:
        tree: The task's files.
        folders: Where pytest looks for tests by itself; ``.`` is the work tree.
        patterns: Names of the files that it collects.
        said: What else of the task may name a file: its instruction, its command and its hidden files.
        taken: Names, without suffix, of the task's own tests: there they mean those.
    """

    tree: TaskTree
    folders: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = PATTERNS
    said: tuple[bytes, ...] = ()
    taken: frozenset[str] = frozenset()

    def of(self, changes: Sequence[Change]) -> frozenset[str]:
        """Paths of new tests that are left out.

        Args:
            changes: What is applied of a patch otherwise.
        """
        strays = {change.path for change in changes if self._is_collected(change)}
        strays = {path for path in strays if not self._is_asked_for(path)}
        if not strays:
            return frozenset()
        python = {each.path: each.content for each in changes if each.kind == "file" and each.path.endswith(".py")}
        waiting = [(path, text) for path, text in python.items() if path not in strays]
        waiting += self._pristine(strays, {change.path for change in changes})
        while waiting and strays:
            named = _named(*waiting.pop(), strays)
            strays -= named
            waiting += [(path, python[path]) for path in sorted(named) if path in python]
        return frozenset(strays)

    def _is_collected(self, change: Change) -> bool:
        name = change.path.rpartition("/")[2]
        is_doctest = fnmatchcase(name, "test*.txt") and b">>>" in change.content
        is_test = is_doctest or (name.endswith(".py") and any(fnmatchcase(name, each) for each in self.patterns))
        if change.kind == "deleted" or not is_test or os.path.lexists(self.tree.pristine / change.path):
            return False
        return any(folder == "." or change.path.startswith(f"{folder}/") for folder in self.folders)

    def _is_asked_for(self, path: str) -> bool:
        if PurePosixPath(path).stem in self.taken:
            return False
        return any(_word(path).search(text) for text in self.said)

    def _pristine(self, strays: Iterable[str], changed: set[str]) -> Iterator[tuple[str, bytes]]:
        """The Python files of the task that hold the name of a stray."""
        words = [_word(path) for path in strays]
        files = (file for file in self.tree.files(".", MAX_FILES) if file.endswith(".py") and file not in changed)
        for file in files:
            text = self.tree.read(file)
            if any(word.search(text) for word in words):
                yield file, text


def strays_of(task: Task, tree: TaskTree, tests: frozenset[str], folders: frozenset[str]) -> Strays | None:
    """What decides for a task; ``None`` where nothing finds tests by itself.

    Args:
        task: The task.
        tree: Its files.
        tests: Its test files.
        folders: Where tests are found by a runner itself.
    """
    if not folders:
        return None
    said = [pytest_options_in(tree, folder).get("python_files", "") for folder in sorted({".", *folders})]
    patterns = {each for words in said for each in words.split()}
    files = (path for path in sorted((task.path / "tests").rglob("*")) if path.is_file())
    own = (path.read_bytes() for path in files if path.stat().st_size <= MAX_TEXT_BYTES)
    taken = frozenset(PurePosixPath(file).stem for file in tests)
    return Strays(tree, folders, (*PATTERNS, *sorted(patterns)), (task.instruction.encode(), *own), taken)


def _word(path: str) -> re.Pattern[bytes]:
    return re.compile(rb"(?<![\w])%s(?![\w])" % re.escape(os.fsencode(PurePosixPath(path).stem)))


def _named(path: str, text: bytes, strays: Iterable[str]) -> set[str]:
    """Those that a Python file imports, or has the name of in a text."""
    asked = {stray for stray in strays if stray != path and _word(stray).search(text)}
    if not asked:
        return set()
    try:
        program = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    imports, texts = PythonWords.of(text).imports, list(_texts(program))
    return {stray for stray in asked if _imports(path, imports, stray) or any(_says(said, stray) for said in texts)}


def _imports(path: str, imports: Iterable[str], stray: str) -> bool:
    parts = PurePosixPath(stray).with_suffix("").parts
    tails = {".".join(parts[start:]) for start in range(len(parts))}
    folder = PurePosixPath(path).parts[:-1]
    for name in imports:
        plain = name.lstrip(".")
        above = len(name) - len(plain)
        if above and (*folder[: len(folder) - above + 1], *plain.split(".")) == parts:
            return True
        if not above and plain in tails:
            return True
    return False


def _says(text: str, stray: str) -> bool:
    place = PurePosixPath(stray)
    dotted = ".".join(place.with_suffix("").parts)
    return place.name in text or (text != "" and f".{dotted}".endswith(f".{text.partition(':')[0]}"))


def _texts(program: ast.Module) -> Iterator[str]:
    """The texts of a program, doc strings left out."""
    lone = {id(node.value) for node in ast.walk(program) if isinstance(node, ast.Expr)}
    for node in ast.walk(program):
        if isinstance(node, ast.Constant) and type(node.value) is str and id(node) not in lone:
            yield node.value
