"""What a Python file of a task's test run starts, loads and imports, by its text alone; none of it is executed."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lego_rl.sandbox.ownership.shell_words import statements

MAX_NAMES = 3
"""How often a name is looked up that another name stands for."""

_STARTS = frozenset({
    "run", "call", "check_call", "check_output", "Popen", "system", "popen", "run_path", "run_module", "main", "open",
    "import_module", "spec_from_file_location", "execv", "execve", "execvp", "execvpe", "execl", "execlp", "spawnv",
    "create_subprocess_exec", "create_subprocess_shell", "getoutput", "getstatusoutput",
})  # fmt: skip
"""Functions that start a program, or run or import a file."""
_IMPORTS = frozenset({"import_module", "__import__", "run_module"})
"""Functions that import the module they are given the name of."""
_READS = frozenset({"open", "read_text", "read_bytes"})
"""Functions and methods that read a file."""
_PLUGINS = "pytest_plugins"


@dataclass(frozen=True)
class PythonWords:
    """What a file says.

    Attributes:
        commands: Words of what it starts or opens to run it.
        plugins: Modules that it names as ``pytest_plugins``.
        reads: Paths of files that it reads, or the ends of them.
        imports: Dotted names that it imports, each a module or something in one; relative ones with their dots.
    """

    commands: tuple[tuple[str, ...], ...] = ()
    plugins: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()

    @classmethod
    def of(cls, text: bytes) -> "PythonWords":
        """Read a file; what is no Python says nothing."""
        try:
            nodes = list(ast.walk(ast.parse(text)))
        except (SyntaxError, ValueError, RecursionError):
            return cls()
        return cls(
            tuple(words for node in nodes for words in _commands(node)),
            frozenset(name for node in nodes for name in _plugins(node)),
            frozenset(name for node in nodes for name in (*_imports(node), *_imported_by_calls(node))),
            frozenset(_reads(nodes)),
        )


def _commands(node: ast.AST) -> Iterator[tuple[str, ...]]:
    if isinstance(node, ast.List | ast.Tuple) and node.elts and _is_interpreter(node.elts[0]):
        yield ("python", *_texts(node.elts))
    if not isinstance(node, ast.Call) or _last_name(node.func) not in _STARTS:
        return
    arguments = [*node.args, *(each.value for each in node.keywords)]
    yield tuple(_texts(arguments))
    for argument in arguments:
        if isinstance(argument, ast.List | ast.Tuple):
            yield tuple(_texts(argument.elts))
        else:
            for text in _texts([argument]):
                yield from statements(text)


def _reads(nodes: list[ast.AST]) -> Iterator[str]:
    """What stands in the first argument of `open`, or before ``.read_text()``, there or where the name is given."""
    named = {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Call) and _last_name(node.func) in _READS:
            receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            for place in (*receiver, *node.args[:1]):
                whole = "/".join(text.strip("/") for text in _in_order(place, named))
                if whole:
                    yield whole


def _in_order(place: ast.AST, named: Mapping[str, ast.expr], depth: int = MAX_NAMES) -> Iterator[str]:
    """The texts of an expression as they stand, those of the names in it too."""
    if isinstance(place, ast.Constant) and type(place.value) is str:
        yield place.value
    elif isinstance(place, ast.Name) and depth and place.id in named:
        yield from _in_order(named[place.id], named, depth - 1)
    for inner in ast.iter_child_nodes(place):
        yield from _in_order(inner, named, depth)


def _is_interpreter(node: ast.expr) -> bool:
    """``sys.executable``, with which a list of words begins that some call is given later."""
    return _last_name(node) == "executable"


def _texts(nodes: list[ast.expr]) -> Iterator[str]:
    """The texts in expressions: also in what is made of some, as ``ROOT / "x.py"``."""
    for node in nodes:
        for leaf in ast.walk(node) if not isinstance(node, ast.List | ast.Tuple | ast.Call) else ():
            if isinstance(leaf, ast.Constant) and type(leaf.value) is str:
                yield leaf.value


def _plugins(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Assign(targets=targets, value=value):
            names = map(_last_name, targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
            names = map(_last_name, [target])
        case _:
            return
    if _PLUGINS in names:
        for leaf in ast.walk(value):
            if isinstance(leaf, ast.Constant) and type(leaf.value) is str:
                yield from (name.strip() for name in leaf.value.split(","))


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = "." * node.level + (node.module or "")
        yield base
        dot = "" if base.endswith(".") else "."
        yield from (f"{base}{dot}{alias.name}" for alias in node.names)


def _imported_by_calls(node: ast.AST) -> Iterator[str]:
    """``import_module("a.b")`` and its like; with a package, a relative one is taken to be in it."""
    if isinstance(node, ast.Call) and _last_name(node.func) in _IMPORTS:
        name, *packages = [*_texts(node.args), *_texts([each.value for each in node.keywords])] or [""]
        dotted = f"{packages[0]}{name}" if packages and name.startswith(".") else name
        if all(part.isidentifier() for part in dotted.lstrip(".").split(".")):
            yield dotted


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""
