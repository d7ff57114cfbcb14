"""What the tests' side of a run imports: hidden tests, tests and helpers of the repository, ``conftest.py``, scripts.

Invariant: only the task's own files are asked, never the change; none of them is executed. What they import by a name
may not be given by a new file of the agent's where the task's own has it, wherever on the module path that lies. What
they import and nobody has yet is what the agent was asked for.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from lego_rl.sandbox.ownership.known.test_names import is_test
from lego_rl.sandbox.ownership.modules import installed_search
from lego_rl.sandbox.ownership.modules.module_path import ModulePath
from lego_rl.sandbox.ownership.run.python_words import PythonWords
from lego_rl.sandbox.ownership.texts.python_imports import top_modules, with_packages
from lego_rl.sandbox.ownership.texts.task_tree import TaskTree
from lego_rl.sandbox.ownership.texts.words import WordIndex, words_of

_PUTS_FIRST = re.compile(rb"\bpath\b\s*(?:\.\s*insert\b|\[|\+?=)|\bsite\b")
"""What makes a folder come before others on the module path."""
_MODULES = (".py", ".so", ".pyd")
PACKAGES = frozenset(installed_search.PACKAGES)


@dataclass(frozen=True)
class TestsSide:
    """Decides for one task.

    Attributes:
        pristine: The pristine work tree.
        path: Where modules of the test run can lie; its programs are the files of the tests' side.
        own: Files of the task that are modules of its test run, hidden ones among them.
        support: Folders whose modules the tests use.
        shipped: Files in them that are product code.
        run_imports: Modules that the command, or what it runs, imports by name.
    """

    __test__ = False

    pristine: Path
    path: ModulePath
    own: frozenset[str] = frozenset()
    support: frozenset[str] = frozenset()
    shipped: frozenset[str] = frozenset()
    run_imports: frozenset[str] = frozenset()

    _modules: dict[str, frozenset[str]] = field(default_factory=dict, repr=False, compare=False)
    _asked: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)
    _found: dict[int, frozenset[str]] = field(default_factory=dict, repr=False, compare=False)

    def has_elsewhere(self, dotted: str, folder: str) -> bool:
        """Whether the tests import a module that they have themselves, on the module path, in another folder.

        Args:
            dotted: Its name, or the one of a package of it, as it is imported from `folder`.
            folder: Where something of that name is new.
        """
        inner = dotted.replace(".", "/")
        places = (str(PurePosixPath(each, inner)) for each in self._folders if each != folder)
        return (any(map(self._is_own, places)) or self._is_with_scripts(inner)) and self.imports(dotted)

    def is_in_work_tree(self, module: str, folder: str) -> bool:
        """Whether the sources of the work tree have a top-level module of that name, on the path or there.

        A folder without an ``__init__`` is none: what is installed comes before it, wherever on the path it lies.
        """
        sources = (each for each in {*self._folders, folder} if PACKAGES.isdisjoint(each.split("/")))
        return any(module in self._modules_in(each) or self._is_package(each, module) for each in sources)

    def _is_package(self, folder: str, module: str) -> bool:
        return "__init__" in self._modules_in(str(PurePosixPath(folder, module)))

    def _modules_in(self, folder: str) -> frozenset[str]:
        """Names of the modules that are files of a folder of the work tree."""
        if folder not in self._modules:
            names = (name for name in installed_search.names_in(str(self.pristine / folder)) if name.endswith(_MODULES))
            self._modules[folder] = frozenset(name.partition(".")[0] for name in names)
        return self._modules[folder]

    def imports(self, dotted: str) -> bool:
        """Whether a file of the tests' side imports a module, something in it, or is imported as such a module."""
        if dotted not in self._asked:
            self._asked[dotted] = dotted in self._named or any(dotted in found for found in self._found_for(dotted))
        return self._asked[dotted]

    def _found_for(self, dotted: str) -> Iterator[frozenset[str]]:
        """What each file imports that has every part of a name in it."""
        for at in self._index.having(words_of(os.fsencode(dotted))):
            if at not in self._found:
                self._found[at] = frozenset(with_packages(self._files[at].imports()))
            yield self._found[at]

    @cached_property
    def _files(self) -> list["_File"]:
        beside = [name for name in self.path.scripts if name.endswith(".py")]
        return [
            *(self._file(name) for name in self.path.programs),
            *(_File(self.path.tree_of_scripts, name) for name in beside),
        ]

    def _file(self, name: str) -> "_File":
        own = PurePosixPath(name).relative_to(self.path.first_outside(name)).with_suffix("").parts
        is_loaded = name in self.path.test_files or is_test(PurePosixPath(name).name)
        return _File(self.path.tree, name, own, is_loaded=is_loaded)

    @cached_property
    def _index(self) -> WordIndex:
        return WordIndex(file.read() + b"\n" + os.fsencode(file.name) for file in self._files)

    def _is_with_scripts(self, inner: str) -> bool:
        """Whether files outside of the work tree have a module of that name, and put other folders before their own."""
        return self._puts_others_first and any(name.endswith(f"/{inner}") for name in self._beside)

    @cached_property
    def _beside(self) -> list[str]:
        """Modules beside a script, as paths without a suffix."""
        places = (PurePosixPath("/", name) for name in self.path.scripts if name.endswith(".py"))
        return [str(place.parent if place.stem == "__init__" else place.with_suffix("")) for place in places]

    @cached_property
    def _puts_others_first(self) -> bool:
        texts = (text for name, text in self.path.texts_of_scripts() if name.endswith(".py"))
        return any(map(_PUTS_FIRST.search, texts))

    @cached_property
    def _named(self) -> frozenset[str]:
        return frozenset(with_packages(self.run_imports))

    @cached_property
    def _folders(self) -> frozenset[str]:
        """Every folder of the module path that is known by name."""
        above = {str(folder) for name in self.path.programs for folder in PurePosixPath(name).parents}
        return self.path.certain | {folder for folder in above if self.path.has(folder)}

    def _is_own(self, place: str) -> bool:
        """Whether the task's tests have a module or package at a place, without its suffix."""
        if place in self.support:
            return True
        in_support = any(place.startswith(f"{folder}/") for folder in self.support)
        files = [f"{place}.py", f"{place}/__init__.py"]
        if any(file in self.own for file in files):
            return True
        there = [file for file in files if in_support and os.path.lexists(self.pristine / file)]
        is_folder = in_support and (self.pristine / place).is_dir()
        return (bool(there) or is_folder) and not any(file in self.shipped for file in files)


@dataclass(frozen=True)
class _File:
    """A Python file of the tests' side.

    Attributes:
        tree: What it lies in.
        name: Its path there.
        own: Parts of its own name as a module; none where it is not known.
        is_loaded: Whether pytest imports it by that name.
    """

    tree: TaskTree
    name: str
    own: tuple[str, ...] = ()
    is_loaded: bool = field(default=False, kw_only=True)

    def read(self) -> bytes:
        return self.tree.read(self.name)

    def imports(self) -> Iterator[str]:
        """Dotted names, its own among them where it is imported by name."""
        said = PythonWords.of(self.read())
        known = (each for each in said.imports if self.own or not each.level)
        yield from (name for each in known if (name := each.resolved(self.own[:-1])) is not None)
        if self.own:
            yield from (*top_modules(self.read()), *said.plugins)
        if self.is_loaded:
            yield ".".join(self.own)
