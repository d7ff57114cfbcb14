"""The policy that a recipe names: which directory it is, and whether the rest of the recipe fits it."""

from importlib.resources import files
from pathlib import Path

from lego_rl.config.recipe import Recipe
from lego_rl.engine.policy_dir import inspect_policy
from lego_rl.errors import ConfigError

_BUILTIN = "builtin:"


def policy_directory(name: str) -> Path:
    """The directory of a policy as a recipe names it.

    Raises:
        ConfigError: There is none.
    """
    if name.startswith(_BUILTIN):
        home = Path(str(files("lego_rl.policies")))
        shipped = {
            f"{_BUILTIN}{folder.name}": folder for folder in home.iterdir() if (folder / "config.json").is_file()
        }
        if name not in shipped:
            raise ConfigError(f"there is no shipped policy {name}", f"shipped: {', '.join(sorted(shipped))}")
        return shipped[name]
    if not Path(name).is_dir():
        raise ConfigError(f"there is no policy directory {name}", "name a Hugging Face directory or builtin:NAME")
    return Path(name)


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
