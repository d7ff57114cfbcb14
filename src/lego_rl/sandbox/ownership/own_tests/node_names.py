"""Files that Node would take in place of one of the tests' side: names that come first, and ``package.json``.

``require("./helper")`` takes a file ``helper`` before ``helper.js``, that before ``helper.json``, and all of them
before a folder, of which ``package.json`` says what is taken. Bundlers and jest have orders of their own.

Invariant: only the task's own files are asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lego_rl.sandbox.ownership.own_tests.folders_of_tests import FoldersOfTests

_SUFFIXES = (".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx", ".json", ".node", ".vue", ".coffee")
"""Of what can be required without one."""


@dataclass(frozen=True)
class NodeNames:
    """Decides for one task that Node runs the tests of.

    Attributes:
        pristine: The pristine work tree.
        own: Its test files, and all hidden ones.
        tests: The folders around them.
    """

    pristine: Path
    own: frozenset[str]
    tests: FoldersOfTests

    def comes_first(self, path: str) -> bool:
        """Whether a new file would be taken in place of one that the tests use, or says which is."""
        if path.rpartition("/")[2] == "package.json":
            return self.tests.inside(path) is not None
        return any(other != path and self._is_own(other) for other in _alike(path))

    def _is_own(self, path: str) -> bool:
        is_helper = self.tests.inside(path) is not None and path not in self.tests.shipped
        return path in self.own or (is_helper and (self.pristine / path).is_file())


def _alike(path: str) -> Iterator[str]:
    """Every file that could be meant by the name of one."""
    suffix = next((each for each in _SUFFIXES if path.endswith(each)), "")
    stem = path.removesuffix(suffix)
    yield stem
    yield from (f"{stem}{each}" for each in _SUFFIXES)
    yield from (f"{stem}/index{each}" for each in _SUFFIXES)
