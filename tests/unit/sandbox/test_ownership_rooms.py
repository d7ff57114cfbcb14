"""The packages of ownership need each other in one direction, and its map has every module."""

import ast
from pathlib import Path

import pytest

from lego_rl.sandbox import ownership

ROOM = Path(ownership.__file__).parent
ORDER = ("texts", "known", "merge", "run", "modules", "own_tests")
MODULES = sorted(path for path in ROOM.rglob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("path", [path for path in MODULES if path.parent != ROOM], ids=lambda path: path.stem)
def test_a_package_needs_only_those_before_it(path: Path) -> None:
    allowed = (*ORDER[: ORDER.index(path.parent.name) + 1], "split")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{ownership.__name__}."):
            assert (node.module or "").split(".")[3] in allowed, node.module


def test_the_map_has_every_module() -> None:
    said = ownership.__doc__ or ""
    assert [path.stem for path in MODULES if f"`{path.stem}`" not in said and f"`{path.stem}." not in said] == []
    assert sorted(path.parent.name for path in ROOM.glob("*/__init__.py")) == sorted(ORDER)
    assert [said.index(f"\n`{name}`") for name in ORDER] == sorted(said.index(f"\n`{name}`") for name in ORDER)
