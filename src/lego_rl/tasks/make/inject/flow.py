"""Families of bugs in what is done when: exceptions, results, branches, statements and conditions that are missing."""

import ast
from collections.abc import Iterator, Mapping

from lego_rl.tasks.make.inject.module import Edit, Function, Module, Span, arguments, inner_nodes

_EXCEPTIONS: Mapping[str, tuple[str, ...]] = {
    "Exception": ("ValueError",),
    "LookupError": ("KeyError", "IndexError"),
    "KeyError": ("IndexError",),
    "IndexError": ("KeyError",),
    "ValueError": ("TypeError",),
    "TypeError": ("ValueError",),
    "AttributeError": ("KeyError",),
    "StopIteration": ("RuntimeError",),
    "ImportError": ("ValueError",),
    "OSError": ("ValueError",),
    "UnicodeDecodeError": ("UnicodeEncodeError",),
    "UnicodeEncodeError": ("UnicodeDecodeError",),
    "ZeroDivisionError": ("OverflowError",),
    "OverflowError": ("ZeroDivisionError",),
}
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def exception(module: Module, function: Function) -> Iterator[Edit]:
    """Another exception is caught or raised, or one of several is not."""
    for node in inner_nodes(function):
        match node:
            case ast.ExceptHandler(type=ast.Tuple(elts=[_, _, *_] as kinds) as all_):
                for left_out in kinds:
                    kept = [module.text(kind) for kind in kinds if kind is not left_out]
                    yield Edit(module.span(all_), kept[0] if len(kept) == 1 else f"({', '.join(kept)})")
            case ast.ExceptHandler(type=ast.Name(id=name) as kind):
                yield from (Edit(module.span(kind), other) for other in _EXCEPTIONS.get(name, ()))
            case ast.Raise(exc=ast.Call(func=ast.Name(id=name) as kind) | (ast.Name(id=name) as kind)):
                yield from (Edit(module.span(kind), other) for other in _EXCEPTIONS.get(name, ()))


def result(module: Module, function: Function) -> Iterator[Edit]:
    """Two results, or the two sides of a choice, have changed places."""
    for node in inner_nodes(function):
        match node:
            case ast.Return(value=ast.Tuple(elts=[first, second])) | ast.Yield(value=ast.Tuple(elts=[first, second])):
                yield from _swapped(module, first, second)
            case ast.IfExp(body=first, orelse=second):
                yield from _swapped(module, first, second)


def _swapped(module: Module, first: ast.expr, second: ast.expr) -> Iterator[Edit]:
    one, two = module.span(first), module.span(second)
    between = module.at((one[1], two[0]))
    if "#" not in between and module.at(one) != module.at(two):
        yield Edit((one[0], two[1]), f"{module.at(two)}{between}{module.at(one)}")


def missing_condition(module: Module, function: Function) -> Iterator[Edit]:
    """One part of a condition is not asked for."""
    for node in inner_nodes(function):
        if isinstance(node, ast.BoolOp):
            first, last = module.span(node.values[0]), module.span(node.values[-1])
            second, before = module.span(node.values[1])[0], module.span(node.values[-2])[1]
            for span in ((first[0], second), (before, last[1])):
                words = module.at(span)
                if "#" not in words and words.count("(") == words.count(")"):
                    yield Edit(span, "")


def missing_branch(module: Module, function: Function) -> Iterator[Edit]:
    """A case that is to be treated by itself is not."""
    for block, node in _statements(function):
        if not isinstance(node, ast.If):
            continue
        start, end = module.span(node)
        if module.source[start : start + 4] == b"elif":
            last = module.span(node.body[-1])[1]
            yield from _removed(module, node.lineno, (start, last))
        elif not node.orelse and len(block) > 1 and isinstance(node.body[-1], _LEAVES):
            yield from _removed(module, node.lineno, (start, end))


def missing_statement(module: Module, function: Function) -> Iterator[Edit]:
    """Something is not done: a call, or a change of what was there before."""
    known = set(arguments(function))
    for block, node in _statements(function):
        match node:
            case ast.Expr(value=ast.Call()) | ast.AugAssign():
                removable = True
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                removable = True
            case ast.Assign(targets=[ast.Name(id=name)]):
                removable = name in known
                known.add(name)
            case _:
                removable = False
        if removable and len(block) > 1:
            yield from _removed(module, node.lineno, module.span(node))


def loop_control(module: Module, function: Function) -> Iterator[Edit]:
    """``break`` for ``continue``, and the other way round."""
    for node in inner_nodes(function):
        match node:
            case ast.Break():
                yield Edit(module.span(node), "continue")
            case ast.Continue():
                yield Edit(module.span(node), "break")


def _statements(function: Function) -> Iterator[tuple[list[ast.stmt], ast.stmt]]:
    """Every statement below a function, with the block that it is one of."""
    for node in (function, *inner_nodes(function)):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield from ((block, each) for each in block if isinstance(each, ast.stmt))


def _removed(module: Module, line: int, span: Span) -> Iterator[Edit]:
    """Take whole lines out, with the comment above them; nothing where something else stands on the lines."""
    start = module.line_start(line)
    indent = module.source[start : span[0]]
    end = module.source.find(b"\n", span[1])
    rest = module.source[span[1] : end if end >= 0 else len(module.source)].strip()
    if indent.strip() or (rest and not rest.startswith(b"#")) or end < 0:
        return
    above = line
    while above > 1 and _is_comment(module, above - 1, indent):
        above -= 1
    first, after = module.line_start(above), end + 1
    blank_before = above > 1 and not module.source[module.line_start(above - 1) : first].strip()
    next_end = module.source.find(b"\n", after)
    if blank_before and next_end >= 0 and not module.source[after:next_end].strip():
        after = next_end + 1
    yield Edit((first, after), "")


def _is_comment(module: Module, line: int, indent: bytes) -> bool:
    text = module.source[module.line_start(line) : module.line_start(line + 1)]
    return text.startswith(indent + b"#")
