"""Write `ownership.known.asked_modules`: names that Python's own library imports, and this Python's does not have.

    python -m scripts.asked_modules OTHER_PYTHON...

Each Python named is asked for the files of its library and for its list of modules; nothing of it is imported. What is
only for Python's own tests is left out.
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src" / "lego_rl" / "sandbox" / "ownership" / "known" / "asked_modules.py"

NOT_READ = frozenset({
    "test", "tests", "site-packages", "dist-packages", "distutils", "ensurepip", "idlelib", "lib2to3", "msilib",
    "turtledemo",
})  # fmt: skip
"""Folders of the library that no test run imports from."""
_IMPORTERS = frozenset({"__import__", "import_module", "find_spec"})
NOBODYS = frozenset({"__main__", "test", "pip"})
"""Names that the library asks for only where they are meant, its own tests for one."""
NEWER = frozenset({
    "_apple_support", "_ast_unparse", "_hmac", "_interpchannels", "_interpqueues", "_interpreters", "_py_warnings",
    "_remote_debugging", "_types", "_typing", "_zstd", "annotationlib", "compression",
})  # fmt: skip
"""What CPython 3.13 and 3.14 added and uses itself, by ``Python/stdlib_module_names.h``; for a Python not at hand."""
ASKS = "import sys, sysconfig, json; print(json.dumps([sysconfig.get_path('stdlib'), sys.version_info[:2]]))"

HEAD = '''"""Modules that Python's library asks for and the Python of this list does not have; generated, do not edit.

Written by ``python -m scripts.asked_modules`` from the libraries of Python {versions},
and what newer ones add. A module of such a name on the module path is run by the library itself: ``platform`` tries
``import _wmi`` everywhere, ``copy`` once tried ``from org.python.core import PyStringMap``. A name may be that of
something in a module.
"""

ASKED_FOR = frozenset({{
{names}
}})  # fmt: skip
'''


def asked_in(library: Path) -> Iterator[str]:
    """Dotted names of modules, and of what is taken from them, that the files of a library import."""
    for file in sorted(library.rglob("*.py")):
        inside = file.relative_to(library)
        if NOT_READ.isdisjoint(inside.parts[:-1]):
            own = inside.parts[0].removesuffix(".py")
            names = (name for node in ast.walk(ast.parse(file.read_bytes())) for name in _imports(node))
            yield from (name for name in names if name.partition(".")[0] != own)


def absent(names: Iterator[str]) -> set[str]:
    """Those of some names that this Python's library does not have."""
    return {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names | NOBODYS}


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name != "*")
        yield node.module
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        function, name = node.func, node.args[0].value
        called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if called in _IMPORTERS and type(name) is str:
            yield name


def main(pythons: Sequence[str]) -> None:
    """Write the module."""
    names, versions = set(NEWER), set[tuple[int, int]]()
    for python in (sys.executable, *pythons):
        told = subprocess.run([python, "-I", "-c", ASKS], capture_output=True, text=True, check=True)
        library, version = json.loads(told.stdout)
        versions.add((version[0], version[1]))
        names |= absent(asked_in(Path(library)))
    lines, line = list[str](), ""
    for name in sorted(names):
        word = f'"{name}", '
        if len(line) + len(word) > 114:
            lines, line = [*lines, f"    {line.rstrip()}"], ""
        line += word
    told_versions = ", ".join(f"{major}.{minor}" for major, minor in sorted(versions))
    TARGET.write_text(HEAD.format(versions=told_versions, names="\n".join([*lines, f"    {line.rstrip()}"])))


if __name__ == "__main__":
    main(sys.argv[1:])
