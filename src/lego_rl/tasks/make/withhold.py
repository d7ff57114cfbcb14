"""The visible state of a test file: without the tests that decide.

A task that was made by injection shows the agent every test but those that fail: it may run the others, as it could in
any repository, while the ones that its change is judged by are not there to be read or run. Withholding whole files
would take all tests of a module away for the sake of one; showing the failing ones would leave nothing to find.
"""

import ast
from collections.abc import Iterable, Iterator

from lego_rl.tasks.make.inject.module import Function, Module


def without_tests(path: str, source: bytes, tests: Iterable[str]) -> bytes | None:
    """A test file without some of its tests, comments and decorators of theirs included.

    Args:
        path: The file's.
        source: Its content.
        tests: Their ids.

    Returns:
        ``None`` where one of them is not written in this file as a function (it is inherited, or made by the file's
        code) or nothing would be left to test: then the file is withheld whole.
    """
    module = Module.read(path, source)
    if module is None:
        return None
    doomed: dict[int, Function | ast.ClassDef] = {}
    for test in tests:
        found = list(_find(module.tree.body, test.partition("[")[0].split("::")[1:]))
        if not found:
            return None
        doomed |= {node.lineno: node for node in found}
    for holder in [node for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]:
        left = [node for node in holder.body if node.lineno not in doomed and not isinstance(node.__dict__.get("value"),
                                                                                             ast.Constant)]  # fmt: skip
        if not left:
            doomed = {line: node for line, node in doomed.items() if node not in holder.body}
            doomed[holder.lineno] = holder
    if not _has_tests(module.tree, doomed):
        return None
    for node in sorted(doomed.values(), key=lambda node: node.lineno, reverse=True):
        source = _cut(module, source, node)
    return source if Module.read(path, source) is not None else None


def _find(body: list[ast.stmt], names: list[str]) -> Iterator[Function]:
    """Every function of a name: a later one replaces an earlier one, which would come forth without it."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if names == [node.name]:
                yield node
            case ast.ClassDef() if len(names) > 1 and node.name == names[0]:
                yield from _find(node.body, names[1:])
            case ast.If() | ast.Try():
                yield from _find([*node.body, *node.orelse], names)


def _has_tests(tree: ast.Module, doomed: dict[int, Function | ast.ClassDef]) -> bool:
    gone = {inner for node in doomed.values() for inner in ast.walk(node)}
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test") and node not in gone
        for node in ast.walk(tree)
    )


def _cut(module: Module, source: bytes, node: Function | ast.ClassDef) -> bytes:
    """Take the lines of a definition out, with the comments above it and the blank lines below it."""
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    assert node.end_lineno is not None
    lines = source.splitlines(keepends=True)
    while first > 1 and lines[first - 2].lstrip().startswith(b"#") and _indent(lines[first - 2]) == node.col_offset:
        first -= 1
    after = node.end_lineno
    while after < len(lines) and not lines[after].strip():
        after += 1
    return b"".join(lines[: first - 1] + lines[after:])


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip())
