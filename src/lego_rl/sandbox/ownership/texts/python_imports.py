"""What a Python text imports, and as what.

There are two readers. `imported` has the syntax, so that it tells a relative name from another, and what is imported
out of a module. `top_modules` has no more than lines that look like imports: it reads what is no Python of this version
too, thousands of files of it, where the first part of a name is all that is asked for.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from lego_rl.sandbox.ownership.texts.python_syntax import last_name, parsed, text_of

_CALLS = frozenset({"import_module", "__import__", "run_module"})
"""Functions that import the module they are given the name of."""
_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import|import[ \t]+([\w.]+(?:[ \t]*,[ \t]*[\w.]+)*))", re.M)
_STARTED = re.compile(rb"""-m["',\s]+([A-Za-z_][\w.]*)""")


@dataclass(frozen=True)
class ImportName:
    """A name in an import: of a module, or of something in one.

    Attributes:
        dotted: Without the dots of a relative one; empty for the package itself.
        level: How many dots those are.
    """

    dotted: str
    level: int = 0

    def resolved(self, package: Sequence[str]) -> str | None:
        """The whole name; ``None`` where it leads out of what is known.

        Args:
            package: Parts of the name of the package that it is imported in.
        """
        if self.level > len(package) + 1:
            return None
        above = package[: len(package) + 1 - self.level] if self.level else ()
        return ".".join([*above, *filter(None, [self.dotted])])


def statements_in(text: bytes) -> frozenset[ImportName]:
    """What a text imports by statements alone; nothing where it is no Python."""
    program = parsed(text)
    return frozenset(name for node in (ast.walk(program) if program is not None else ()) for name in by_statement(node))


def imported(text: bytes) -> frozenset[ImportName]:
    """What a text imports, by statements and by calls; nothing where it is no Python."""
    program = parsed(text)
    nodes = ast.walk(program) if program is not None else ()
    return frozenset(name for node in nodes for name in (*by_statement(node), *by_call(node)))


def by_statement(node: ast.AST) -> Iterator[ImportName]:
    """``import a.b``, ``from a import b``."""
    if isinstance(node, ast.Import):
        yield from (ImportName(alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        yield ImportName(base, node.level)
        yield from (ImportName(f"{base}.{alias.name}".lstrip("."), node.level) for alias in node.names)


def by_call(node: ast.AST) -> Iterator[ImportName]:
    """``import_module("a.b")`` and its like; with a package, a relative one is taken to be in it."""
    if not isinstance(node, ast.Call) or last_name(node.func) not in _CALLS:
        return
    arguments = [*node.args, *(each.value for each in node.keywords)]
    leaves = (
        leaf for each in arguments if not isinstance(each, ast.List | ast.Tuple | ast.Call) for leaf in ast.walk(each)
    )
    name, *packages = [text for leaf in leaves if (text := text_of(leaf)) is not None] or [""]
    whole = f"{packages[0]}{name}" if packages and name.startswith(".") else name
    dotted = whole.lstrip(".")
    if all(part.isidentifier() for part in dotted.split(".")):
        yield ImportName(dotted, len(whole) - len(dotted))


def top_modules(text: bytes) -> set[str]:
    """First parts of the names of modules that a text imports or starts (``-m``), relative ones left out."""
    names = (name for found in _IMPORT.findall(text) for name in b",".join(found).split(b","))
    named = (*names, *_STARTED.findall(text))
    return {top for name in named if (top := name.strip().partition(b".")[0].decode())}


def with_packages(names: Iterable[str]) -> Iterator[str]:
    """Each name and those of the packages that it is in."""
    for name in names:
        yield from accumulate(name.split("."), "{}.{}".format)
