"""The generated reference is the code's."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
assert spec is not None
assert spec.loader is not None
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)


@pytest.mark.parametrize("name", ["recipe.md", "faults.md"])
def test_the_committed_page_is_what_the_code_says(name: str) -> None:
    pages = {path.name: (path, text) for path, text in reference.pages().items()}
    path, text = pages[name]
    assert path.read_text(encoding="utf-8") == text, "run: .venv/bin/python scripts/reference.py"
