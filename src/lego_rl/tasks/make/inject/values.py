"""Families of bugs that put one value in place of another: off by one, constant, variable."""

import ast
from collections.abc import Iterator

from lego_rl.tasks.make.inject.module import Edit, Function, Module, arguments, inner_nodes


def off_by_one(module: Module, function: Function) -> Iterator[Edit]:
    """A bound, an index or a step that is one too large or too small."""
    for node in inner_nodes(function):
        match node:
            case ast.Subscript(slice=place):
                yield from _moved(module, _bounds(place))
            case ast.Call(func=ast.Name(id="range" | "islice" | "enumerate"), args=args):
                yield from _moved(module, args)
            case ast.Compare(comparators=comparators):
                yield from _moved(module, comparators)
            case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=ast.Constant(value=1) as one):
                if type(one.value) is int:
                    yield (
                        Edit((module.span(left)[1], module.span(one)[1]), "")
                        if _is_bare(module, left, one)
                        else (Edit(module.span(one), "2"))
                    )


def _is_bare(module: Module, left: ast.expr, right: ast.expr) -> bool:
    """Whether nothing but the operator stands between two operands: no bracket, no comment."""
    return module.at((module.span(left)[1], module.span(right)[0])).strip() in {"+", "-"}


def _bounds(place: ast.expr) -> list[ast.expr]:
    parts = [place.lower, place.upper, place.step] if isinstance(place, ast.Slice) else [place]
    return [part for part in parts if part is not None]


def _moved(module: Module, values: list[ast.expr]) -> Iterator[Edit]:
    for value in values:
        match value:
            case ast.Constant(value=int() as number) if type(number) is int:
                yield Edit(module.span(value), str(number + 1))
                if number > 0:
                    yield Edit(module.span(value), str(number - 1))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)) if type(number) is int:
                yield Edit(module.span(value), f"-{number + 1}")


def constant(module: Module, function: Function) -> Iterator[Edit]:
    """``True`` for ``False``, another number, an empty text for a blank one."""
    defaults = [value for value in (*function.args.defaults, *function.args.kw_defaults) if value is not None]
    for node in (*defaults, *inner_nodes(function)):
        if not isinstance(node, ast.Constant):
            continue
        match node.value:
            case bool() as flag:
                yield Edit(module.span(node), str(not flag))
            case int() as number if abs(number) > 1:
                yield Edit(module.span(node), str(number + (1 if number % 2 else -1)))
                yield Edit(module.span(node), str(number * 10))
            case float() as number if number:
                yield Edit(module.span(node), repr(number * 2))
            case " ":
                yield Edit(module.span(node), module.text(node).replace(" ", ""))


def variable(module: Module, function: Function) -> Iterator[Edit]:
    """Another variable of the function, of those that are there by then."""
    known = arguments(function)
    for node in inner_nodes(function):
        if not isinstance(node, ast.Name):
            continue
        if isinstance(node.ctx, ast.Store) and node.id not in known:
            known.append(node.id)
        elif isinstance(node.ctx, ast.Load) and node.id in known:
            yield from (Edit(module.span(node), other) for other in known if other != node.id)
