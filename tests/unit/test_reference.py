"""The generated reference is the code's."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from lego_rl.config.recipe import Recipe
from lego_rl.config.sft_recipe import SftRecipe
from lego_rl.gateway.trajectory import BudgetHit, Fate, Refusal
from scripts import outcomes, reference

COMMAND = "run: .venv/bin/python -m scripts.reference"


def test_every_committed_page_is_generated() -> None:
    assert set(reference.pages()) == {*reference.BESIDE, *reference.FOLDER.glob("*.md")}, COMMAND


@pytest.mark.parametrize(
    "path", sorted([*reference.BESIDE, *reference.FOLDER.glob("*.md")]), ids=lambda path: path.name
)
def test_the_committed_page_is_what_the_code_says(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == reference.pages()[path], COMMAND


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


def test_the_names_of_a_record_are_the_codes_own() -> None:
    assert outcomes.names_of(Fate) == ["delivered", "superseded", "abandoned"]
    assert outcomes.names_of(Refusal)[: len(outcomes.names_of(BudgetHit))] == outcomes.names_of(BudgetHit)
    assert {"closed", "internal"} < set(outcomes.names_of(Refusal))


@pytest.mark.parametrize("names", [["delivered"], [*outcomes.FATES, "forgotten"]])
def test_a_name_without_a_text_and_a_text_without_a_name_stop_the_pages(names: list[str]) -> None:
    with pytest.raises(LookupError, match="forgotten" if "forgotten" in names else "abandoned"):
        outcomes.explained(names, outcomes.FATES)
