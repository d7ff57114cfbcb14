"""``lego-rl check``: what can be known before anything starts."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import typer

from lego_rl.commands.policies import read_recipe
from lego_rl.commands.preflight import preflight
from lego_rl.commands.screen import Screen
from lego_rl.config.load import plain
from lego_rl.config.preflight.rule import Level, Verdict
from lego_rl.errors import ConfigError
from lego_rl.plain_text import plain as plain_text
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


def recipe(path: Path, overrides: Sequence[str], *, offline: bool = False, as_json: bool = False) -> None:
    """Ask every preflight rule about a recipe, and print one line for each.

    Args:
        path: The recipe.
        overrides: ``section.key=value`` strings.
        offline: Whether only the recipe is looked at, and this machine is not.
        as_json: Whether to print JSON in place of lines.

    Raises:
        ConfigError: The recipe cannot be read, or something about it is fatal.
    """
    verdicts = preflight(read_recipe(path, overrides), offline=offline)
    if as_json:
        typer.echo(json.dumps([_record(verdict) for verdict in verdicts], indent=1))
    else:
        for verdict in verdicts:
            fix = f"; fix: {verdict.fix}" if verdict.fix else ""
            typer.echo(plain_text(f"{verdict.level:5}  {verdict.rule.id}: {verdict.what}{fix}"))
    fatal = [verdict for verdict in verdicts if verdict.level is Level.FATAL]
    if fatal:
        more = f"{len(fatal)} of {len(verdicts)} checks are fatal; the first is " if len(fatal) > 1 else ""
        raise ConfigError(f"{more}{fatal[0].rule.id}: {fatal[0].what}", fatal[0].fix)


def _record(verdict: Verdict) -> dict[str, str]:
    return {
        "id": verdict.rule.id,
        "level": verdict.level,
        "what": verdict.what,
        "fix": verdict.fix,
        "checks": verdict.rule.checks,
        "reason": verdict.rule.reason,
    }
