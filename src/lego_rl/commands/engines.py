"""From a recipe's ``[engine]`` to the engine of a run, whichever kind it is."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lego_rl.commands.vllm_servers import check_served, connected
from lego_rl.config.recipe import EmbeddedSection, Recipe, VllmSection, token_engine
from lego_rl.engine.embedded.engine import EmbeddedEngine
from lego_rl.engine.embedded.stepper import EngineOptions
from lego_rl.engine.protocol import Engine
from lego_rl.engine.vllm.engine import VllmEngine
from lego_rl.errors import ConfigError
from lego_rl.rollout.store import RunDirectory
from lego_rl.train.checkpoints import Checkpoints
from lego_rl.train.loop import DigestOf, ServedEngine
from lego_rl.train.persistence import POLICY
from lego_rl.train.served import ServedPolicy, checkpoint_names, folder_digest

_PUSHED = "served-weights"


class ServedWeights(ServedEngine, Protocol):
    """What a trainer knows of the engine."""

    @property
    def digest_of(self) -> DigestOf:
        """What `weights_digest` is while some weights are in use."""
        ...


@dataclass(frozen=True)
class OpenedEngine:
    """The policy of a run.

    Attributes:
        engine: Samples from it.
        weights: Gives it other weights.
    """

    engine: Engine
    weights: ServedWeights


@contextmanager
def open_engine(
    recipe: Recipe, source: Path, directory: RunDirectory, checkpoints: Checkpoints
) -> Iterator[OpenedEngine]:
    """Load the policy of the last checkpoint, or of the recipe where there is none.

    Args:
        recipe: The resolved recipe.
        source: Directory of its policy.
        directory: The run's folder.
        checkpoints: Of the run.

    Raises:
        ConfigError: The policy cannot be loaded, or the servers are not those that the recipe needs, or do not answer.
    """
    version, checkpoint = checkpoints.latest() or (0, None)
    folder = checkpoint / POLICY if checkpoint else source
    section = token_engine(recipe)
    if isinstance(section, EmbeddedSection):
        with _embedded(section, folder, version, recipe.run.seed) as embedded:
            yield OpenedEngine(embedded, embedded)
    else:
        with connected(section, version) as served:
            check_served(served.served, recipe)
            _serve(served, section, folder, version)
            yield OpenedEngine(served, ServedPolicy(served, checkpoint_names(folder), directory.path / _PUSHED))


def engine_options(section: EmbeddedSection) -> EngineOptions:
    """The embedded engine's own options."""
    return EngineOptions(
        max_running=section.max_running,
        prefill_tokens=section.prefill_tokens,
        cache_tokens=section.cache_tokens,
        threads=section.threads,
    )


def _embedded(section: EmbeddedSection, folder: Path, version: int, seed: int) -> EmbeddedEngine:
    return EmbeddedEngine.from_directory(
        folder,
        dtype=section.dtype,
        device=section.device,
        version=version,
        options=engine_options(section),
        seed=seed,
    )


def _serve(engine: VllmEngine, section: VllmSection, folder: Path, version: int) -> None:
    """See to it that the servers hold the weights of a folder."""
    expected = folder_digest(folder, section.dtype)
    if engine.served.digest != expected and engine.load_now(folder, version) != expected:
        raise ConfigError(
            f"the servers do not find the weights of {folder} under that path",
            "let servers and trainer share one file system",
        )
