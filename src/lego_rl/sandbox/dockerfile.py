"""The few Dockerfile instructions that need no build: ``FROM``, ``WORKDIR``, ``ENV`` and ``COPY``.

Invariant: an instruction that is not understood is an error, never ignored, so that a sandbox without a build is what
the same Dockerfile gives with one. What ``FROM`` names is the caller's root file system.
"""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from lego_rl.documents import read_json
from lego_rl.errors import TaskError, UnservedTaskError
from lego_rl.sandbox import paths

EXPANDED = ("WORKDIR", "ENV", "COPY")
"""Instructions understood here in which Docker expands variables."""
CONTINUED = re.compile(r"\\[ \t\r]*$")
"""The end of a line with which its instruction does not end."""
ESCAPE = re.compile(r"(?:#[ \t]*\w+[ \t]*=.*\n)*?#[ \t]*escape[ \t]*=[ \t]*(\S+)", re.IGNORECASE)
"""What says, before anything else, that another character continues lines (its reference, "Parser directives")."""
NO_BUILD = "use FROM, WORKDIR, ENV and COPY only, give an unpacked image as root file system, or use Docker"


class NeedsBuildError(UnservedTaskError):
    """A Dockerfile, which may be right, asks for more than can be had without a build."""


@dataclass
class Recipe:
    """What a Dockerfile asks for.

    Attributes:
        workdir: The last ``WORKDIR``, absolute and without ``..``.
        env: ``ENV`` in order.
        copies: Source relative to the build context, and absolute destination without ``..``; a trailing slash on a
            destination says that it is a folder.
        base: What ``FROM`` names; empty where nothing does.
    """

    workdir: str = "/"
    env: dict[str, str] = field(default_factory=dict)
    copies: list[tuple[str, str]] = field(default_factory=list)
    base: str = ""

    def __post_init__(self) -> None:
        self.workdir = paths.inside("/", self.workdir)


def read_dockerfile(path: Path, start: str = "/") -> Recipe:
    """Read `path`.

    Args:
        path: The Dockerfile.
        start: Work directory of what it starts from.

    Raises:
        TaskError: It is no text, or a quotation in it has no end.
        NeedsBuildError: It holds an instruction or a form that needs an image build, or a variable.
    """
    recipe = Recipe(start)
    for line in instructions(path):
        instruction, argument = (*line.split(maxsplit=1), "")[:2]
        if "$" in argument and instruction.upper() in EXPANDED:
            # What it stands for may come from the base image's environment, which is not known here.
            raise NeedsBuildError(f"{path}: {line} uses a variable, which is not expanded", "write the value out")
        _apply(recipe, instruction.upper(), argument, path)
    return recipe


def instructions(path: Path) -> list[str]:
    """The instructions of a Dockerfile, each in one line. A comment ends with its line, wherever it stands.

    Raises:
        TaskError: It is no text.
        NeedsBuildError: It has lines continued by another character than the backslash.
    """
    text = dockerfile_text(path)
    if (escape := ESCAPE.match(text)) and escape[1] != "\\":
        raise NeedsBuildError(f"{path}: escape={escape[1]} is not supported", "continue lines with a backslash")
    found: list[str] = []
    begun = ""
    for line in text.split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        begun += CONTINUED.sub(" ", line)
        if not CONTINUED.search(line):
            found.append(begun.strip())
            begun = ""
    return [*found, begun.strip()] if begun.strip() else found


def dockerfile_text(path: Path) -> str:
    """What a Dockerfile says.

    Raises:
        TaskError: It is no text, or a link to a file that is not the task's.
    """
    if path.is_symlink() and paths.within(path.parent, path) is None:
        raise TaskError(f"{path} leads out of its folder, or nowhere", "put the file there")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (IsADirectoryError, UnicodeDecodeError) as error:
        raise TaskError(f"cannot read {path}: {error}", "write it as UTF-8 text, or remove it") from error
    if "\0" in text:
        raise TaskError(f"{path} has a null character", "write it as UTF-8 text, or remove it")
    return text


def _words(argument: str, line: str, path: Path) -> list[str]:
    """The words of an instruction, as a shell or as JSON has them.

    Raises:
        TaskError: A quotation has no end.
    """
    if argument.startswith("["):
        try:
            words = read_json(argument)
        except ValueError:  # Docker then takes it for words, too
            words = None
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            return words
    try:
        return shlex.split(argument)
    except ValueError as error:
        raise TaskError(f"{path}: {line}: {error}", "mend the Dockerfile") from error


def _variable(word: str, path: Path) -> tuple[str, str]:
    """Name and value of a variable of the sandbox.

    Raises:
        TaskError: It has no name, or nothing could be started with it.
    """
    name, assigned, value = word.partition("=")
    if not name or not assigned:
        raise TaskError(f"{path}: ENV has {word[:200]!r}, which is no variable", "write ENV NAME=VALUE")
    if name == "PATH" and not value:
        raise TaskError(f"{path}: ENV leaves PATH empty", "name the folders of programs, or leave PATH out")
    return name, value


def _apply(recipe: Recipe, instruction: str, argument: str, path: Path) -> None:
    match instruction:
        case "FROM":
            if recipe.base:
                raise NeedsBuildError(f"{path}: it has more than one stage, which needs an image build", NO_BUILD)
            recipe.base = argument
        case "WORKDIR":
            if not argument or not {*"\"'\\"}.isdisjoint(argument):
                raise NeedsBuildError(f"{path}: WORKDIR {argument} is not supported", "write WORKDIR FOLDER, unquoted")
            recipe.workdir = paths.inside(recipe.workdir, argument)
        case "ENV":
            words = _words(argument, f"ENV {argument}", path)
            if not words:
                raise NeedsBuildError(f"{path}: ENV without a variable", "write ENV NAME=VALUE")
            if "=" not in words[0]:
                words = [f"{words[0]}={' '.join(words[1:])}"]
            recipe.env |= dict(_variable(word, path) for word in words)
        case "COPY":
            words = _words(argument, f"COPY {argument}", path)
            # A here-document, or a pattern, of which there may be any number of files.
            if len(words) != 2 or words[0].startswith(("--", "<<")) or not {*"*?["}.isdisjoint(words[0]):
                raise NeedsBuildError(f"{path}: COPY {argument} is not supported", "write COPY SOURCE DESTINATION")
            recipe.copies.append((words[0], _destination(recipe.workdir, words[1])))
        case _:
            raise NeedsBuildError(
                f"{path}: {instruction} needs an image build, which this sandbox does not do",
                NO_BUILD,
            )


def _destination(workdir: str, target: str) -> str:
    joined = paths.inside(workdir, target)
    is_folder = target.rpartition("/")[2] in ("", ".", "..")
    return f"{joined}/" if is_folder and joined != "/" else joined
