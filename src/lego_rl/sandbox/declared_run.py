"""What a task's test command runs, as far as the task itself says so: scripts, plugins, folders of modules.

Invariant: only the task's own words are read, its command and its pristine work tree, and nothing of it is executed.
"""

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath

from lego_rl.sandbox.configuration import UnreadableError, pytest_options
from lego_rl.sandbox.module_path import below

RUNNERS: Mapping[str, frozenset[str]] = {
    "make": frozenset({"Makefile", "makefile", "GNUmakefile"}),
    "nox": frozenset({"noxfile.py"}),
    "tox": frozenset({"tox.ini", "toxfile.py"}),
    "invoke": frozenset({"tasks.py"}),
    "inv": frozenset({"tasks.py"}),
    "just": frozenset({"justfile", "Justfile", ".justfile"}),
}
"""Program → the files of the work directory that tell it what to do."""

_SCRIPTS = ("", ".sh", ".bash", ".ini", ".cfg", ".toml", ".mk")
_PYTHON = re.compile(r"(.*/)?python[0-9.]*")
_CONFIGURATIONS = ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "pyproject.toml", "tox.ini", "setup.cfg")
"""Where pytest looks for its options, in its order."""


@dataclass(frozen=True)
class DeclaredRun:
    """What decides how the tests run besides the files that always do.

    Attributes:
        files: Paths of the work tree that the command runs, or that a program of it or pytest reads for what to do.
        module_folders: Folders of the work tree that are put on the module path; the work tree itself is ``.``.
        programs: Paths of the work tree where the command would find programs that it names.
    """

    files: frozenset[str] = frozenset()
    module_folders: frozenset[str] = frozenset({"."})
    programs: frozenset[str] = frozenset()

    @classmethod
    def of(cls, command: str, pristine: Path, env: Mapping[str, str], workdir: str) -> "DeclaredRun":
        """Read a command and the configuration of a pristine work tree.

        Args:
            command: What runs the tests, in a shell.
            pristine: The pristine work tree.
            env: Its environment variables.
            workdir: Where the work tree is inside.
        """
        words = re.findall(r"[^\s;|&<>()'\"`=]+", command)
        entered = [".", *(place for word in _entered(words) for place in below(word, workdir))]
        options = {place: _pytest_options(pristine / place) for place in entered}
        scripts = frozenset(_run_by(words, entered, pristine))
        folders = {
            ".",
            *(
                folder
                for place, said in options.items()
                for word in said.get("pythonpath", "").split()
                for folder in below(str(PurePosixPath(place, word)), workdir)
            ),
            *_folders("PYTHONPATH|pythonpath", command, workdir),
            *below(env.get("PYTHONPATH", ""), workdir),
            *(str(PurePosixPath(script).parent) for script in scripts if script.endswith(".py")),
        }
        plain = frozenset(_plain(folder) for folder in folders)
        files = {*scripts, *(name for word in words for name in RUNNERS.get(PurePosixPath(word).name, ()))}
        plugins = {*_plugins(words), *_conftest_plugins(pristine)}
        plugins.update(name for said in options.values() for name in _plugins(said.get("addopts", "").split()))
        files |= {path for plugin in plugins for path in _module_files(plugin, plain | {"src"}, pristine)}
        places = {
            *_folders("PATH", command, workdir),
            *below(env.get("PATH", ""), workdir),
            *(str(PurePosixPath(word).parent) for word in _sourced(words)),
        }
        programs = {_plain(f"{place}/{word}") for place in places for word in words if "/" not in word}
        return cls(frozenset(files), plain, frozenset(programs))


def _plain(path: str) -> str:
    return str(PurePosixPath(path))


def _run_by(words: list[str], folders: list[str], pristine: Path) -> Iterator[str]:
    """The scripts and configuration files of the work tree among some words; a Python file where Python runs it.

    They are looked for in `folders`, the work directory and those that the command changes into.
    """
    for before, word in zip(["", *words], words, strict=False):
        suffix = PurePosixPath(word).suffix
        if suffix in _SCRIPTS or (suffix == ".py" and (_PYTHON.fullmatch(before) or word.startswith("./"))):
            # A word need not be a name that could be.
            yield from (path for path in _in_each(folders, word) if os.path.isfile(pristine / path))  # noqa: PTH113


def _entered(words: list[str]) -> Iterator[str]:
    for before, word in pairwise(words):
        if before in {"cd", "pushd", "-C"}:
            yield word


def _in_each(folders: Iterable[str], word: str) -> Iterator[str]:
    for folder in folders:
        path = _plain(f"{folder}/{word}")
        if ".." not in PurePosixPath(path).parts and not path.startswith("/"):
            yield path


def _folders(variable: str, command: str, workdir: str) -> Iterator[str]:
    """Folders of the work tree in a search path that the command sets, as a variable or as an option of pytest's."""
    for value in re.findall(rf"(?<![A-Za-z_])(?:{variable})=[\"']?([^\s\"';]+)", command):
        for part in re.sub(r"\$(PWD|\{PWD\})", ".", value).split(":"):
            yield from () if part.startswith("$") else below(part, workdir)


def _sourced(words: list[str]) -> Iterator[str]:
    """Scripts that the shell itself reads, as the one that activates a virtual environment."""
    for before, word in pairwise(words):
        if before in {".", "source"} and not word.startswith("/"):
            yield word


def _plugins(words: list[str]) -> Iterator[str]:
    """Modules that pytest's ``-p`` names."""
    for before, word in zip(["", *words], words, strict=False):
        name = word if before == "-p" else word[2:] if word.startswith("-p") and len(word) > 2 else ""
        if re.fullmatch(r"[A-Za-z_][\w.]*", name):
            yield name


def _conftest_plugins(pristine: Path) -> Iterator[str]:
    """Modules that the task's own ``conftest.py`` files name as ``pytest_plugins``."""
    for path in sorted(pristine.glob("conftest.py")) + sorted(pristine.glob("*/conftest.py")):
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, RecursionError, OSError):
            continue
        for node in tree.body:
            if not isinstance(node, ast.Assign) or "pytest_plugins" not in map(_name, node.targets):
                continue
            yield from (
                leaf.value
                for leaf in ast.walk(node.value)
                if isinstance(leaf, ast.Constant) and type(leaf.value) is str
            )


def _name(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else ""


def _module_files(module: str, folders: frozenset[str], pristine: Path) -> Iterator[str]:
    place = module.replace(".", "/")
    for folder in sorted(folders):
        for end in (".py", "/__init__.py"):
            path = _plain(f"{folder}/{place}{end}")
            if (pristine / path).is_file():
                yield path


def _pytest_options(pristine: Path) -> Mapping[str, str]:
    """pytest's options in the work directory: those of the first file that has some."""
    for name in _CONFIGURATIONS:
        path = pristine / name
        if os.path.isfile(path):  # noqa: PTH113  # Not every folder that a command names can be one.
            try:
                options = pytest_options(name, path.read_bytes())
            except (UnreadableError, OSError):
                continue
            if options:
                return options
    return {}
