"""What a person sees while an evaluation goes on: one bar over all its cells, with the time that is left.

On a terminal the bar is redrawn; elsewhere a line is printed every `_QUIET_SECONDS`. The same object keeps the caps:
it is told of every trial, and asked before one begins.
"""

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from lego_rl.commands.screen import Screen
from lego_rl.config.evaluation import CapsSection
from lego_rl.evaluate.review import is_session
from lego_rl.plain_text import plain_line
from lego_rl.rollout.outcome import Reward
from lego_rl.rollout.progress import Progress, TrialEnded, TrialRetried

_QUIET_SECONDS = 15.0


class EvaluationProgress:
    """Watches the trials of an evaluation.

    Args:
        total: Trials of all cells, those that have ended before included.
        caps: Where it stops.
        sampled: Tokens that earlier commands sampled for it.
        console: Where to write; standard error by default.
    """

    def __init__(self, total: int, caps: CapsSection, sampled: int = 0, console: Screen | None = None) -> None:
        self._console = console or Screen(stderr=True)
        self._caps, self._started = caps, time.monotonic()
        self._total, self._done, self._solved, self._scored, self._loaded = total, 0, 0, 0, 0
        self._sampled, self._printed, self._cell = sampled, 0.0, ""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._bar = Bar(*columns, console=self._console, transient=True, disable=not self._console.is_terminal)
        self._task = self._bar.add_task("trials", total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def cell(self, name: str) -> None:
        """A cell is begun."""
        self._cell = name
        self._console.print(plain_line(f"{name}"), style="bold")

    def trial(self, event: Progress) -> None:
        """See `TrialWatcher.trial`."""
        if isinstance(event, TrialRetried):
            line = f"retrying {event.spec.id} in {event.pause_sec:g} s: {event.outcome.detail}"
            self._console.print(plain_line(line), style="yellow")
        if not isinstance(event, TrialEnded):
            return
        if not event.loaded:
            self._sampled += event.record.accounting.sampled_tokens
        if is_session(event.record.spec.label):  # of a review: it belongs to a trial that has been counted
            return
        self._count(event.record.outcome.counted_reward, loaded=event.loaded)
        if not self._console.is_terminal and time.monotonic() - self._printed > _QUIET_SECONDS:
            self._printed = time.monotonic()
            self._console.print(plain_line(f"{self._line()} · {self._done} of {self._total} · {self._left()}"))

    def finished(self, rewards: Iterable[Reward | None]) -> None:
        """A cell has nothing left to run; these are the rewards of its trials."""
        for reward in rewards:
            self._count(reward, loaded=True)

    def _count(self, reward: Reward | None, *, loaded: bool) -> None:
        self._done += 1
        self._loaded += loaded
        self._scored += reward is not None
        self._solved += reward or 0
        self._bar.update(self._task, completed=self._done, description=plain_line(self._line()))

    def may_begin(self) -> bool:
        """Whether the caps let one more trial begin."""
        return self.capped is None

    @property
    def missing(self) -> int:
        """Trials that have not ended."""
        return max(0, self._total - self._done)

    @property
    def capped(self) -> str | None:
        """The cap that is reached; ``None`` where none is."""
        tokens, hours = self._caps.max_sampled_tokens, self._caps.max_hours
        if tokens is not None and self._sampled >= tokens:
            return f"caps.max_sampled_tokens = {tokens} is reached"
        if hours is not None and time.monotonic() - self._started >= hours * 3600:
            return f"caps.max_hours = {hours:g} is reached"
        return None

    def _line(self) -> str:
        return f"{self._cell} · solved {self._solved}/{self._scored} so far"

    def _left(self) -> str:
        ran = self._done - self._loaded
        if not ran:
            return "time left unknown"
        minutes = (time.monotonic() - self._started) / ran * (self._total - self._done) / 60
        return f"about {minutes:.0f} min left"
