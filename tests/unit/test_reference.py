"""The generated reference is the code's."""

import importlib.util
from pathlib import Path

import pytest
from pydantic import BaseModel

from lego_rl.config.recipe import Recipe
from lego_rl.config.sft_recipe import SftRecipe

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
assert spec is not None
assert spec.loader is not None
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)


def test_every_committed_page_is_generated() -> None:
    assert set(reference.pages()) == set((ROOT / "docs" / "reference").glob("*.md"))


@pytest.mark.parametrize("name", ["recipe.md", "sft.md", "faults.md"])
def test_the_committed_page_is_what_the_code_says(name: str) -> None:
    pages = {path.name: (path, text) for path, text in reference.pages().items()}
    path, text = pages[name]
    assert path.read_text(encoding="utf-8") == text, "run: .venv/bin/python scripts/reference.py"


@pytest.mark.parametrize("recipe", [Recipe, SftRecipe])
def test_a_table_has_the_same_defaults_whether_it_is_left_out_or_given_in_part(recipe: type[BaseModel]) -> None:
    checked = 0
    pending = [recipe]
    while pending:
        model = pending.pop()
        for name, field in model.model_fields.items():
            pending += reference.models_in(field.annotation)
            value = field.get_default(call_default_factory=True)
            if isinstance(value, BaseModel):
                assert value == type(value)(), f"{model.__name__}.{name}"
                checked += 1
    assert checked
