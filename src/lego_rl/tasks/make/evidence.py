"""What a failing test shows of the behaviour that it found: what was called, what it expected, what it got.

Invariant: nothing of the product's own files is in it: of a traceback the frames of tests and the last words count.
"""

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lego_rl.tasks.make.bindings import context
from lego_rl.tasks.make.bindings import names as _names
from lego_rl.tasks.make.inject.module import Function, Module
from lego_rl.tasks.make.tree import Tree, is_test

MOST_LINES = 14
"""Lines of a reproduction, and of the words of a failure."""
MOST_CHARACTERS = 160
"""Of a line."""

_FRAME = re.compile(r"^(?P<path>[^\s:][^:]*):(?P<line>\d+): in (?P<function>.*)$")
_LOCAL = re.compile(r"^ {8}(?P<name>[A-Za-z_]\w* *) = (?P<value>.*)$")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class Evidence:
    """One failing test.

    Attributes:
        test: Its id.
        calls: What it ran until it failed, as source text.
        called: Dotted name of what was called last, empty where nothing was.
        expected: Source text of the value that it expected; ``None`` where it compares nothing.
        raises: Name of the exception that it expected, ``None`` for no exception.
        said: The last words of the failure.
        values: Variables of the test that `calls` names and does not set → their values.
    """

    test: str
    calls: str
    called: str
    expected: str | None
    raises: str | None
    said: str
    values: Mapping[str, str]

    @property
    def crashed(self) -> bool:
        """Whether something was raised that the test did not expect."""
        return bool(re.match(r"[\w.]*(Error|Exception|Warning|StopIteration|Interrupt|Exit)\b", self.said)) and (
            not self.said.startswith(("AssertionError", "Failed"))
        )


def evidence_of(tree: Tree, test: str, text: str) -> Evidence | None:
    """Read a traceback that pytest printed with ``--tb=short --showlocals``; ``None`` where it shows no statement.

    Args:
        tree: With the test files that ran.
        test: The id.
        text: The traceback.
    """
    frames = list(_frames(text))
    own = [frame for frame in frames if is_test(frame.path) and frame.path in tree.files]
    if not own:
        return None
    module = Module.read(own[0].path, tree.files[own[0].path])
    if module is None:
        return None
    # The first frame is the test itself; helpers of the tests below it would show less of what was meant.
    found = _statement(module, own[0].line)
    if found is None:
        return None
    block, statement = found
    said = _said(text)
    if not said:
        return None
    shown = _shown(module, block, statement)
    calls = _short_lines([*context(tree, module, test, block, shown), *shown])
    expected, raises = _expected(module, statement)
    names = _names("\n".join(shown))
    values = {
        name: value
        for name, value in own[0].values.items()
        if name in names.used - names.bound and _is_plain(value) and f"\n{name} = " not in f"\n{calls}"
    }
    return Evidence(test, calls, _called(statement), expected, raises, said, values)


def _is_plain(value: str) -> bool:
    return not value.startswith("<") and " object at 0x" not in value and len(value) <= MOST_CHARACTERS


@dataclass
class _Frame:
    path: str
    line: int
    values: dict[str, str]


def _frames(text: str) -> Iterator[_Frame]:
    """The frames, outermost first. A line of source follows each; the variables have names of ten columns."""
    current: _Frame | None = None
    for line in text.splitlines():
        if match := _FRAME.match(line):
            if current is not None:
                yield current
            current, source = _Frame(match["path"], int(match["line"]), {}), True
        elif current is not None and source:
            source = False
        elif current is not None and (local := _LOCAL.match(line)) and len(local["name"]) >= 10:
            current.values[local["name"].strip()] = local["value"]
    if current is not None:
        yield current


def _statement(module: Module, line: int) -> tuple[Function, ast.stmt] | None:
    """The function, or the outermost thing there is, and the simplest statement of it that a line belongs to."""
    holder: Function | None = None
    best: ast.stmt | None = None
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or 0):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            holder = node
        elif not isinstance(node, ast.ClassDef) and (best is None or _expects(node) or not _expects(best)):
            best = node
    if best is None or holder is None:
        return None
    return holder, best


def _expects(node: ast.stmt) -> bool:
    """Whether a statement says that an exception is expected of what is in it."""
    return isinstance(node, ast.With) and any("raises" in ast.dump(item.context_expr).lower() for item in node.items)


def _shown(module: Module, holder: Function, statement: ast.stmt) -> list[str]:
    """The lines of a test up to a statement, without those that check something else."""
    parts: list[str] = []
    for node in holder.body:
        if node.lineno > statement.lineno:
            break
        is_last = node.lineno <= statement.lineno <= (node.end_lineno or 0)
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_last or not (is_text or _checks(node)):
            shown = statement if is_last and isinstance(node, ast.For | ast.With) and not _expects(node) else node
            parts += textwrap.dedent(_whole_lines(module, shown)).rstrip().splitlines()
    return parts


def _short_lines(lines: list[str]) -> str:
    kept = lines if len(lines) <= MOST_LINES else ["...", *lines[-MOST_LINES:]]
    return "\n".join(_short(line) for line in kept)


def _whole_lines(module: Module, node: ast.stmt) -> str:
    return module.at((module.line_start(node.lineno), module.span(node)[1]))


def _checks(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assert) or _expects(node):
        return True
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr.startswith("assert")
    )


def _expected(module: Module, statement: ast.stmt) -> tuple[str | None, str | None]:
    match statement:
        case ast.With(items=[ast.withitem(context_expr=ast.Call(args=[kind, *_]))]) if _expects(statement):
            return None, module.text(kind)
        case ast.Assert(test=ast.Compare(ops=[ast.Eq() | ast.Is()], comparators=[right])):
            return module.text(right), None
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="assertEqual" | "assertEquals" | "assertListEqual"),
                                     args=[first, second, *_])):  # fmt: skip
            constants = isinstance(first, ast.Constant), isinstance(second, ast.Constant)
            return module.text(first if constants == (True, False) else second), None
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="assertRaises"), args=[kind, *_])):
            return None, module.text(kind)
    return None, None


def _called(statement: ast.stmt) -> str:
    """What the statement is about: the outermost call that is none of the test framework's and no expected value."""
    about: ast.AST = statement
    if isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Compare):
        about = statement.test.left
    calls = [node for node in ast.walk(about) if isinstance(node, ast.Call)]
    for node in calls:
        name = _dotted(node.func)
        last = name.rpartition(".")[2]
        if name and not last.startswith(("_", "assert", "raises", "warns", "fail")) and last not in _PLAIN:
            return name
    return ""


_PLAIN = frozenset(
    [
        "list",
        "dict",
        "set",
        "tuple",
        "len",
        "str",
        "repr",
        "sorted",
        "type",
        "next",
        "iter",
        "isinstance",
        "range",
        "sum",
        "zip",
        "getattr",
        "hasattr",
        "bool",
        "int",
        "subTest",
        "bytes",
    ]
)


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            before = _dotted(value)
            return f"{before.removeprefix('self.')}.{name}" if before not in ("", "self") else name
    return ""


def _said(text: str) -> str:
    """The last words: the lines that pytest marks, without what names a place in a file."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("E   "):
            lines.append(line[4:].rstrip())
        elif line == "E":
            lines.append("")
        elif _FRAME.match(line):
            lines = []
    kept = [_short(_ADDRESS.sub("", line)) for line in lines if not re.search(r"\.py\b", line)]
    if len(kept) > MOST_LINES:
        kept = [*kept[:MOST_LINES], "..."]
    return "\n".join(kept).strip()


def _short(line: str) -> str:
    return line if len(line) <= MOST_CHARACTERS else f"{line[:MOST_CHARACTERS]}..."
