"""``lego-rl bench capture``: the gateway by itself; JSON on standard output."""

import asyncio
import json

import typer

from lego_rl.bench.capture import CaptureBench
from lego_rl.bench.client import PATHS
from lego_rl.bench.policy import policy_folder
from lego_rl.bench.workload import Shape
from lego_rl.errors import ConfigError


def capture(dialect: str, turns: int, sessions: int) -> None:
    """Measure the gateway with a long conversation and print what it took.

    Args:
        dialect: ``openai-chat`` or ``anthropic``.
        turns: Model calls; the conversation's tokens are in proportion.
        sessions: Sessions at once, in the last part.

    Raises:
        ConfigError: The dialect is unknown, or the benchmark's tokenizer is not installed.
    """
    if dialect not in PATHS:
        raise ConfigError(f"the benchmark's client does not speak {dialect}", f"choose one of {', '.join(PATHS)}")
    bench = CaptureBench(policy_folder(), Shape.of(turns), dialect, sessions)
    typer.echo(json.dumps(asyncio.run(bench.run()), indent=2))
