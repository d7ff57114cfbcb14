"""A run has one recipe: the one that it began with.

Invariant: recipes are compared without the run's folder, which may have been moved and can be named in many ways.
"""

from pathlib import Path

from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.config.sft_recipe import SftRecipe
from lego_rl.errors import RunError


def moved[M: (Recipe, SftRecipe)](recipe: M, folder: Path) -> M:
    """The recipe of the same run where it lies at `folder`."""
    return recipe.model_copy(update={"run": recipe.run.model_copy(update={"dir": folder})})


def check_begun[M: (Recipe, SftRecipe)](recipe: M, begun: Path) -> None:
    """Refuse to go on with a run under another recipe.

    Args:
        recipe: What is to be run.
        begun: The file with the recipe that the run began with.

    Raises:
        RunError: They differ.
        ConfigError: The file is damaged.
    """
    if moved(read(type(recipe), begun), recipe.run.dir) != recipe:
        raise RunError(
            f"{recipe.run.dir} holds a run of another recipe",
            "choose another folder with --set run.dir=DIR, or remove this one",
        )
