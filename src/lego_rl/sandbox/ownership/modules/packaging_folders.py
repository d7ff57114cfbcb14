"""Which folders of a work tree its packaging puts on the module path, where it is installed for development.

A package is found in the folder above it: ``packages=["app"]`` says that the work tree is on the path, and
``packages=["lib/app"]`` that ``lib`` is. A key that says in which folder packages are names the folder itself.

Invariant: where a ``setup.py`` computes what it says, every text in it counts, but for what is a package by an
``__init__.py`` of its own: such a folder is imported from the one above.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from lego_rl.sandbox.ownership.merge.configuration import packaging_options
from lego_rl.sandbox.ownership.texts.ini_texts import UnreadableError
from lego_rl.sandbox.ownership.texts.python_syntax import last_name, literal, parsed, text_of
from lego_rl.sandbox.ownership.texts.task_tree import TaskTree
from lego_rl.sandbox.ownership.texts.toml_keys import read_toml
from lego_rl.sandbox.ownership.texts.words import path_words

BUILDERS = ("setuptools", "poetry", "hatch", "pdm", "flit", "maturin", "scikit-build", "uv")
"""Tables of ``pyproject.toml`` in which the folder of the packages can stand."""
HOLDS_PACKAGES = frozenset({"where", "from", "sources", "dev-mode-dirs", "python-source", "module-root"})
"""Keys whose values are folders that hold packages."""
PACKAGE_DIR = frozenset({"package_dir", "package-dir"})
"""Keys of a folder, or of folders by package; the one without a package is where all others are."""
FINDERS = frozenset({"find", "find_packages", "find_namespace_packages"})
"""Calls whose first argument is a folder that holds packages."""
SOURCES = "src"


@dataclass(frozen=True)
class _Named:
    """What a packaging file says.

    Attributes:
        holding: Folders that hold packages.
        packages: Paths of packages, and of whatever else: what is above one holds it.
        words: What may be either.
    """

    holding: set[str] = field(default_factory=set)
    packages: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)


def packaging_folders(tree: TaskTree) -> frozenset[str]:
    """Folders relative to the work tree; none where it is nothing that could be installed.

    Args:
        tree: The task's files, of which only those of the pristine work tree count.
    """
    found, pristine = _Named(), tree.pristine
    installable = [_setup_py(pristine, found), _setup_cfg(pristine, found), _pyproject(pristine, found)]
    if not any(installable):
        return frozenset()
    above = {str(folder) for each in found.packages for folder in PurePosixPath(each).parents}
    words = {str(place) for each in found.words for place in (each, *PurePosixPath(each).parents)}
    words = {place for place in words if not (pristine / place / "__init__.py").is_file()}
    return frozenset(filter(tree.leads_to_folder, {SOURCES, *found.holding, *above, *words}))


def _setup_py(pristine: Path, found: _Named) -> bool:
    path = pristine / "setup.py"
    if not path.is_file():
        return False
    text = path.read_bytes()
    program = parsed(text)
    if program is None:
        found.words.update(path_words(text.decode(errors="replace")))
        return True
    is_plain = True
    for key, value in _arguments(program):
        try:
            _take(found, key, literal(value))
        except ValueError:  # It is not written out, or a number that is too long to be a word.
            is_plain &= key not in PACKAGE_DIR | HOLDS_PACKAGES | {"", "packages"} or _is_found(value)
    if not is_plain:
        texts = filter(None, map(text_of, ast.walk(program)))
        found.words.update(word for text in texts for word in path_words(text))
    return True


def _arguments(program: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """What a ``setup.py`` gives to calls and puts into tables by a name; what comes from elsewhere has none."""
    for node in ast.walk(program):
        if isinstance(node, ast.Call):
            yield from ((keyword.arg or "", keyword.value) for keyword in node.keywords)
            if node.args and last_name(node.func) in FINDERS:
                yield "where", node.args[0]
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value


def _is_found(value: ast.expr) -> bool:
    """Whether packages are what is found in a folder; that folder is looked at by itself."""
    return isinstance(value, ast.Call) and last_name(value.func) in FINDERS


def _setup_cfg(pristine: Path, found: _Named) -> bool:
    try:
        sections = packaging_options((pristine / "setup.cfg").read_bytes())
    except (OSError, UnreadableError):
        return False
    for options in sections.values():
        for key, value in options.items():
            if key in PACKAGE_DIR:
                lines = (line.partition("=") for line in value.splitlines() if line.strip())
                _take(found, key, {name.strip(): folder.strip() for name, _, folder in lines})
            else:
                _take(found, key, value)
    return bool(sections)


def _pyproject(pristine: Path, found: _Named) -> bool:
    try:
        document = read_toml((pristine / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    tool = document.get("tool")
    tables = {name: tool[name] for name in BUILDERS if name in tool} if isinstance(tool, dict) else {}
    if isinstance(tables.get("uv"), dict):
        tables["uv"] = tables["uv"].get("build-backend")  # its `sources` are where other projects come from
    _take(found, "", tables)
    return bool(tables) or "project" in document or "build-system" in document


def _take(found: _Named, key: str, value: object) -> None:
    """Add what stands behind a key."""
    if key in PACKAGE_DIR and isinstance(value, Mapping):
        for package, folder in value.items():
            (found.packages if package else found.holding).update(path_words(str(folder)))
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            _take(found, key if key in HOLDS_PACKAGES else str(name), inner)
            (found.holding if key in HOLDS_PACKAGES else found.packages).update(path_words(str(name)))
    elif isinstance(value, str):
        (found.holding if key in HOLDS_PACKAGES | PACKAGE_DIR else found.packages).update(path_words(value))
    elif isinstance(value, Iterable):
        for each in value:
            _take(found, key, each)
