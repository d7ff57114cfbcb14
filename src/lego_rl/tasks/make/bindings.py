"""What the names in a piece of a test stand for: its imports, the defaults of its arguments, what its class sets."""

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from lego_rl.tasks.make.inject.module import Function, Module
from lego_rl.tasks.make.tree import Tree

LONGEST = 200
"""Characters of a binding that is shown."""


@dataclass(frozen=True)
class Names:
    """Names of a piece of source text.

    Attributes:
        used: Those that it reads.
        bound: Those that it sets.
        own: Attributes of ``self`` that it reads.
    """

    used: frozenset[str] = frozenset()
    bound: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()


def names(text: str) -> Names:
    """The names in some text; none where it is no whole Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return Names()
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = (
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
    )
    return Names(
        frozenset(node.id for node in found if isinstance(node.ctx, ast.Load)),
        frozenset(node.id for node in found if isinstance(node.ctx, ast.Store)),
        frozenset(own),
    )


def context(tree: Tree, module: Module, test: str, holder: Function, shown: list[str]) -> list[str]:
    """Lines that bind what some lines of a test name: those that can be had without running anything.

    Args:
        tree: With the test files.
        module: The file that the lines are of.
        test: The test's id; its class may be of another file.
        holder: The function that the lines are of.
        shown: The lines.
    """
    wanted = names("\n".join(shown))
    lines = [
        f"{name} = {module.text(value)}" for name, value in _defaults(holder) if name in wanted.used - wanted.bound
    ]
    for home, class_ in _classes(tree, module, test, holder):
        for _ in range(ROUNDS):
            own = names("\n".join([*shown, *lines])).own
            lines = [*(line for line in _class_lines(home, class_, own) if line not in lines), *lines]
    used = names("\n".join([*shown, *lines])).used - wanted.bound
    path = test.partition("::")[0]
    homes = {each.path: each for each in (module, Module.read(path, tree.files[path])) if each is not None}
    bound = dict.fromkeys(line for home in homes.values() for line in _module_lines(home, used))
    return [line for line in (*bound, *lines) if len(line) <= LONGEST]


ROUNDS = 2
"""What a class sets may be said in terms of something else that it sets."""


def _classes(tree: Tree, module: Module, test: str, holder: Function) -> Iterator[tuple[Module, ast.ClassDef]]:
    """The class that a function is written in, and the one that a test runs as."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef) and holder in node.body:
            yield module, node
    path, *between = test.partition("[")[0].split("::")[:-1]
    home = Module.read(path, tree.files[path]) if path in tree.files else None
    if home is not None and between:
        for node in home.tree.body:
            if isinstance(node, ast.ClassDef) and node.name == between[-1] and holder not in node.body:
                yield home, node


def _defaults(holder: Function) -> Iterator[tuple[str, ast.expr]]:
    given = holder.args
    positional = [*given.posonlyargs, *given.args]
    if given.defaults:
        yield from (
            (each.arg, value) for each, value in zip(positional[-len(given.defaults) :], given.defaults, strict=True)
        )
    yield from (
        (each.arg, value) for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is not None
    )


def _class_lines(module: Module, class_: ast.ClassDef, wanted: frozenset[str]) -> Iterator[str]:
    """What a class sets, and its short methods."""
    for inner in class_.body:
        match inner:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                name in wanted and module.text(value) != "None"
            ):
                yield f"self.{module.text(inner)}"
            case ast.FunctionDef(name=name, body=[_]) if name in wanted:
                yield from textwrap.dedent(_lines(module, inner)).splitlines()


def _module_lines(module: Module, wanted: frozenset[str]) -> Iterator[str]:
    for node in module.tree.body:
        match node:
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                kept = [each for each in aliases if (each.asname or each.name.partition(".")[0]) in wanted]
                if kept and not (isinstance(node, ast.ImportFrom) and node.level):
                    said = ", ".join(f"{each.name} as {each.asname}" if each.asname else each.name for each in kept)
                    yield f"from {node.module} import {said}" if isinstance(node, ast.ImportFrom) else f"import {said}"
            case ast.Assign(targets=[ast.Name(id=name)]) if name in wanted:
                yield from _lines(module, node).splitlines()


def _lines(module: Module, node: ast.stmt) -> str:
    return module.at((module.line_start(node.lineno), module.span(node)[1]))
