"""What a person sees while a run goes on: a live line for the batch at work, one printed line a finished step.

On a terminal the live line is redrawn; elsewhere (a log file, CI) a line is printed every `_QUIET_SECONDS`.
"""

import os
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self, override

from rich.live import Live
from rich.text import Text

from lego_rl.commands.program import seconds_since_start
from lego_rl.commands.screen import Screen
from lego_rl.evaluate.heldout import Score, score
from lego_rl.plain_text import plain_line
from lego_rl.rollout.outcome import Outcome
from lego_rl.rollout.progress import BatchStarted, Progress, TrialEnded, TrialRetried

_QUIET_SECONDS = 15.0


class RunScreen(Screen):
    """A screen that its run outlives: what nobody reads any more is not printed."""

    @override
    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)  # for what is buffered, which Python flushes at its end
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class ConsoleProgress:
    """Watches a run and writes to a console.

    Args:
        steps: Training steps of the run.
        console: Where to write; standard output by default.
    """

    def __init__(self, steps: int, console: Screen | None = None) -> None:
        self._steps = steps
        self._console = console or RunScreen()
        self._live = Live(console=self._console, refresh_per_second=4, transient=True)
        self._printed = 0.0
        self._label = ""
        self._label_started = 0.0
        self._outcomes: list[Outcome] = []
        self._evaluated: dict[str, float | None] = {}

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def trial(self, event: Progress) -> None:
        """Show how far the batch at work is."""
        if isinstance(event, BatchStarted):
            self._label, self._label_started, self._outcomes = event.label, time.monotonic(), []
            self._say(_begins(event))
        if isinstance(event, TrialRetried):
            self._say(f"retrying {event.spec.id} in {event.pause_sec:g} s: {event.outcome.detail}", style="yellow")
        if not isinstance(event, TrialEnded):
            return
        self._outcomes.append(event.record.outcome)
        now = score(self._outcomes)
        line = (
            f"{self._label} · trials {event.done}/{event.total} · solved {now.solved}/{now.trials}"
            f" · {time.monotonic() - self._label_started:.0f} s"
        )
        if self._console.is_terminal:
            self._live.update(Text(plain_line(line), style="dim"))
        elif time.monotonic() - self._printed > _QUIET_SECONDS:
            self._printed = time.monotonic()
            self._say(line)

    def resumed(self, steps: int) -> None:
        """Print that a run is gone on with, and how many steps are finished."""
        self._say(f"resumed · {steps} of {self._steps} steps are finished")

    def training(self, step: int) -> None:
        """Show that trials are done and the update is being computed."""
        if self._console.is_terminal:
            self._live.update(Text(f"step {step + 1}/{self._steps} · training", style="dim"))

    def evaluated(self, label: str, split: str, result: Score) -> None:
        """Print the solve rate of an evaluated split."""
        self._evaluated[split] = result.rate
        solved = f"solved {result.solved}/{result.trials} = {_form(result.rate, '.3f')}"
        self._say(f"{label} · {split} · {solved} · {self._elapsed()}", style="bold")

    def stepped(self, step: int, figures: Mapping[str, float | int | str | None]) -> None:
        """Print a finished step."""
        evaluated = "".join(f" · {split} {_form(rate, '.3f')}" for split, rate in self._evaluated.items())
        self._say(
            f"step {step + 1}/{self._steps} · trials {_figure(figures, 'rollout/trials', '.0f')}"
            f" · reward {_figure(figures, 'rollout/solve_rate', '.3f')}{evaluated}"
            f" · pearson {_figure(figures, 'fidelity/pearson_logprobs', '.7f')}"
            f" · |Δ| {_figure(figures, 'fidelity/mean_abs', '.1e')}"
            f" · delivered {_figure(figures, 'rollout/delivered_fraction', '.3f')}"
            f" · {_figure(figures, 'seconds/step', '.0f')} s"
            f" (training {_figure(figures, 'seconds/training', '.0f')}) · {self._elapsed()}"
        )

    def _elapsed(self) -> str:
        minutes, seconds = divmod(int(seconds_since_start()), 60)
        return f"{minutes}:{seconds:02d}"

    def _say(self, line: str, style: str = "") -> None:
        try:
            self._console.print(Text(plain_line(line), style=style), soft_wrap=True)
        except OSError:  # the file that it goes to is full: no reason to end a run
            self._console.quiet = True


def _begins(batch: BatchStarted) -> str:
    line = f"{batch.label} · {batch.total} trials"
    if batch.loaded == batch.total:
        return f"{line} · all of them have ended before"
    at_once = f"{min(batch.concurrency, batch.total - batch.loaded)} at a time"
    return f"{line} · {at_once}" + (f" · {batch.loaded} have ended before" if batch.loaded else "")


def _figure(figures: Mapping[str, float | int | str | None], name: str, form: str) -> str:
    return _form(figures.get(name), form)


def _form(value: float | int | str | None, form: str) -> str:
    return format(value, form) if isinstance(value, int | float) else "n/a"
