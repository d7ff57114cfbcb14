"""``lego-rl inspect RUN``: the trials of a run, those that are not finished too."""

from lego_rl.commands.screen import Screen
from lego_rl.plain_text import plain_line
from lego_rl.rollout.journal import read_journal
from lego_rl.rollout.settled import settled_trials
from lego_rl.rollout.store import RunDirectory
from lego_rl.rollout.trial_folder import OutcomeFile

_HEADINGS = ("trial", "task", "ended", "reward", "tries", "seconds")


def list_trials(directory: RunDirectory) -> None:
    """Print every trial that counts, by what it is part of, and the folders of those that are not finished.

    Args:
        directory: The run's folder, finished or not.

    Raises:
        RunError: The journal or a record is damaged.
    """
    journal = read_journal(directory.journal) if directory.journal.exists() else ()
    ended = sorted(settled_trials(journal))
    heads = [directory.store.folder(name).head for name in ended]
    screen = Screen()
    rows = [_HEADINGS, *(_cells(head) for head in sorted(heads, key=lambda each: (each.spec.label, each.spec.id)))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows if heads else ():
        # Never cut to the width of a screen: an ID is there to be copied.
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        screen.print(line.rstrip(), soft_wrap=True)
    scratch = directory.scratch
    left = sorted(path.name for path in scratch.iterdir() if path.is_dir()) if scratch.is_dir() else []
    unfinished = [name for name in left if name not in set(ended)]
    for name in unfinished:
        screen.print(f"{plain_line(name)} · not finished, or not yet graded", soft_wrap=True)
    screen.print(f"{len(heads)} trials have ended · inspect one with {directory.trials}/ID", soft_wrap=True)


def _cells(head: OutcomeFile) -> tuple[str, ...]:
    outcome, seconds = head.outcome, f"{head.seconds.total:.1f}"
    unrewarded = "masked" if outcome.row.is_masked else "ungraded"
    reward = unrewarded if outcome.reward is None else str(outcome.reward)
    return head.spec.id, plain_line(head.spec.task.name), outcome.ended.value, reward, str(head.tries), seconds
