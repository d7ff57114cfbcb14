"""``lego-rl check``: what can be known before anything starts."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from lego_rl.commands.policies import read_recipe
from lego_rl.commands.recipe_check import check_recipe
from lego_rl.commands.screen import Screen
from lego_rl.config.load import plain
from lego_rl.errors import ConfigError
from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.settings import validate


def sandbox(environment: str, overrides: Sequence[str] = ()) -> None:
    """Isolate a real process here, as every trial does, and say what holds its limits.

    Args:
        environment: How; a value of ``sandbox.environment``.
        overrides: ``sandbox.key=value`` strings, as for a recipe.

    Raises:
        ConfigError: There is no such environment, or no such key.
        SandboxError: Agents cannot be isolated; the message names the one command that mends it.
    """
    provider = provider_of(sandbox_settings(environment, overrides))
    provider.reap()
    report = asyncio.run(provider.probe())
    console = Screen()
    console.print("sandbox: one was started, sealed, used and removed here")
    console.print(f"limits: memory is held by {report.memory}, processes by {report.processes}")


def sandbox_settings(environment: str, overrides: Sequence[str]) -> SandboxSettings:
    """What a command without a recipe is told of sandboxes.

    Args:
        environment: A value of ``sandbox.environment``.
        overrides: ``sandbox.key=value`` strings.

    Raises:
        ConfigError: There is no such environment, or no such key.
    """
    raw = plain(overrides)
    if other := raw.keys() - {"sandbox"}:
        name = other.pop()
        near = f"sandbox.{name}" if name in SandboxSettings.model_fields else "sandbox.processes=64"
        raise ConfigError(f"a sandbox has nothing from {name}", f"set keys of [sandbox] only, such as {near}")
    chosen = {**raw.get("sandbox", {}), "environment": environment}
    return validate(SandboxSettings, chosen, guide="docs/sandbox.md", section="sandbox")


def recipe(path: Path, overrides: Sequence[str]) -> None:
    """Check everything that a recipe names, and that its tool parser reads what its chat template writes.

    Raises:
        LegoError: Something is missing or does not fit.
    """
    resolved = read_recipe(path, overrides)
    checked = check_recipe(resolved)
    bundle = checked.policy.parts.bundle
    console = Screen()
    console.print(f"harness: {bundle.name} {bundle.version} is installed")
    console.print(
        f"policy: {resolved.policy.path} fits the budget, its template and {resolved.policy.tool_parser} agree"
    )
    console.print(f"tasks: split {resolved.tasks.train!r} and what is evaluated are there")
    console.print(f"machine: {checked.note or 'it has room for all trials that run at the same time'}")
