"""What a person sees while a long command works: on a terminal one live line, elsewhere a line now and then."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.text import Text

from lego_rl.commands.screen import Screen
from lego_rl.plain_text import plain_line

_QUIET_SECONDS = 15.0


class Doing:
    """Writes to standard error, so that standard output is the result alone."""

    def __init__(self) -> None:
        self._screen = Screen(stderr=True)
        self._status = self._screen.status("")
        self._printed = time.monotonic()

    def __enter__(self) -> Self:
        if self._screen.is_terminal:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def doing(self, what: str) -> None:
        """Show what is being done now."""
        if self._screen.is_terminal:
            self._status.update(Text(plain_line(what)))
        elif time.monotonic() - self._printed > _QUIET_SECONDS:
            self._printed = time.monotonic()
            self._screen.print(plain_line(what))

    def made(self, task: str, kind: str) -> None:
        """Print that a task is written."""
        self._screen.print(f"{kind}: {plain_line(task)}")


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Shows how many are done, and of how many, to whom it yields."""
    with Doing() as doing:
        yield lambda done, of: doing.doing(f"{what}: {done:,} of {of:,}")
