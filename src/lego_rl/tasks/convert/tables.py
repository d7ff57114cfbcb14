"""How repositories are tested whose rows do not say it: tables that ``scripts/classic_tables.py`` writes.

Source: swebench 4.1.0 and swesmith 0.0.9, both MIT.
"""

from functools import cache
from importlib.resources import files
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from lego_rl.tasks.convert.row import RowError


class Version(BaseModel):
    """Versions of a repository that are tested alike."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    versions: tuple[str, ...]
    parser: str
    """Name of a log parser of swebench."""
    test_cmd: str
    eval_commands: tuple[str, ...] = ()
    """What goes before."""
    install: str = ""
    """How the work tree is installed again."""


class _Tables(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    swebench: dict[str, tuple[Version, ...]]
    swesmith: dict[str, Annotated[str, Field(min_length=1)]]


@cache
def _tables() -> _Tables:
    text = files("lego_rl.tasks.convert").joinpath("classic_tables.json").read_text(encoding="utf-8")
    return _Tables.model_validate_json(text)


def classic(repository: str, version: str) -> Version:
    """How a version of a repository is tested in SWE-bench's classic schema.

    Raises:
        RowError: The tables do not say.
    """
    for known in _tables().swebench.get(repository, ()):
        if version in known.versions:
            return known
    raise RowError(
        f"it has no eval_script, and the tables know no test command of {repository} {version}: "
        "take the row of the present schema, which has one"
    )


def smith(mirror: str) -> str:
    """The test command of a repository at a commit, called as SWE-smith's mirror is: ``owner__name.12345678``.

    Raises:
        RowError: The tables do not say.
    """
    commands = _tables().swesmith
    if mirror not in commands:
        raise RowError(f"the tables know no test command of {mirror}: Python repositories with pytest are known")
    return commands[mirror]
