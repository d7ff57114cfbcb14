"""Families of bugs that put one operator in place of another: comparison, boolean, arithmetic."""

import ast
from collections.abc import Iterator, Mapping

from lego_rl.tasks.make.inject.module import Edit, Function, Module, inner_nodes

_COMPARISONS: Mapping[str, tuple[str, ...]] = {
    "<": ("<=", ">"),
    "<=": ("<", ">="),
    ">": (">=", "<"),
    ">=": (">", "<="),
    "==": ("!=",),
    "!=": ("==",),
    "is": ("is not",),
    "is not": ("is",),
    "in": ("not in",),
    "not in": ("in",),
}
_ARITHMETIC: Mapping[str, tuple[str, ...]] = {
    "+": ("-",),
    "-": ("+",),
    "*": ("+", "//"),
    "/": ("//", "*"),
    "//": ("/", "%"),
    "%": ("//",),
    "**": ("*",),
    "&": ("|",),
    "|": ("&",),
    "^": ("|",),
    "<<": (">>",),
    ">>": ("<<",),
}


def comparison(module: Module, function: Function) -> Iterator[Edit]:
    """``<`` for ``<=``, ``is not`` for ``is`` and their like."""
    for node in inner_nodes(function):
        if isinstance(node, ast.Compare):
            for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
                yield from _between(module, left, right, _COMPARISONS)


def boolean(module: Module, function: Function) -> Iterator[Edit]:
    """``and`` for ``or``, a ``not`` too few."""
    for node in inner_nodes(function):
        if isinstance(node, ast.BoolOp):
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from _between(module, left, right, {"and": ("or",), "or": ("and",)})
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            start, _ = module.span(node)
            inner, _ = module.span(node.operand)
            if module.source[start:inner].strip() == b"not":
                yield Edit((start, inner), "")


def arithmetic(module: Module, function: Function) -> Iterator[Edit]:
    """``-`` for ``+`` and their like, also where a value is added up in place."""
    for node in inner_nodes(function):
        match node:
            case ast.BinOp(left=ast.Constant(value=str() | bytes())):
                continue  # text that is put together
            case ast.BinOp(left=left, right=right):
                yield from _between(module, left, right, _ARITHMETIC)
            case ast.AugAssign(target=target, value=value):
                in_place = {f"{a}=": tuple(f"{b}=" for b in others) for a, others in _ARITHMETIC.items()}
                yield from _between(module, target, value, in_place)


def _between(module: Module, left: ast.expr, right: ast.expr, others: Mapping[str, tuple[str, ...]]) -> Iterator[Edit]:
    """Replace the operator between two operands."""
    tokens = module.tokens(module.span(left)[1], module.span(right)[0])
    if not tokens:
        return
    operator = " ".join(token.text for token in tokens)
    for other in others.get(operator, ()):
        yield Edit((tokens[0].span[0], tokens[-1].span[1]), other)
