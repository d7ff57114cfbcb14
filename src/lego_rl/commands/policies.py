"""The policy that a recipe names: which directory it is, and whether the rest of the recipe fits it."""

from collections.abc import Sequence
from pathlib import Path

from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.engine.policy_dir import inspect_policy
from lego_rl.errors import ConfigError
from lego_rl.policies import policy_directory
from lego_rl.train.card import PolicyCard

__all__ = ["check_policy", "policy_directory", "read_recipe"]


def read_recipe(path: Path, overrides: Sequence[str]) -> Recipe:
    """Read the recipe of a run that begins. Its policy is run as it was trained, where the recipe says nothing else.

    Args:
        path: A TOML file.
        overrides: As for `read`.

    Raises:
        ConfigError: The recipe cannot be used, or the policy's card is damaged.
        RunError: The card has another format.
    """
    recipe = read(Recipe, path, overrides)
    if "reasoning" in recipe.capture.model_fields_set:
        return recipe
    try:
        policy = policy_directory(recipe.policy.path)
    except ConfigError:  # said when the run begins: a recipe may be printed where its policy is not
        return recipe
    card = PolicyCard.read(policy)
    if card is None or card.reasoning is None:
        return recipe
    capture = recipe.capture.model_copy(update={"reasoning": card.reasoning})
    return recipe.model_copy(update={"capture": capture})


def check_policy(recipe: Recipe, source: Path) -> None:
    """What would else show only after hours of rollouts.

    Args:
        recipe: The resolved recipe.
        source: The policy's directory.

    Raises:
        ConfigError: The directory holds no policy, or the recipe asks of it what it cannot do.
    """
    facts = inspect_policy(source)
    if recipe.budget.context_tokens > facts.context:
        raise ConfigError(
            f"budget.context_tokens is {recipe.budget.context_tokens}, the policy has {facts.context} positions",
            f"set budget.context_tokens to at most {facts.context}",
        )
    if recipe.train.routing == "replay" and not facts.experts:
        raise ConfigError("the policy has no experts whose routing could be replayed", 'set train.routing = "own"')
