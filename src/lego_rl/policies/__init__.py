"""Policies: those that ship with Lego-RL, which are Hugging Face directories read as package data, and a recipe's."""

from importlib.resources import files
from pathlib import Path

from lego_rl.errors import ConfigError

_BUILTIN = "builtin:"
ENDPOINT_POLICY = "chat:"
"""Begins the name of a policy that is behind a chat endpoint, where only its messages can be seen."""


def policy_directory(name: str) -> Path:
    """The directory of a policy as a recipe names it.

    Raises:
        ConfigError: There is none.
    """
    if name.startswith(_BUILTIN):
        home = Path(str(files("lego_rl.policies")))
        shipped = {
            f"{_BUILTIN}{folder.name}": folder for folder in home.iterdir() if (folder / "config.json").is_file()
        }
        if name not in shipped:
            raise ConfigError(f"there is no shipped policy {name}", f"shipped: {', '.join(sorted(shipped))}")
        return shipped[name]
    if name.startswith(ENDPOINT_POLICY):
        raise ConfigError(f"{name} is behind an endpoint and has no directory", "name a policy's directory")
    if not Path(name).is_dir():
        raise ConfigError(f"there is no policy directory {name}", "name a Hugging Face directory or builtin:NAME")
    return Path(name)
