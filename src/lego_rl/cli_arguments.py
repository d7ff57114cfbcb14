"""Arguments that several commands take; see `lego_rl.cli`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Recipe = Annotated[Path, typer.Argument(help="A recipe, such as recipes/demo-claude-code.toml.")]
Overrides = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe, again for several.")
]
SandboxKeys = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set a key of the section sandbox, such as sandbox.processes=64, again for several.",
    ),
]
RunDir = Annotated[Path, typer.Argument(help="A run directory.")]


class Form(StrEnum):
    """What a selection of trials is written as."""

    TOKENS = "tokens"
    CHAT = "chat"


class Backend(StrEnum):
    """What a recipe is trained on."""

    EMBEDDED = "embedded"
    VERL = "verl"
