"""What a Python file of a task's test run starts, loads and imports, by its text alone; none of it is executed."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lego_rl.sandbox.ownership.texts.python_imports import ImportName, by_call, by_statement
from lego_rl.sandbox.ownership.texts.python_syntax import last_name, parsed, text_of
from lego_rl.sandbox.ownership.texts.shell_words import statements

MAX_NAMES = 3
"""How often a name is looked up that another name stands for."""
MAX_PARTS = 1_000
"""Of an expression that is the path of a file; those beyond are no part of it."""

_STARTS = frozenset({
    "run", "call", "check_call", "check_output", "Popen", "system", "popen", "run_path", "run_module", "main", "open",
    "import_module", "spec_from_file_location", "execv", "execve", "execvp", "execvpe", "execl", "execlp", "spawnv",
    "discover", "create_subprocess_exec", "create_subprocess_shell", "getoutput", "getstatusoutput",
})  # fmt: skip
"""Functions that start a program, or run or import a file."""
_STARTED_BY = {
    "run_path": "python", "spec_from_file_location": "python", "main": "pytest-main", "open": "open",
    "discover": "unittest", "import_module": "import_module", "run_module": "run_module",
}  # fmt: skip
"""Functions whose words begin with no program, and what stands for one: a file that is run, options of a runner."""
_READS = frozenset({"open", "read_text", "read_bytes"})
"""Functions and methods that read a file."""
_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_PLUGINS = "pytest_plugins"


@dataclass(frozen=True)
class PythonWords:
    """What a file says.

    Attributes:
        commands: Words of what it starts or opens to run it.
        plugins: Modules that it names as ``pytest_plugins``.
        reads: Paths of files that it reads, or the ends of them.
        imports: Names that it imports, each of a module or of something in one.
        optional: Those of them that it can do without.
    """

    commands: tuple[tuple[str, ...], ...] = ()
    plugins: frozenset[str] = frozenset()
    imports: frozenset[ImportName] = frozenset()
    reads: frozenset[str] = frozenset()
    optional: frozenset[ImportName] = frozenset()

    @classmethod
    def of(cls, text: bytes) -> "PythonWords":
        """Read a file; what is no Python says nothing."""
        program = parsed(text)
        if program is None:
            return cls()
        nodes = list(ast.walk(program))
        return cls(
            tuple(words for node in nodes for words in _commands(node)),
            frozenset(name for node in nodes for name in _plugins(node)),
            frozenset(name for node in nodes for name in (*by_statement(node), *by_call(node))),
            frozenset(_reads(nodes)),
            frozenset(name for node in nodes for name in _optional(node)),
        )


def _commands(node: ast.AST) -> Iterator[tuple[str, ...]]:
    if isinstance(node, ast.List | ast.Tuple) and node.elts and _is_interpreter(node.elts[0]):
        yield ("python", *_texts(node.elts))
    if not isinstance(node, ast.Call) or last_name(node.func) not in _STARTS:
        return
    name = last_name(node.func)
    by = (_STARTED_BY[name],) if name in _STARTED_BY else ()
    arguments = [*node.args, *(each.value for each in node.keywords)]
    yield (*by, *_texts(arguments))
    for argument in arguments:
        if isinstance(argument, ast.List | ast.Tuple):
            yield (*by, *_texts(argument.elts))
        else:
            for text in _texts([argument]):
                yield from ((*by, *words) for words in statements(text))


def _optional(node: ast.AST) -> Iterator[ImportName]:
    """What is imported where an error of it is caught."""
    if isinstance(node, ast.Try) and any(_catches_import(each) for each in node.handlers):
        for statement in node.body:
            for inner in ast.walk(statement):
                yield from by_statement(inner)
                yield from by_call(inner)


def _catches_import(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(each is None or last_name(each) in _IMPORT_ERRORS for each in caught)


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
        if isinstance(node, ast.Call) and last_name(node.func) in _READS:
            receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            for place in (*receiver, *node.args[:1]):
                whole = "/".join(text.strip("/") for text in _in_order(place, named))
                if whole:
                    yield whole


def _in_order(place: ast.AST, named: Mapping[str, ast.expr]) -> Iterator[str]:
    """The texts of an expression as they stand, those of the names in it too."""
    waiting = [(place, MAX_NAMES)]
    for _ in range(MAX_PARTS):
        if not waiting:
            return
        node, depth = waiting.pop()
        if (text := text_of(node)) is not None:
            yield text
        inner = [(each, depth) for each in ast.iter_child_nodes(node)]
        if isinstance(node, ast.Name) and depth and node.id in named:
            inner.insert(0, (named[node.id], depth - 1))
        waiting += reversed(inner)


def _is_interpreter(node: ast.expr) -> bool:
    """``sys.executable``, with which a list of words begins that some call is given later."""
    return last_name(node) == "executable"


def _texts(nodes: list[ast.expr]) -> Iterator[str]:
    """The texts in expressions: also in what is made of some, as ``ROOT / "x.py"``."""
    for node in nodes:
        for leaf in ast.walk(node) if not isinstance(node, ast.List | ast.Tuple | ast.Call) else ():
            if (text := text_of(leaf)) is not None:
                yield text


def _plugins(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Assign(targets=targets, value=value):
            names = map(last_name, targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
            names = map(last_name, [target])
        case _:
            return
    if _PLUGINS in names:
        for leaf in ast.walk(value):
            yield from (name.strip() for name in (text_of(leaf) or "").split(","))
