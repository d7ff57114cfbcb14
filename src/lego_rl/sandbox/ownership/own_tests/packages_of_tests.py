"""Which ``__init__.py`` above a test says how the test is imported.

pytest, and Python itself, take for the package of a test the folders above it up to the first without an
``__init__.py``, and import it by its name in them, from the folder above. What lies further up has no say: it makes a
package of what is tested, or unmakes one.

Invariant: only the task's own files are asked. The ``__init__.py`` beside a test has a say in any case, so no two
changes together can be what neither is alone.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath


def deciding(tests: Iterable[str], is_package: Callable[[str], bool], has: Callable[[str], bool]) -> frozenset[str]:
    """Folders whose ``__init__.py``, there or not, decides as what some test or ``conftest.py`` is imported.

    Args:
        tests: Test files, relative to the work tree, whose own folder is ``.``.
        is_package: Whether the task has a folder as a package.
        has: Whether the task has a file.
    """
    return frozenset(folder for test in tests for file in _loaded(test, has) for folder in _chain(file, is_package))


def _loaded(test: str, has: Callable[[str], bool]) -> Iterator[str]:
    yield test
    yield from (file for folder in PurePosixPath(test).parents if has(file := str(folder / "conftest.py")))


def _chain(file: str, is_package: Callable[[str], bool]) -> Iterator[str]:
    for folder in map(str, PurePosixPath(file).parents):
        yield folder
        if not is_package(folder):
            return
