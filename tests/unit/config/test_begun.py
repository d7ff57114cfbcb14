"""A run goes on under the recipe that it began with, wherever it lies by now."""

from pathlib import Path

import pytest

from lego_rl.config.begun import check_begun, moved
from lego_rl.config.load import dump, read
from lego_rl.config.recipe import Recipe
from lego_rl.errors import RunError

RECIPES = sorted((Path(__file__).parents[3] / "recipes").glob("demo-*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_folder_is_no_other_recipe(path: Path, tmp_path: Path) -> None:
    recipe = read(Recipe, path, [f"run.dir={tmp_path / 'here'}"])
    begun = tmp_path / "recipe.toml"
    begun.write_text(dump(recipe))
    check_begun(moved(recipe, tmp_path / "there"), begun)


@pytest.mark.parametrize("change", ["run.seed=7", "train.optimizer.lr=1e-3", "harness.options.bare=false"])
def test_any_other_key_makes_another_recipe(change: str, tmp_path: Path) -> None:
    begun = tmp_path / "recipe.toml"
    begun.write_text(dump(read(Recipe, RECIPES[0])))
    with pytest.raises(RunError, match="holds a run of another recipe"):
        check_begun(read(Recipe, RECIPES[0], [change]), begun)
