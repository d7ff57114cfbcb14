"""What the tests' side of a run imports: hidden tests, tests and helpers of the repository, ``conftest.py``, scripts.

Invariant: only the task's own files are asked, never the change; none of them is executed. What they import by a name
may not be given by a new file of the agent's where the task's own has it, wherever on the module path that lies. What
they import and nobody has yet is what the agent was asked for.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path, PurePosixPath

from lego_rl.sandbox.ownership import installed_search
from lego_rl.sandbox.ownership.module_path import MAX_TEXT_BYTES, ModulePath
from lego_rl.sandbox.ownership.python_words import PythonWords
from lego_rl.sandbox.ownership.shipped_helpers import is_test
from lego_rl.sandbox.ownership.tested_code import imported

_PUTS_FIRST = re.compile(rb"\bpath\b\s*(?:\.\s*insert\b|\[|\+?=)|\bsite\b")
"""What makes a folder come before others on the module path."""
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
        named: Modules that the command, or what it runs, imports by name.
    """

    __test__ = False

    pristine: Path
    path: ModulePath
    own: frozenset[str] = frozenset()
    support: frozenset[str] = frozenset()
    shipped: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()

    _imports: dict[str, frozenset[str]] = field(default_factory=dict, repr=False, compare=False)

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
        """Whether the sources of the work tree have a top-level module or folder of that name, on the path or there."""
        sources = (each for each in {*self._folders, folder} if PACKAGES.isdisjoint(each.split("/")))
        places = (self.pristine / each / module for each in sources)
        return any(os.path.lexists(place) or os.path.lexists(f"{place}.py") for place in places)

    def imports(self, dotted: str) -> bool:
        """Whether a file of the tests' side imports a module, something in it, or is imported as such a module."""
        if dotted in self._named:
            return True
        words = [re.compile(rb"\b%s\b" % re.escape(part.encode())) for part in dotted.split(".")]
        for name, place in self.path.programs:
            text = _read(place)
            inner = PurePosixPath(name).with_suffix("").as_posix()
            if all(word.search(text) or word.search(inner.encode()) for word in words):
                if name not in self._imports:
                    self._imports[name] = frozenset(_with_packages(self._imported_by(name, text)))
                if dotted in self._imports[name]:
                    return True
        elsewhere = (_read(place) for place in self.path.scripts if place.suffix == ".py")
        texts = (text for text in elsewhere if all(word.search(text) for word in words))
        return any(dotted in _with_packages(PythonWords.of(text).imports) for text in texts)

    def _imported_by(self, name: str, text: bytes) -> Iterator[str]:
        """Dotted names, the file's own among them where pytest imports it by name."""
        own = PurePosixPath(name).relative_to(self.path.first_outside(name)).with_suffix("").parts
        if name in self.path.test_files or is_test(PurePosixPath(name).name):
            yield ".".join(own)
        yield from imported(text)
        said = PythonWords.of(text)
        yield from said.plugins
        for found in said.imports:
            base = found.lstrip(".")
            above = len(found) - len(base)
            if not above:
                yield base
            elif above <= len(own):
                yield ".".join([*own[:-above], *filter(None, [base])])

    def _is_with_scripts(self, inner: str) -> bool:
        """Whether files outside of the work tree have a module of that name, and put other folders before their own."""
        beside = [place for place in self.path.scripts if place.suffix == ".py"]
        names = (place.parent if place.stem == "__init__" else place.with_suffix("") for place in beside)
        is_there = any(name.as_posix().endswith(f"/{inner}") for name in names)
        return is_there and any(map(_PUTS_FIRST.search, map(_read, beside)))

    @cached_property
    def _named(self) -> frozenset[str]:
        return frozenset(_with_packages(self.named))

    @cached_property
    def _folders(self) -> frozenset[str]:
        """Every folder of the module path that is known by name."""
        above = {str(folder) for name, _ in self.path.programs for folder in PurePosixPath(name).parents}
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


def _with_packages(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield from accumulate(name.split("."), "{}.{}".format)


def _read(place: Path) -> bytes:
    try:
        return place.read_bytes() if place.is_file() and place.stat().st_size <= MAX_TEXT_BYTES else b""
    except OSError:
        return b""
