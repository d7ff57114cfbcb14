"""A Python file as text and as a syntax tree, with the place of each node in the text.

Invariant: places are byte offsets. A change replaces the bytes of a place and leaves every other byte as it was.
"""

import ast
import io
import tokenize
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

type Span = tuple[int, int]
"""First byte, and the byte after the last."""

type Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Edit:
    """Some bytes in place of others."""

    span: Span
    new: str

    def applied(self, source: bytes) -> bytes:
        """The text with this change."""
        start, end = self.span
        return source[:start] + self.new.encode() + source[end:]


@dataclass(frozen=True)
class Token:
    """A name or an operator of the text."""

    span: Span
    text: str


@dataclass(frozen=True)
class Module:
    """One file.

    Attributes:
        path: Relative to the tree.
        source: Its bytes.
        tree: Its syntax.
    """

    path: str
    source: bytes
    tree: ast.Module

    @classmethod
    def read(cls, path: str, source: bytes) -> "Module | None":
        """Parse a file; ``None`` for one that this Python cannot, or that is no UTF-8."""
        try:
            source.decode("utf-8")
            return cls(path, source, ast.parse(source))
        except (SyntaxError, ValueError, RecursionError, UnicodeDecodeError):
            return None

    @cached_property
    def _lines(self) -> list[int]:
        """The byte that each line starts at."""
        starts = [0]
        starts += [place + 1 for place, byte in enumerate(self.source) if byte == 0x0A]
        return starts

    def line_start(self, line: int) -> int:
        """The first byte of a line, counted from 1; the end of the text past the last one."""
        return self._lines[line - 1] if line <= len(self._lines) else len(self.source)

    def span(self, node: ast.expr | ast.stmt | ast.excepthandler | ast.keyword) -> Span:
        """Where a node stands, decorators not included."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.line_start(node.lineno) + node.col_offset, self.line_start(node.end_lineno) + node.end_col_offset

    def at(self, span: Span) -> str:
        """The text of a place."""
        return self.source[span[0] : span[1]].decode()

    def text(self, node: ast.expr | ast.stmt | ast.excepthandler | ast.keyword) -> str:
        """The text of a node, without the brackets around it."""
        return self.at(self.span(node))

    @cached_property
    def _tokens(self) -> list[Token]:
        """Names and operators in the order of the text; none where the text cannot be read in tokens."""
        text = self.source.decode()
        lines = text.splitlines(keepends=True)
        found = []
        try:
            for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
                if token.type in (tokenize.NAME, tokenize.OP) and token.start[0] <= len(lines):
                    before = lines[token.start[0] - 1][: token.start[1]]
                    start = self.line_start(token.start[0]) + len(before.encode())
                    found.append(Token((start, start + len(token.string.encode())), token.string))
        except (tokenize.TokenError, SyntaxError):
            return []
        return [token for token in found if self.at(token.span) == token.text]

    def tokens(self, start: int, end: int) -> list[Token]:
        """The names and operators of a stretch of text, comments and brackets left out."""
        first = bisect_left(self._tokens, start, key=lambda token: token.span[0])
        found = []
        for token in self._tokens[first:]:
            if token.span[1] > end:
                break
            if token.text not in "()[]{}":
                found.append(token)
        return found

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Every function that is in no other one, with its dotted name."""
        yield from _functions(self.tree.body, "")


def _functions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Function]]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield f"{prefix}{node.name}", node
            case ast.ClassDef():
                yield from _functions(node.body, f"{prefix}{node.name}.")
            case ast.If() | ast.Try():
                yield from _functions(node.body, prefix)
                yield from _functions(node.orelse, prefix)


def arguments(function: Function) -> list[str]:
    """The names of a function's arguments, but for the object or class that it belongs to."""
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [name for name in names if name not in {"self", "cls"}]


def variables(function: Function) -> list[str]:
    """The arguments of a function and the variables that it sets."""
    stored = (node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return list(dict.fromkeys([*arguments(function), *stored]))


def inner_nodes(function: Function) -> Iterator[ast.AST]:
    """The nodes of a function's body in the order of the text, without docstrings, annotations and f-strings."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    for statement in body:
        yield from _walk(statement)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.JoinedStr):
        return
    yield node
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            for statement in node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body:
                yield from _walk(statement)
        case ast.AnnAssign(value=value):
            if value is not None:
                yield from _walk(value)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _walk(child)
