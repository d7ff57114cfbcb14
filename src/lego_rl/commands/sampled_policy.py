"""Whose trials they are: what tells the trials of one policy from those of another.

Invariant: two runs have the same name here only where the same weights were sampled in the same way in the same
harness. Seeds, sandboxes, retries and the order of trials are no part of it: they make further trials, not other ones.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lego_rl.config.recipe import Recipe, token_engine
from lego_rl.harness.base import HarnessBundle

_DIGITS = 12


@dataclass(frozen=True)
class SampledPolicy:
    """A policy as trials meet it.

    Attributes:
        policy: ``NAME@DIGEST`` of weights, sampling, budget and harness.
        harness: Name and version of the harness, for people.
    """

    policy: str
    harness: str


def sampled_policy(recipe: Recipe, temperature: float, source: Path, bundle: HarnessBundle) -> SampledPolicy:
    """The policy of a batch of rollouts.

    Args:
        recipe: The resolved recipe.
        temperature: That it is sampled with.
        source: Its folder; every byte of its files counts, and where it lies does not.
        bundle: Of the harness.
    """
    name = _named(recipe, temperature, _weights(source), bundle.hash)
    return SampledPolicy(name, f"{bundle.name} {bundle.version}")


def trained_policy(recipe: Recipe, temperature: float) -> str:
    """The policies of a run of training, which has many: the label of a trial says which of them it is of."""
    return _named(recipe, temperature, recipe.policy.path, "")


def _named(recipe: Recipe, temperature: float, weights: str, bundle: str) -> str:
    said = {
        "weights": weights,
        "tool_parser": recipe.policy.tool_parser,
        "dtype": token_engine(recipe).dtype,
        "reasoning": recipe.capture.reasoning,
        "budget": recipe.budget.model_dump(mode="json"),
        "harness": [recipe.harness.name, recipe.harness.options, bundle],
        "temperature": float(temperature),
    }
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:_DIGITS]
    return f"{recipe.policy.path.removeprefix('builtin:').rstrip('/').rpartition('/')[2]}@{digest}"


def _weights(source: Path) -> str:
    files = sorted(path for path in source.iterdir() if path.is_file())
    states = tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns, path.stat().st_ino) for path in files)
    return _weights_as(source, states)


@cache
def _weights_as(source: Path, states: tuple[tuple[str, int, int, int], ...]) -> str:
    """Of files in that state: tens of gigabytes are read once, in however many harnesses they are tried."""
    digest = hashlib.sha256()
    for name, *_ in states:
        with (source / name).open("rb") as file:
            digest.update(f"{name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()
