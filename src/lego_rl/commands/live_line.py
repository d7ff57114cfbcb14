"""One line on standard error that says how far something is, while standard output is for what came of it."""

import time
from types import TracebackType
from typing import Self

from lego_rl.commands.screen import Screen

QUIET_SECONDS = 5.0
"""Between two lines where nobody sees one being replaced."""


class LiveLine:
    """Shows the last line on a terminal; elsewhere prints one now and then.

    Args:
        first: What is shown until there is something to say.
        screen: Where; standard error by default.
    """

    def __init__(self, first: str, screen: Screen | None = None) -> None:
        self._screen = screen or Screen(stderr=True)
        self._status = self._screen.status(first)
        self._printed = 0.0

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def show(self, line: str) -> None:
        """Say how far it is."""
        self._status.update(line)
        if not self._screen.is_terminal and time.monotonic() - self._printed > QUIET_SECONDS:
            self._printed = time.monotonic()
            self._screen.print(line)
