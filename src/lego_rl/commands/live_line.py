"""One line on standard error that says how far something is, while standard output is for what came of it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.text import Text

from lego_rl.commands.screen import Screen
from lego_rl.plain_text import plain_line

QUIET_SECONDS = 5.0
"""Between two lines where nobody sees one being replaced."""


class LiveLine:
    """Shows the last line on a terminal; elsewhere prints one now and then.

    Args:
        first: What is shown until there is something to say.
        screen: Where; standard error by default.
    """

    def __init__(self, first: str = "", screen: Screen | None = None) -> None:
        self._screen = screen or Screen(stderr=True)
        self._first = plain_line(first)
        self._status = self._screen.status(Text(self._first))
        self._printed = time.monotonic()

    def __enter__(self) -> Self:
        if self._screen.is_terminal:
            self._status.start()
        elif self._first:
            self._screen.print(self._first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def show(self, line: str) -> None:
        """Say how far it is."""
        if self._screen.is_terminal:
            self._status.update(Text(plain_line(line)))
        elif time.monotonic() - self._printed > QUIET_SECONDS:
            self._printed = time.monotonic()
            self._screen.print(plain_line(line))

    def stay(self, line: str) -> None:
        """Print a line that is not replaced."""
        self._screen.print(plain_line(line))


@contextmanager
def said_if_slow(what: str) -> Iterator[None]:
    """Prints what is being done if it is still being done after a while; a refusal that comes at once stands alone."""
    timer = threading.Timer(QUIET_SECONDS, lambda: Screen(stderr=True).print(plain_line(what)))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Shows how many are done, and of how many, to whom it yields."""
    with LiveLine() as line:
        yield lambda done, of: line.show(f"{what}: {done:,} of {of:,}")
