"""The few Dockerfile instructions that need no build: ``FROM``, ``WORKDIR``, ``ENV`` and ``COPY``.

Invariant: an instruction that is not understood is an error, never ignored, so that a sandbox without a build is what
the same Dockerfile gives with one. What ``FROM`` names is the caller's root file system.
"""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from lego_rl.errors import SandboxError

EXPANDED = ("WORKDIR", "ENV", "COPY")
"""Instructions understood here in which Docker expands variables."""


@dataclass
class Recipe:
    """What a Dockerfile asks for.

    Attributes:
        workdir: The last ``WORKDIR``, absolute.
        env: ``ENV`` in order.
        copies: Source relative to the build context, and absolute destination; a trailing slash on a destination says
            that it is a folder.
    """

    workdir: str = "/"
    env: dict[str, str] = field(default_factory=dict)
    copies: list[tuple[str, str]] = field(default_factory=list)


def read_dockerfile(path: Path) -> Recipe:
    """Read `path`.

    Raises:
        SandboxError: It holds an instruction or a form that needs an image build, or a variable.
    """
    recipe = Recipe()
    text = re.sub(r"\\\n", " ", path.read_text(encoding="utf-8"))
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        instruction, _, argument = line.strip().partition(" ")
        if "$" in argument and instruction.upper() in EXPANDED:
            # What it stands for may come from the base image's environment, which is not known here.
            raise SandboxError(f"{path}: {line.strip()} uses a variable, which is not expanded", "write the value out")
        _apply(recipe, instruction.upper(), argument.strip(), path)
    return recipe


def _apply(recipe: Recipe, instruction: str, argument: str, path: Path) -> None:
    match instruction:
        case "FROM":
            return
        case "WORKDIR":
            recipe.workdir = str(PurePosixPath(recipe.workdir, argument))
        case "ENV":
            words = shlex.split(argument)
            if not words:
                raise SandboxError(f"{path}: ENV without a variable", "write ENV NAME=VALUE")
            if "=" not in words[0]:
                words = [f"{words[0]}={' '.join(words[1:])}"]
            for word in words:
                key, _, value = word.partition("=")
                recipe.env[key] = value
        case "COPY":
            words = shlex.split(argument)
            if len(words) != 2 or words[0].startswith("--"):
                raise SandboxError(f"{path}: COPY {argument} is not supported", "write COPY SOURCE DESTINATION")
            recipe.copies.append((words[0], _destination(recipe.workdir, words[1])))
        case _:
            raise SandboxError(
                f"{path}: {instruction} needs an image build, which this sandbox does not do",
                "use FROM, WORKDIR, ENV and COPY only, or give an unpacked image as root file system",
            )


def _destination(workdir: str, target: str) -> str:
    joined = str(PurePosixPath(workdir, target))
    return f"{joined}/" if target.endswith(("/", ".")) and joined != "/" else joined
