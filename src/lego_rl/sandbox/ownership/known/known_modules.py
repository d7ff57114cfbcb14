"""Modules that a test run imports whatever it tests: those of pytest and what it needs, and of Python's own library."""

import importlib.util
import sys
from functools import cache

from lego_rl.sandbox.ownership.known.asked_modules import ASKED_FOR

RUNNER_MODULES = frozenset({
    "pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "conftest", "sitecustomize",
    "usercustomize", "exceptiongroup", "tomli", "colorama", "xdist", "execnet", "pytest_cov", "coverage",
    "pytest_asyncio", "pytest_timeout", "pytest_mock", "hypothesis", "_hypothesis_pytestplugin", "nose", "nose2", "tox",
    "nox", "unittest2", "setuptools", "pkg_resources", "_distutils_hack", "pip",
})  # fmt: skip
SHADOWED_MODULES = RUNNER_MODULES | sys.stdlib_module_names
"""Modules that the test run imports: a file of such a name on the module path would be imported in their place."""

TRIED_BY_RUNNER = frozenset({
    "_hypothesis_ftz_detector", "_hypothesis_globals", "argcomplete", "atomicwrites", "attr", "attrs", "backports",
    "chardet", "funcsigs", "importlib_metadata", "more_itertools", "numpy", "pathlib2", "pexpect", "six",
    "sortedcontainers", "toml", "twisted", "typing_extensions", "wcwidth", "xmlschema", "zipp", "zope",
})  # fmt: skip
"""What some version of the runner, of its plugins or of their dependencies imports where it is installed."""

NEEDED_BY_RUNNER = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "packaging"})
"""Modules without which there is no test run."""

NOT_EVERYWHERE = frozenset({
    "bz2", "crypt", "ctypes", "curses", "dbm", "distutils", "ensurepip", "graphlib", "idlelib", "lib2to3", "lzma",
    "nis", "ossaudiodev", "readline", "spwd", "sqlite3", "ssl", "tkinter", "tomllib", "turtle", "turtledemo", "venv",
    "zoneinfo",
})  # fmt: skip
"""Of the standard library, what builds, distributions and older versions lack."""

COMPUTED = ("_sysconfigdata_",)
"""Beginnings of names that the standard library puts together."""

_ASKED = frozenset(
    ".".join(parts[:end]) for name in ASKED_FOR for parts in (name.split("."),) for end in range(1, len(parts) + 1)
)


def is_asked_for(dotted: str) -> bool:
    """Whether some Python's library asks for a module that it may lack: one of such a name would be run by it."""
    return dotted in _ASKED or ("." not in dotted and dotted.startswith(COMPUTED))


def may_be_lacking(module: str) -> bool:
    """Whether a folder of a module's name alone, without an ``__init__``, may be found where a test run asks for it."""
    if module in SHADOWED_MODULES:
        return not is_everywhere(module)
    return module.startswith("_") and is_asked_for(module)


@cache
def is_everywhere(module: str) -> bool:
    """Whether every test run has a module, so that a folder of its name is never found in its place."""
    if module in NEEDED_BY_RUNNER:
        return True
    if module in RUNNER_MODULES | NOT_EVERYWHERE or module.startswith("_"):
        return False
    return importlib.util.find_spec(module) is not None
