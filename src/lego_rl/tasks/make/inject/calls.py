"""Families of bugs in calls: arguments in the wrong order, one that is missing, a function that is much alike."""

import ast
from collections.abc import Iterator, Mapping
from itertools import pairwise

from lego_rl.tasks.make.inject.module import Edit, Function, Module, inner_nodes, variables

_ALIKE: Mapping[str, tuple[str, ...]] = {
    "min": ("max",),
    "max": ("min",),
    "any": ("all",),
    "all": ("any",),
    "startswith": ("endswith",),
    "endswith": ("startswith",),
    "lstrip": ("rstrip", "strip"),
    "rstrip": ("lstrip", "strip"),
    "strip": ("lstrip", "rstrip"),
    "ljust": ("rjust",),
    "rjust": ("ljust",),
    "find": ("rfind",),
    "rfind": ("find",),
    "index": ("rindex",),
    "split": ("rsplit",),
    "rsplit": ("split",),
    "partition": ("rpartition",),
    "rpartition": ("partition",),
    "lower": ("upper",),
    "upper": ("lower",),
    "append": ("extend",),
    "extend": ("append",),
    "setdefault": ("get",),
    "appendleft": ("append",),
    "popleft": ("pop",),
    "match": ("search",),
    "search": ("match",),
    "fullmatch": ("match",),
    "ceil": ("floor",),
    "floor": ("ceil",),
    "union": ("intersection",),
    "intersection": ("union",),
    "keys": ("values",),
    "values": ("keys",),
    "issubclass": ("isinstance",),
    "sorted": ("list",),
    "islower": ("isupper",),
    "isupper": ("islower",),
    "isdigit": ("isalpha",),
}


def argument_order(module: Module, function: Function) -> Iterator[Edit]:
    """Two arguments that stand side by side have changed places."""
    for node in inner_nodes(function):
        if not isinstance(node, ast.Call):
            continue
        for first, second in pairwise(node.args):
            if isinstance(first, ast.Starred | ast.Constant) or isinstance(second, ast.Starred | ast.Constant):
                continue
            one, two = module.span(first), module.span(second)
            between = module.at((one[1], two[0]))
            if between.strip() == "," and module.at(one) != module.at(two):
                yield Edit((one[0], two[1]), f"{module.at(two)}{between}{module.at(one)}")


def missing_argument(module: Module, function: Function) -> Iterator[Edit]:
    """The last argument of several, or one that is given by name, is not passed on."""
    for node in inner_nodes(function):
        if not isinstance(node, ast.Call):
            continue
        given: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
        ordered = sorted(given, key=module.span)
        if any(isinstance(each, ast.Starred) or getattr(each, "arg", "") is None for each in ordered):
            continue
        for before, each in pairwise(ordered):
            is_last = each is ordered[-1]
            if isinstance(each, ast.keyword) or (is_last and not node.keywords):
                start, end = module.span(before)[1], module.span(each)[1]
                if module.at((start, module.span(each)[0])).strip() == ",":
                    yield Edit((start, end), "")


def lookalike(module: Module, function: Function) -> Iterator[Edit]:
    """``rfind`` for ``find``, ``min`` for ``max``."""
    for node in inner_nodes(function):
        match node:
            case ast.Call(func=ast.Name(id=name) as called):
                yield from (Edit(module.span(called), other) for other in _ALIKE.get(name, ()))
            case ast.Call(func=ast.Attribute(attr=name) as called):
                end = module.span(called)[1]
                start = end - len(name.encode())
                yield from (Edit((start, end), other) for other in _ALIKE.get(name, ()))


def missing_call(module: Module, function: Function) -> Iterator[Edit]:
    """A value is used as it is where something should be made of it first."""
    own = set(variables(function))
    for node in inner_nodes(function):
        match node:
            case ast.Call(func=ast.Name(), args=[ast.Name() as argument], keywords=[]):
                yield Edit(module.span(node), module.text(argument))
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name) as owner), args=[], keywords=[]) if name in own:
                yield Edit(module.span(node), module.text(owner))
