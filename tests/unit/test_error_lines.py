"""Every error that a user can meet says what is wrong and what to do: no `LegoError` is raised with one line only."""

import ast
from collections.abc import Iterator
from pathlib import Path

import lego_rl.errors
from lego_rl.errors import FidelityError, LegoError

SOURCE = Path(__file__).parents[2] / "src" / "lego_rl"
BASES = {
    name for name, value in vars(lego_rl.errors).items() if isinstance(value, type) and issubclass(value, LegoError)
}


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def calls(tree: ast.Module, names: set[str]) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        # `jinja2.TemplateError` is another one.
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node


def test_every_error_has_its_two_lines() -> None:
    found = trees()
    own = {
        node.name
        for tree in found.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and BASES.intersection(map(name_of, node.bases))
        and not any(isinstance(each, ast.FunctionDef) and each.name == "__init__" for each in node.body)  # says them
    }
    lines = 0
    for path, tree in found.items():
        for call in calls(tree, BASES | own):
            wanted = 3 if name_of(call.func) == FidelityError.__name__ else 2
            assert len(call.args) + len(call.keywords) >= wanted, f"{path.relative_to(SOURCE)}:{call.lineno}"
            lines += 1
    assert lines > 100
