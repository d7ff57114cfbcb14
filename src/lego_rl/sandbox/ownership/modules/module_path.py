"""Which folders of a work tree Python can import from while a task's tests run.

Invariant: only the task's own files and words are asked, never the change. A folder counts that its configuration, its
environment or its packaging names, that pytest or the interpreter puts there for a file that the task has, or that is
named where the task's scripts and tests speak of the path. What the tested code itself puts there is not asked: it may
as well hold the module.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path, PurePosixPath

from lego_rl.sandbox.ownership.known.test_names import is_test, is_tests_folder, support_folders
from lego_rl.sandbox.ownership.modules.packaging_folders import packaging_folders
from lego_rl.sandbox.ownership.run.declared_run import DeclaredRun
from lego_rl.sandbox.ownership.texts.task_tree import TaskTree
from lego_rl.sandbox.ownership.texts.words import path_words
from lego_rl.tasks.task import Task, TestSpec

MAX_FILES_BESIDE = 100_000
"""Of a folder with a script and what it needs."""
CHANGES_PATH = ("sys.path", "addsitedir", "syspath_prepend", "PYTHONPATH")
READS_PATH_FILES = "addsitedir"
"""The one call that makes Python read ``.pth`` files of any other folder than where packages are installed."""


@dataclass(frozen=True)
class ModulePath:
    """Decides for one task.

    Attributes:
        tree: The task's files.
        folders: What is on the path for certain; the work tree itself is ``.``.
        test_files: The task's test files, relative to the work tree.
        packages: Folders that are packages by files of the task's that the pristine tree lacks.
        command: What runs the tests. Every word counts.
        scripts: Files with more of it. Every word counts.
        beside: What the names in `scripts` lie in, where that is not the work tree.
        programs: Python files of the work tree. The words of one count where it speaks of the path.
        workdir: Where the work tree is inside.
        searched: Folders in which a runner finds tests by itself; ``None`` where it may be any.
    """

    tree: TaskTree
    folders: frozenset[str] = frozenset({"."})
    test_files: frozenset[str] = frozenset()
    packages: frozenset[str] = frozenset()
    command: str = ""
    scripts: tuple[str, ...] = ()
    beside: TaskTree | None = None
    programs: tuple[str, ...] = ()
    workdir: str = "/"
    searched: frozenset[str] | None = None

    _known: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of_script(cls, task: Task, tree: TaskTree, folders: frozenset[str], tests: frozenset[str]) -> "ModulePath":
        """For a task that is graded by a script of its own, which lies elsewhere with all its files.

        Args:
            task: The task.
            tree: Its files.
            folders: What the script and its environment put on the path.
            tests: Test files of the work tree that it runs.
        """
        beside = TaskTree(task.path / "tests")
        return cls(
            tree=tree,
            folders=folders,
            test_files=tests,
            scripts=tuple(beside.files(".", MAX_FILES_BESIDE)),
            beside=beside,
            programs=tuple(sorted(_python_around(tree, tests))),
            workdir=task.workdir,
        )

    @classmethod
    def of_command(
        cls, task: Task, spec: TestSpec, tree: TaskTree, run: DeclaredRun, tests: frozenset[str]
    ) -> "ModulePath":
        """For a task whose tests a command runs.

        Args:
            task: The task.
            spec: What it says of its tests.
            tree: Its files.
            run: What the command runs, and puts on the path.
            tests: The task's test files.
        """
        hidden = {name for name in tree.hidden_files() if name.endswith(".py")}
        packages = {name.rpartition("/")[0] for name in hidden if name.endswith("/__init__.py")}
        names = sorted({*tests, *run.files, *hidden, *_python_around(tree, tests)})
        return cls(
            tree=tree,
            folders=run.module_folders,
            test_files=tests,
            packages=frozenset(packages),
            command=spec.command,
            scripts=tuple(name for name in names if name in run.files and not name.endswith(".py")),
            programs=tuple(name for name in names if name.endswith(".py")),
            workdir=task.workdir,
            searched=run.searched,
        )

    @property
    def pristine(self) -> Path:
        """The pristine work tree."""
        return self.tree.pristine

    def texts_of_scripts(self) -> Iterator[tuple[str, bytes]]:
        """Names and texts of `scripts`."""
        yield from ((name, self.tree_of_scripts.read(name)) for name in self.scripts)

    @property
    def tree_of_scripts(self) -> TaskTree:
        """What the names in `scripts` lie in."""
        return self.tree if self.beside is None else self.beside

    @property
    def said(self) -> Sequence[str]:
        """The command, and the texts of `scripts`."""
        return self._texts

    def has(self, folder: str) -> bool:
        """Whether a folder can be on the path."""
        if folder not in self._known:
            self._known[folder] = self._look(folder)
        return self._known[folder]

    def first_outside(self, file: str) -> str:
        """What pytest's ``prepend`` puts on the path for a test file: the first folder upwards that is no package."""
        folder = PurePosixPath(file).parent
        while str(folder) != "." and self.is_package(str(folder)):
            folder = folder.parent
        return str(folder)

    def reads_path_files(self, folder: str) -> bool:
        """Whether Python may read ``.pth`` files of a folder, and execute what is in them."""
        return self._asks_for_path_files and self.has(folder)

    @cached_property
    def certain(self) -> frozenset[str]:
        """Folders that are on the path by name, and those for test files."""
        inserted = (self.first_outside(file) for file in self.test_files if file.endswith(".py"))
        named = {*self._declared, *inserted}
        return frozenset(named.union(*(_behind_links(self.tree, folder) for folder in named)))

    @cached_property
    def _declared(self) -> frozenset[str]:
        return self.folders | packaging_folders(self.tree)

    def _look(self, folder: str) -> bool:
        if folder in self.certain:
            return True
        if self.is_package(folder):
            return folder in self._put_by_tests
        if any(f"/{folder}".endswith(f"/{word}") for word in self._named.get(folder.rpartition("/")[2], ())):
            return True
        may_hold_tests = self.searched is None or any(map(partial(_is_within, folder), self.searched))
        return any(name == "conftest.py" or (may_hold_tests and is_test(name)) for name in self._modules_of(folder))

    def is_product(self, path: str) -> bool:
        """Whether a path is, or lies in, a package or module that can be imported and is not called after tests."""
        places = [each for each in (path, *map(str, PurePosixPath(path).parents)) if each != "."]
        packages = [each for each in places if self.is_package(each)]
        if any(map(is_tests_folder, PurePosixPath(path).with_suffix("").parts)):
            return False
        if packages:
            return self.has(self.first_outside(f"{packages[-1]}/__init__.py"))
        return path.endswith(".py") and str(PurePosixPath(path).parent) in self._declared

    @cached_property
    def _put_by_tests(self) -> frozenset[str]:
        """Folders of tests that could put themselves on the path, though they are packages."""
        folders = {name.rpartition("/")[0] for name, _ in self._speaking}
        support = support_folders(self.test_files)
        return frozenset(each for each in folders if any(f"{each}/".startswith(f"{top}/") for top in support))

    def is_package(self, folder: str) -> bool:
        """Whether the task has a folder as a package."""
        return folder in self.packages or (self.pristine / folder / "__init__.py").is_file()

    def _modules_of(self, folder: str) -> Iterator[str]:
        """Names of the Python files for which pytest would put `folder` on the path, were they tests."""
        with_packages = [self.pristine / folder]
        while with_packages:
            try:
                entries = list(os.scandir(with_packages.pop()))
            except OSError:
                continue
            for entry in entries:
                if entry.name.endswith(".py"):
                    yield entry.name
                elif entry.is_dir(follow_symlinks=False) and os.path.lexists(Path(entry.path, "__init__.py")):
                    with_packages.append(Path(entry.path))

    @cached_property
    def _named(self) -> dict[str, set[str]]:
        """Words that can be the end of a folder's path, by the last part of them."""
        words = {word for text in self._texts for word in path_words(text)}
        for name, text in self._speaking:
            words.update(path_words(text))
            words.update(map(str, PurePosixPath(name).parents))
        top = f"{self.workdir.strip('/')}/"
        words = {word.removeprefix(top) for word in words}
        words.update(folder for word in list(words) for folder in _behind_links(self.tree, word))
        found: dict[str, set[str]] = {}
        for word in words - {".", ""}:
            found.setdefault(word.rpartition("/")[2], set()).add(word)
        return found

    @cached_property
    def _texts(self) -> list[str]:
        return [self.command, *(text.decode(errors="replace") for _, text in self.texts_of_scripts())]

    @cached_property
    def _speaking(self) -> list[tuple[str, str]]:
        """Names and texts of the programs that say something of the path."""
        read = ((name, self.tree.read(name).decode(errors="replace")) for name in self.programs)
        return [(name, text) for name, text in read if any(word in text for word in CHANGES_PATH)]

    @cached_property
    def _asks_for_path_files(self) -> bool:
        return any(READS_PATH_FILES in text for text in (*self._texts, *(text for _, text in self._speaking)))


def _python_around(tree: TaskTree, tests: frozenset[str]) -> Iterator[str]:
    """Tests, what could be a ``conftest.py`` for them, and the Python files of the folders of tests around them."""
    yield from tests
    yield from {str(folder / "conftest.py") for file in tests for folder in PurePosixPath(file).parents}
    for folder in support_folders(tests):
        yield from (str(path.relative_to(tree.pristine)) for path in (tree.pristine / folder).rglob("*.py"))


def _is_within(folder: str, other: str) -> bool:
    """Whether one of two folders is, or lies in, the other one."""
    return other == "." or f"{folder}/".startswith(f"{other}/") or f"{other}/".startswith(f"{folder}/")


def _behind_links(tree: TaskTree, folder: str) -> set[str]:
    """The folder of the work tree that a link of the task's leads to."""
    if not tree.leads_to_folder(folder):
        return set()
    top, real = tree.pristine.resolve(), (tree.pristine / folder).resolve()
    return {str(real.relative_to(top))} if real.is_relative_to(top) else set()
