"""Which files a runner of Python's tests collects by itself, by the names of them that a command gives or leaves to it.

Source: the manual of each runner. What pytest collects is `strays.PATTERNS`, and what its ``python_files`` names.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

_UNITTEST = ("test*.py",)
_NOSE = ("[Tt]est*.py", "*[_.-][Tt]est*.py")
_PREFIX = ("test_*.py",)
_DEFAULTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("unittest", "xmlrunner", "unittest-parallel", "green", "subunit.run", "discover"), _UNITTEST),
    **dict.fromkeys(("stestr", "testr", "ostestr", "nose2"), _UNITTEST),
    **dict.fromkeys(("nose", "nosetests", "nosetests3", "pynose"), _NOSE),
    **dict.fromkeys(("trial", "twisted.trial"), _PREFIX),
    "ward": (*_PREFIX, "*_test.py"),
    "zope-testrunner": ("test.py", "tests.py", *_UNITTEST),
    "zope.testrunner": ("test.py", "tests.py", *_UNITTEST),
}
"""Program or module → what it collects where it is told no pattern."""
_ASKED = {"manage.py": _UNITTEST, "django-admin": _UNITTEST, "django-admin.py": _UNITTEST, "setup.py": _UNITTEST}
"""The same of programs that do so where they are asked to ``test``."""
_OPTIONS = ("-p", "--pattern", "--test-file-pattern", "-m", "--match")
"""Before a pattern."""


def collected_by(words: Sequence[str]) -> Iterator[str]:
    """Patterns of the names of files that are collected by a command; none where it starts no such runner.

    Args:
        words: Of a simple command, or of a call that looks for tests.
    """
    names = [PurePosixPath(word).name for word in words]
    found = [_DEFAULTS[name] for name in names if name in _DEFAULTS]
    if "test" in words:
        found += [_ASKED[name] for name in names if name in _ASKED]
    if not found:
        return
    for patterns in found:
        yield from patterns
    for before, word in zip(("", *words), words, strict=False):
        value = word.partition("=")[2] if word.startswith("--") else word.removeprefix("-p")
        if value.endswith(".py") and "/" not in value and ("*" in value or before in _OPTIONS or value != word):
            yield value
