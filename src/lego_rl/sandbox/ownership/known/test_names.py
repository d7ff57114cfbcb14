"""What is called like tests, and like a folder of tests and what they use."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

_SURE, _LESS_SURE = frozenset({"tests", "test"}), frozenset({"testing"})
"""Names of folders that hold tests and what tests use; ``numpy/testing`` is a library."""
_TEST_WORDS = _SURE | _LESS_SURE | {"unittest", "unittests", "testsuite"}
_KINDS = frozenset({
    "unit", "integration", "functional", "regression", "regress", "system", "acceptance", "smoke", "e", "end", "to",
    "suite", "suites", "all", "data", "py", "python",
})  # fmt: skip
"""What tests are of, and no name of anything else."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def is_tests_folder(name: str) -> bool:
    """Whether a folder holds tests and what they use by its name: ``tests``, ``Tests``, ``unit_tests``, ``TestKit``."""
    return any(word.lower() in _TEST_WORDS for word in _WORD.findall(name))


def is_surely_tests_folder(name: str) -> bool:
    """Whether its name says nothing else: ``unit_tests`` and ``UnitTests``, but not ``ab_testing`` or ``test-kit``."""
    words = {word.lower() for word in _WORD.findall(name)}
    return bool(words & (_TEST_WORDS - _LESS_SURE)) and words <= _KINDS | _TEST_WORDS - _LESS_SURE


def is_test(name: str) -> bool:
    """Whether a Python file is a test, or is read by pytest, by its name."""
    return name == "conftest.py" or name.startswith("test_") or name.endswith("_test.py")


def support_folders(test_files: Iterable[str]) -> frozenset[str]:
    """The topmost folders with tests and what they use, by their names, on the ways to some test files."""
    return frozenset(filter(None, map(_support_folder, test_files)))


def _support_folder(file: str) -> str:
    parts = PurePosixPath(file).parts[:-1]
    names = [part.lower() for part in parts]
    sure = [at for at, name in enumerate(names) if name in _SURE]
    less = [at for at, name in enumerate(names) if name in _LESS_SURE]
    found = [*sure[:1], *less[:1], *(at for at, part in enumerate(parts) if is_tests_folder(part))]
    return "/".join(parts[: found[0] + 1]) if found else ""
