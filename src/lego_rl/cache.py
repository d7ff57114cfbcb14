"""Where Lego-RL keeps what it can make again: the user's cache folder."""

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """``$XDG_CACHE_HOME/lego-rl/NAME``, ``~/.cache`` by default.

    Source: XDG base directory specification, which has a path that is not absolute ignored.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "lego-rl" / name
