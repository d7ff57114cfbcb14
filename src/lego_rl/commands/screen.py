"""The console that every command prints on.

Invariant: whatever text is printed, no character of it reaches the terminal but as something to be read. A trial's
files, an agent's words and a harness's output need no care at the places that print them: strings are no markup, and
what would steer a terminal is shown as its code point. Colours are the caller's, as styles of `rich`.
"""

import os
from collections.abc import Iterable
from typing import IO, override

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from lego_rl.plain_text import plain

_UNBROKEN = 10_000
"""Columns in which nothing is wrapped or cut."""


class Screen(Console):
    """Standard output, or another stream.

    Args:
        file: Where to write; standard output by default.
        stderr: Standard error instead.
        width: Columns; by default those of the terminal, and elsewhere (a file, a pipe) as many as a line takes, unless
            ``COLUMNS`` says otherwise.
        record: Whether what is printed can be exported.
    """

    def __init__(
        self, *, file: IO[str] | None = None, stderr: bool = False, width: int | None = None, record: bool = False
    ) -> None:
        super().__init__(
            file=file, stderr=stderr, width=width, record=record, markup=False, highlight=False, emoji=False
        )
        if width is None and not self.is_terminal and "COLUMNS" not in os.environ:
            self.width = _UNBROKEN

    @override
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Everything that is drawn passes here; control codes, such as those that redraw a live line, are `rich`'s."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)
