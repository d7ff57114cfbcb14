"""A source tree in memory, and which of its files are tests, code, documentation."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from lego_rl.errors import TaskError

MAX_FILE_BYTES = 16 << 20
MAX_TREE_BYTES = 256 << 20
MAX_FILES = 15_000
"""Larger trees are refused: every task carries its own copy."""

_NEVER = frozenset({"__pycache__", ".git", ".hg", ".svn", ".tox", ".nox", ".venv", "node_modules", ".mypy_cache"})
_TEST_FOLDERS = frozenset({"test", "tests", "testing"})
_OTHER_FOLDERS = frozenset(
    {"doc", "docs", "example", "examples", "benchmark", "benchmarks", "misc", "scripts", "tools", "bin", ".github"}
)
_PACKAGING = frozenset({"setup.py", "ez_setup.py", "noxfile.py", "tasks.py", "versioneer.py", "toxfile.py"})
_GENERATED = frozenset({"_version.py", "version.py", "benchmark.py"})


@dataclass(frozen=True)
class Tree:
    """Files of one state of a repository.

    Attributes:
        files: Path → content. Execute bits and links are not kept: what is measured is measured on what is kept.
    """

    files: Mapping[str, bytes]

    @cached_property
    def digest(self) -> str:
        """Names the tree by its paths and contents."""
        digest = hashlib.sha256()
        for path in sorted(self.files):
            digest.update(f"{path}\0{hashlib.sha256(self.files[path]).hexdigest()}\n".encode())
        return digest.hexdigest()[:24]

    def with_files(self, changed: Mapping[str, bytes | None]) -> "Tree":
        """The tree with some files replaced, or deleted where the content is ``None``."""
        merged = {**self.files, **changed}
        return Tree({path: content for path, content in merged.items() if content is not None})

    @cached_property
    def module_folders(self) -> tuple[str, ...]:
        """Where its packages are looked for: the root, and ``src`` or ``lib`` where they hold Python files."""
        named = (name for name in ("src", "lib") if any(path.startswith(f"{name}/") and path.endswith(".py")
                                                        for path in self.files))  # fmt: skip
        return (".", *named)

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """The code that bugs are put into; sorted."""
        code = (path for path in sorted(self.files) if is_code(path))
        return tuple(path for path in code if PurePosixPath(path).name not in _GENERATED)

    def text(self, path: str) -> str | None:
        """A file as text, or ``None`` where it is no UTF-8."""
        try:
            return self.files[path].decode("utf-8")
        except UnicodeDecodeError:
            return None


@dataclass(frozen=True)
class Step:
    """Two states of a repository, one after the other.

    Attributes:
        since: Names the earlier one: a version, or the first digits of a commit.
        label: Names the later one.
        before: The earlier state.
        after: The later state.
    """

    since: str
    label: str
    before: Tree
    after: Tree


def bounded(files: Iterable[tuple[str, bytes]], origin: str) -> Tree:
    """A tree of some files.

    Raises:
        TaskError: It is too large to be carried by every task.
    """
    kept: dict[str, bytes] = {}
    size = 0
    for path, content in files:
        if len(content) > MAX_FILE_BYTES:
            continue
        kept[path] = content
        size += len(content)
        if len(kept) > MAX_FILES or size > MAX_TREE_BYTES:
            raise TaskError(
                f"{origin} has more than {MAX_FILES} files or {MAX_TREE_BYTES >> 20} MiB", "name a smaller tree"
            )
    return Tree(kept)


def is_kept(path: str) -> bool:
    """Whether a file of a source belongs to its tree: no byte code, no caches, no repository."""
    return _NEVER.isdisjoint(PurePosixPath(path).parts) and not path.endswith((".pyc", ".pyo"))


def is_test(path: str) -> bool:
    """Whether a file belongs to the tests: below a folder of tests, or called like one."""
    place = PurePosixPath(path)
    name = place.name
    return (
        not _TEST_FOLDERS.isdisjoint(place.parts[:-1])
        or name in {"conftest.py", "tests.py", "test.py"}
        or (place.suffix == ".py" and (place.stem.startswith("test_") or place.stem.endswith(("_test", "_tests"))))
    )


def is_code(path: str) -> bool:
    """Whether a file is code of the repository's product: Python, and no test, documentation or packaging."""
    place = PurePosixPath(path)
    return (
        place.suffix == ".py"
        and not is_test(path)
        and place.name not in _PACKAGING
        and _OTHER_FOLDERS.isdisjoint(place.parts[:-1])
    )


def is_product(tree: Tree, path: str) -> bool:
    """Whether a file is code of the product, or data in one of its packages."""
    if is_code(path):
        return True
    folders = list(PurePosixPath(path).parents)[:-1]
    return not is_test(path) and any(
        is_code(init := f"{folder}/__init__.py") and init in tree.files for folder in folders
    )
