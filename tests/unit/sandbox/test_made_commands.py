"""Commands that `tasks make` writes leave the product to the agent, however a repository is laid out."""

from pathlib import Path

import pytest
from owned import owner

from lego_rl.sandbox.verdict import Change
from lego_rl.tasks.make.suite import STYLES, Style
from lego_rl.tasks.make.tree import Tree

TESTS = {"tests/test_calc.py": "import calc.sums\n"}
LAYOUTS: dict[str, dict[str, str]] = {
    "flat": {"calc/__init__.py": "", "calc/sums.py": ""},
    "src": {"src/calc/__init__.py": "", "src/calc/sums.py": ""},
    "lib": {"lib/calc/__init__.py": "", "lib/calc/sums.py": ""},
    "src of modules": {"src/calc.py": "", "src/sums.py": ""},
}


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_product_is_the_agents_and_the_tests_are_not(tmp_path: Path, layout: str, style: Style) -> None:
    files = {"setup.py": "from setuptools import setup\nsetup()\n", **LAYOUTS[layout]}
    tree = Tree({path: text.encode() for path, text in {**files, **TESTS}.items()})
    asked = owner(tmp_path, files, hidden=TESTS, command=style.command(tree, " ".join(TESTS)))
    product = LAYOUTS[layout]
    assert {path: asked.owns(Change(path, "file", b"a = 1\n")) for path in product} == dict.fromkeys(product)
    assert all(asked.owns(Change(path, "file")) for path in TESTS)
