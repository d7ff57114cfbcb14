"""The vLLM servers of a recipe: reached, and seen to fit, before anything else is begun."""

from lego_rl.config.recipe import Recipe, VllmSection
from lego_rl.engine.protocol import EngineError
from lego_rl.engine.vllm.engine import VllmEngine, VllmOptions
from lego_rl.engine.vllm.serving import Served
from lego_rl.errors import ConfigError


def connected(section: VllmSection, version: int) -> VllmEngine:
    """The servers, to be closed by whoever asks.

    Args:
        section: Which.
        version: Of the weights.

    Raises:
        ConfigError: They do not answer, or differ.
    """
    options = VllmOptions(section.tries, section.connect_sec)
    try:
        return VllmEngine(section.urls, options=options, version=version)
    except EngineError as error:
        raise ConfigError(str(error), "start it with lego-rl serve policy MODEL, or mend engine.urls") from error


def check_served(served: Served, recipe: Recipe) -> None:
    """See that what is served is what a recipe samples with.

    Args:
        served: What the servers say.
        recipe: Its engine is theirs.

    Raises:
        ConfigError: They compute in another type, or have less context than a trial may use.
    """
    assert isinstance(recipe.engine, VllmSection)
    if served.dtype != recipe.engine.dtype:
        raise ConfigError(
            f"engine.dtype is {recipe.engine.dtype}, the servers compute in {served.dtype}",
            f"serve with --dtype {recipe.engine.dtype}, or set engine.dtype",
        )
    asked = recipe.budget.context_tokens
    if served.context < asked:
        raise ConfigError(
            f"budget.context_tokens is {asked}, the servers have a context of {served.context}",
            f"serve with --context {asked}, or lower budget.context_tokens",
        )


def check_servers(recipe: Recipe) -> None:
    """Reach the servers of a recipe once, and see that they fit.

    Raises:
        ConfigError: They do not answer, or do not fit.
    """
    assert isinstance(recipe.engine, VllmSection)
    with connected(recipe.engine, version=0) as engine:
        check_served(engine.served, recipe)
