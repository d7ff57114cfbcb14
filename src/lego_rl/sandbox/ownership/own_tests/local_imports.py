"""Which of a task's own files one of them imports: of Python by name or relatively, of JavaScript relatively.

Invariant: each file is read once, and none is executed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.texts.python_imports import ImportName, imported
from lego_rl.sandbox.ownership.texts.task_tree import TaskTree

SCRIPTS = ("", ".js", ".ts", ".mjs", ".cjs", ".jsx", ".tsx", "/index.js", "/index.ts")
"""What may follow the name by which a script imports another."""
_REQUIRED = re.compile(rb"""(?:\brequire\(|\bfrom|\bimport\(?)\s*["'](\.[^"'\n]*)["']""")


@dataclass(frozen=True)
class LocalImports:
    """Reads for one task.

    Attributes:
        tree: Its files.
        folders: What is on the module path.
    """

    tree: TaskTree
    folders: frozenset[str]

    _known: dict[str, frozenset[str]] = field(default_factory=dict, repr=False, compare=False)

    def of(self, file: str) -> frozenset[str]:
        """Files that importing what a file names would run, but for the packages that they are in."""
        if file not in self._known:
            found = self._by_python(file) if file.endswith(".py") else self._by_script(file)
            self._known[file] = frozenset(found) - {file}
        return self._known[file]

    def _by_python(self, file: str) -> Iterator[str]:
        names = imported(self.tree.read(file))
        for name in names:
            is_longer_there = any(other.level == name.level and _begins(name, other) for other in names)
            found = {place for folder in self._bases(file, name) for place in self._found(name.dotted, folder)}
            if not is_longer_there or not any(place.endswith("/__init__.py") for place in found):
                yield from found

    def _bases(self, file: str, name: ImportName) -> set[str]:
        above = [str(folder) for folder in PurePosixPath(file).parents]
        if name.level:
            return set(above[name.level - 1 : name.level])
        return {*self.folders, above[0]}

    def _found(self, dotted: str, folder: str) -> Iterator[str]:
        """The module that the longest beginning of a name is."""
        parts = dotted.split(".") if dotted else []
        for end in range(len(parts), -1 if not dotted else 0, -1):
            place = PurePosixPath(folder, *parts[:end])
            found = [each for each in (f"{place}.py", f"{place}/__init__.py") if self.tree.place(each) is not None]
            if found:
                yield found[0]
                return

    def _by_script(self, file: str) -> Iterator[str]:
        for word in _REQUIRED.findall(self.tree.read(file)):
            place = _joined(PurePosixPath(file).parent, word.decode(errors="replace"))
            yield from (each for suffix in SCRIPTS if self.tree.place(each := f"{place}{suffix}") is not None)


def _begins(name: ImportName, other: ImportName) -> bool:
    return other.dotted.startswith(f"{name.dotted}." if name.dotted else "") and other.dotted != name.dotted


def _joined(folder: PurePosixPath, word: str) -> str:
    parts = list(folder.parts)
    for part in word.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
