"""A change as files of a work tree: what is written where somebody works, or grades, on top of it."""

from collections.abc import Iterator, Sequence

from lego_rl.sandbox.records import Record
from lego_rl.sandbox.verdict import Change


def records_of(changes: Sequence[Change]) -> Iterator[Record]:
    """The files of a change; first what it deletes, for a file may stand where a folder was."""
    for change in sorted(changes, key=lambda change: change.kind != "deleted"):
        yield Record(change.path, change.kind, change.content, 0o755 if change.executable else 0o644)
