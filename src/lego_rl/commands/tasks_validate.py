"""``lego-rl tasks validate``: whether the tests of tasks fail without the fix and pass with it, every time."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rich.table import Table

from lego_rl.commands import interrupts
from lego_rl.commands.check import sandbox_settings
from lego_rl.commands.kept_apart import keep_apart
from lego_rl.commands.live_line import LiveLine
from lego_rl.commands.named_tasks import check_indexes, named_tasks
from lego_rl.commands.screen import Screen
from lego_rl.errors import TaskError
from lego_rl.plain_text import plain_line
from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.task_grader import SandboxedGrader
from lego_rl.tasks.content import directory_digest
from lego_rl.tasks.index.build import set_name, task_folders
from lego_rl.tasks.index.file import Index, is_index
from lego_rl.tasks.index.schema import IndexRow
from lego_rl.tasks.index.task_row import index_row
from lego_rl.tasks.validate.journal import Validations, locked
from lego_rl.tasks.validate.judge import MEANINGS, Validation
from lego_rl.tasks.validate.run import Validator

JOURNAL = "validation.jsonl"
"""Its name in a pool."""


def validate(
    folders: Sequence[Path],
    *,
    times: int,
    at_once: int,
    record: bool,
    journal: Path | None,
    out: Path | None,
    environment: str,
    overrides: Sequence[str],
) -> None:
    """Judge the tasks of some pools, or single ones, and print what was found.

    Args:
        folders: Index files, pools, or task directories.
        times: How often each task is graded without a change and with its solution.
        at_once: Tasks at a time.
        record: Find out which tests decide, for tasks that do not say.
        journal: Where findings are kept; beside the tasks where unset.
        out: Where the index of the valid ones is written.
        environment: How sandboxes are isolated.
        overrides: ``sandbox.key=value`` strings.

    Raises:
        ConfigError: A key of the sandbox is wrong, or what is written would be a part of what is read.
        TaskError: There is no task, an index is older than its tasks, another process validates into the same file, of
            a task nothing could be found out, or, without `out`, one is not valid.
        SandboxError: Tests cannot be run here.
        KeyboardInterrupt: Somebody asked for the end; the same command goes on from there.
    """
    kept = journal or _beside(folders[0])
    keep_apart(folders, {"--journal": kept, "--out": out})
    settings = sandbox_settings(environment, overrides)
    provider = provider_of(settings)
    provider.check()
    provider.reap()
    tasks = named_tasks(folders)
    with locked(kept), LiveLine() as line:
        known = Validations(kept)
        check_indexes(folders, indexed_contents(tasks, known) if any(map(is_index, folders)) else {})
        validator = Validator(SandboxedGrader(provider, settings), known, times, at_once, record)
        found = interrupts.run(validator.validate(tasks, _Watcher(line)))
    screen = Screen()
    for each in lines(found):
        screen.print(each, soft_wrap=True)
    screen.print(table(found))
    wrong = sum(each.judgement != "valid" for each in found)
    screen.print(f"{len(found) - wrong} of {len(found)} tasks are valid, {times} times each; findings in {kept}")
    if out is not None:
        valid = valid_index(folders, {each.task for each in found if each.judgement == "valid"})
        valid.write(out)
        screen.print(f"{len(valid)} tasks in {out}, {wrong} left out")
    check_found(found, left_out=out is not None)


def indexed_contents(tasks: Sequence[Path], known: Validations) -> dict[Path, str]:
    """What task directories hold, but for tests that were recorded: an index is not older than its tasks for what
    validation itself wrote into them, and no task is compared that cannot be read."""
    found: dict[Path, str] = {}
    for path in tasks:
        with suppress(OSError):  # what is wrong with it is found out, and said, when it is its turn
            found[path] = known.recorded_over(path.name, directory_digest(path))
    return found


def check_found(found: Sequence[Validation], *, left_out: bool) -> None:
    """Whether nothing is left for somebody to do.

    Args:
        found: Of every task.
        left_out: Whether those that are not valid are on no index that was written.

    Raises:
        TaskError: Of a task nothing is known, or one is not valid and is not left out.
    """
    faults = sum(each.judgement == "fault" for each in found)
    if faults:
        raise TaskError(
            f"of {faults} of {len(found)} tasks nothing is known: what they need could not be had",
            "mend what the lines above name, then run the same command again",
        )
    wrong = sum(each.judgement != "valid" for each in found)
    if wrong and not left_out:
        raise TaskError(
            f"{wrong} of {len(found)} tasks are not valid", "leave them out with --out FILE; the lines above say why"
        )


def lines(found: Sequence[Validation]) -> Iterator[str]:
    """A line for every task of which there is more to say than its verdict."""
    for each in found:
        if each.judgement != "valid":
            yield plain_line(f"{each.task}: {each.judgement}: {each.reason}")
        elif each.flaky:
            yield plain_line(f"{each.task}: flaky tests, on no list: {', '.join(each.flaky)}")


class _Watcher:
    def __init__(self, line: LiveLine) -> None:
        self._line = line

    def found(self, validation: Validation, done: int, total: int) -> None:
        """See `lego_rl.tasks.validate.run.Watcher`."""
        self._line.show(f"validated {done} of {total} tasks; last {validation.task}: {validation.judgement}")


def table(found: Sequence[Validation]) -> Table:
    """Tasks by what was found."""
    counts = Counter(each.judgement for each in found)
    shown = Table("verdict", "tasks", "what it means", box=None, pad_edge=False)
    for judgement, meaning in MEANINGS.items():
        if counts[judgement]:
            shown.add_row(judgement, str(counts[judgement]), meaning)
    return shown


def valid_index(places: Sequence[Path], valid: Collection[str]) -> Index:
    """The index of the tasks that were found valid, as they are now: of those, nothing is left to be measured.

    Invariant: what an index says in a task's place, its split and its set, is said of it from then on.

    Args:
        places: Index files, pools, or task directories.
        valid: Names of their directories.
    """
    rows: list[IndexRow] = []
    for place in places:
        if is_index(place):
            index = Index.read(place)
            said = zip(index.paths, index.column("data_source").to_pylist(), index.info("split"), strict=True)
            rows += [
                replace(index_row(path, source), data_source=source, split=split)
                for path, source, split in said
                if path.name in valid
            ]
        else:
            source = set_name(place)
            rows += [index_row(path.resolve(), source) for path in task_folders(place) if path.name in valid]
    return Index.of([replace(row, unmeasured=()) for row in rows])


def _beside(folder: Path) -> Path:
    alone = folder.is_file() or (folder / "task.toml").is_file()
    return (folder.parent if alone else folder) / JOURNAL
