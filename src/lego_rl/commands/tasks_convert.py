"""``lego-rl tasks convert``: public rows become Harbor task directories."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lego_rl.commands.kept_apart import keep_apart
from lego_rl.commands.screen import Screen
from lego_rl.errors import TaskError
from lego_rl.plain_text import plain_line
from lego_rl.tasks.convert.run import Summary
from lego_rl.tasks.convert.run import convert as convert_rows
from lego_rl.tasks.convert.skipped import SKIPPED, Skipped
from lego_rl.tasks.rows.read import count_rows

_QUIET_SECONDS = 15.0
_REASONS = 10
"""Reasons that are printed; all of them are in the file."""


def convert(form: str, inputs: Sequence[Path], out: Path, workers: int | None, *, strict: bool) -> None:
    """Convert rows, and print what became of them.

    Raises:
        ConfigError: What is written would be what is read.
        TaskError: A file cannot be read, the folder cannot be written, no row could be converted, or, where `strict`,
            one could not. What became of the rows before is printed first.
    """
    keep_apart(inputs, {"--out": out, "the list of what is skipped,": out / SKIPPED}, whole=inputs)
    screen, summary = Screen(), Summary()
    try:
        with _Bar(screen, count_rows(inputs)) as bar:
            convert_rows(
                form,
                inputs,
                out,
                summary=summary,
                workers=workers,
                on_row=bar.show,
                on_skipped=_stop if strict else lambda _: None,
            )
    finally:
        _print_counts(screen, summary, out)
    if not summary.rows:
        raise TaskError("there is no row in any of the files", "name files that hold rows")
    if not summary.tasks:
        raise TaskError(
            f"none of {summary.rows} rows could be converted", f"read the reasons, or name another format than {form}"
        )
    screen.print("nothing of this was measured yet: lego-rl tasks validate does that")


def _stop(skipped: Skipped) -> None:
    raise TaskError(
        f"{skipped.place} ({plain_line(skipped.instance) or 'no id'}): {plain_line(skipped.reason)}",
        "mend the row, or skip such rows by leaving out --strict",
    )


def _print_counts(screen: Screen, summary: Summary, out: Path) -> None:
    if not summary.rows:
        return
    screen.print(
        f"{summary.tasks} tasks in {out}: {summary.written} written, {summary.unchanged} there already, "
        f"{summary.replaced} replaced; skipped rows: {len(summary.skipped)}"
    )
    _print_reasons(screen, summary)
    if summary.skipped:
        screen.print(f"every skipped row, with its reason: {out / SKIPPED}")


def _print_reasons(screen: Screen, summary: Summary) -> None:
    reasons: dict[str, list[Skipped]] = {}
    for one in summary.skipped:
        reasons.setdefault(_kind(one.reason), []).append(one)
    counts = Counter({kind: len(rows) for kind, rows in reasons.items()})
    for kind, count in counts.most_common(_REASONS):
        first = reasons[kind][0]
        screen.print(f"  {count} x {plain_line(kind)}, as {plain_line(first.instance or first.place)}")
    if len(counts) > _REASONS:
        screen.print(f"  and {len(counts) - _REASONS} other reasons")


def _kind(reason: str) -> str:
    """A reason without what tells rows apart: quoted text, and words with a digit or a slash in them."""
    words = ["…" if any(sign.isdigit() or sign in "/'\"" for sign in word) else word for word in reason.split()]
    kept = [word for place, word in enumerate(words) if place == 0 or word != "…" or words[place - 1] != "…"]
    return " ".join(kept)[:160]


class _Bar:
    """How far a conversion is: a bar on a terminal, elsewhere a line every `_QUIET_SECONDS`."""

    def __init__(self, screen: Screen, total: int | None) -> None:
        self._screen = screen
        self._total = total
        self._printed = time.monotonic()
        self._drawn = 0.0
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[what]}"), TimeRemainingColumn())
        self._progress = Progress(*columns, console=screen, transient=True)
        self._task = self._progress.add_task("", total=total, what="")

    def __enter__(self) -> "_Bar":
        if self._screen.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._screen.is_terminal:
            self._progress.stop()

    def show(self, summary: Summary) -> None:
        now = time.monotonic()
        what = f"{summary.tasks} tasks, {len(summary.skipped)} skipped"
        if self._screen.is_terminal:
            if now - self._drawn > 0.1 or summary.rows == self._total:
                self._drawn = now
                self._progress.update(self._task, completed=summary.rows, what=what)
        elif now - self._printed > _QUIET_SECONDS:
            self._printed = now
            self._screen.print(f"rows {summary.rows}{f'/{self._total}' if self._total else ''} · {what}")
