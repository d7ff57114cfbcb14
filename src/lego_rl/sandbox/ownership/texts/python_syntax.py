"""Python that anybody wrote, as syntax: the one place where such a text is given to a parser.

Invariant: whatever the text is, it is read or it says nothing; no error of the parser gets out. Programs are walked
without recursion, for an expression may be as deep as a parser allows.
"""

import ast

MAX_BYTES = 1 << 20
"""Of a text that is read; what is larger is data."""

_UNREADABLE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)
"""What the parser, and what turns its result into values or a text, raise for texts that are no Python or too deep."""


class NotLiteralError(ValueError):
    """An expression that is not written out, or too deep to be read."""


def parsed(text: bytes) -> ast.Module | None:
    """A program; ``None`` for what is none that can be read."""
    try:
        return ast.parse(text) if len(text) <= MAX_BYTES else None
    except _UNREADABLE:
        return None


def literal(node: ast.expr) -> object:
    """The value of an expression that is written out.

    Raises:
        NotLiteralError: It is not.
    """
    try:
        return ast.literal_eval(node)
    except _UNREADABLE as error:
        raise NotLiteralError(str(error)) from error


def is_literal(node: ast.expr) -> bool:
    """Whether an expression is written out."""
    try:
        literal(node)
    except NotLiteralError:
        return False
    return True


def is_same(one: ast.Module, other: ast.Module) -> bool:
    """Whether two programs are the same, comments and layout left out; those that are too deep to be told are not."""
    try:
        return ast.dump(one) == ast.dump(other)
    except _UNREADABLE:
        return False


def last_name(node: ast.expr) -> str:
    """``c`` of ``a.b.c``; empty where an expression is no name."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def text_of(node: ast.AST) -> str | None:
    """The text that an expression is; ``None`` where it is none."""
    return node.value if isinstance(node, ast.Constant) and type(node.value) is str else None
