"""Protocols: what one trial of an evaluation may spend, and how it is sampled. The named ones are data beside this.

Invariant: an evaluation writes down the values, not the name alone, so that a preset that changes changes no result.
"""

from importlib.resources import files
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from lego_rl.documents import read_toml
from lego_rl.errors import ConfigError
from lego_rl.evaluate.heldout import usable_temperature
from lego_rl.gateway.budget import Budget
from lego_rl.settings import Settings, nearest


class Protocol(Settings):
    """What every trial may spend, whatever the harness."""

    temperature: Annotated[float, AfterValidator(usable_temperature)]
    """Sampling temperature; 0 takes the most probable token."""
    turns: int = Field(ge=1)
    """Answered model calls, of all roles together."""
    context_tokens: int = Field(ge=16)
    """Longest prompt plus response of one call, in tokens."""
    output_tokens: int = Field(ge=1)
    """Most tokens sampled in one call."""
    wall_clock_sec: float = Field(gt=0)
    """Seconds of the agent phase."""

    @property
    def budget(self) -> Budget:
        """As the gateway takes it."""
        return Budget(self.turns, self.context_tokens, self.output_tokens, self.wall_clock_sec)


_FOLDER = files("lego_rl.evaluate") / "protocols"
_SUFFIX = ".toml"


def protocol_names() -> list[str]:
    """The named protocols."""
    return sorted(each.name.removesuffix(_SUFFIX) for each in _FOLDER.iterdir() if each.name.endswith(_SUFFIX))


def protocol_values(name: str) -> dict[str, Any]:
    """The values of a named protocol, to be changed one by one.

    Raises:
        ConfigError: There is none of that name.
    """
    if name not in protocol_names():
        raise ConfigError(f"there is no protocol {name!r}", nearest(name, protocol_names()))
    return read_toml((_FOLDER / f"{name}{_SUFFIX}").read_text(encoding="utf-8"))
