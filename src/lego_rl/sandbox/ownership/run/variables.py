"""Variables that decide where modules, programs and plugins come from."""

import re
from dataclasses import dataclass, field

from lego_rl.sandbox.ownership.run.command_words import names, plugins
from lego_rl.sandbox.ownership.run.keeper import RunKeeper
from lego_rl.sandbox.ownership.run.testpaths import leaves_paths

_OLD_PATH = re.compile(r"\$\{?(PYTHON)?PATH\b.*")


@dataclass
class Variables:
    """What values of them say of the run.

    Attributes:
        keeper: Of what has been found.
        plugins: Of pytest, that are named and not loaded yet.
        configures: Whether one may tell pytest where to look.
    """

    keeper: RunKeeper
    plugins: set[str] = field(default_factory=set)
    configures: bool = False

    def assigned(self, name: str, value: str, places: list[str]) -> None:
        """Keep what a variable says that is given a value in one of some folders."""
        if name in {"PYTHONPATH", "pythonpath", "PATH"}:
            # pytest's option takes white space between folders, the variables take colons.
            whole = value.split() if name == "pythonpath" else value.split(":")
            parts = [part for part in whole if not _OLD_PATH.fullmatch(part)]
            found = {path for part in parts for place in places for path in self.keeper.below(part or ".", place)}
            if name == "PATH":
                self.keeper.found.path |= found
            else:
                self.keeper.found.module_folders |= found
        elif name == "PYTEST_PLUGINS":
            self.plugins |= set(names(value))
        elif name == "PYTEST_ADDOPTS":
            self.configures |= not leaves_paths(tuple(value.split()))
            self.plugins.update(plugins(tuple(value.split())))

    def load_plugins(self) -> None:
        """Keep the plugins that were named."""
        while self.plugins:
            self.keeper.own_plugin(self.plugins.pop())
