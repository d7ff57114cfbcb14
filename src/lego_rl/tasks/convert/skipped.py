"""The list of rows that became no task, beside the tasks of all conversions into a folder.

Invariant: what one conversion found stays until the same rows are read again in the same format, however the next one
ends: a conversion rewrites the lines of the rows that it looked at, and when it is through with a file, all of that
file's.
"""

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from lego_rl.durable import write_text
from lego_rl.errors import TaskError

SKIPPED = "skipped.jsonl"
"""Beside the tasks: format, place, id and reason of every row that became none."""


@dataclass(frozen=True)
class Skipped:
    """A row that became no task.

    Attributes:
        place: Its file and number.
        instance: Its id, as far as it has one.
        reason: Why.
    """

    place: str
    instance: str
    reason: str


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True)

    format: str
    place: str
    """With the whole path of its file."""
    instance: str
    reason: str

    @property
    def file(self) -> str:
        return _file_of(self.place)


class SkippedFile:
    """The list during one conversion; it is written when that ends, in whatever way.

    Args:
        out: Folder of the task directories.
        form: Name of the format.

    Raises:
        TaskError: A folder is in its place.
        OSError: It cannot be read.
    """

    def __init__(self, out: Path, form: str) -> None:
        self._path = out / SKIPPED
        self._form = form
        self._before = _lines_of(self._path)
        self._seen: set[str] = set()
        self._new: list[_Line] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        files = {_file_of(place) for place in self._seen}
        kept = [
            line
            for line in self._before
            if line.format != self._form
            or line.file not in files
            or (kind is not None and line.place not in self._seen)
        ]
        if lines := [*kept, *self._new]:
            write_text(self._path, "".join(f"{line.model_dump_json()}\n" for line in lines))
        else:
            self._path.unlink(missing_ok=True)

    def note(self, place: str, skipped: Skipped | None) -> None:
        """A row was looked at.

        Args:
            place: Its file and number.
            skipped: What is listed of it; ``None`` where it is a task.
        """
        whole = _printable(str(Path(place).absolute()))
        self._seen.add(whole)
        if skipped is not None:
            instance, reason = _printable(skipped.instance), _printable(skipped.reason)
            self._new.append(_Line(format=self._form, place=whole, instance=instance, reason=reason))


def _lines_of(path: Path) -> list[_Line]:
    if path.is_dir():
        raise TaskError(f"{path} is a folder, and the list of skipped rows goes there", "remove it")
    lines: list[_Line] = []
    if path.is_file():
        for text in path.read_text(encoding="utf-8", errors="replace").split("\n"):
            try:
                lines.append(_Line.model_validate_json(text))
            except ValidationError:  # nobody's, or half of one
                continue
    return lines


def _file_of(place: str) -> str:
    return place.rpartition(":")[0]


def _printable(text: str) -> str:
    """Without halves of characters, which no file takes."""
    return text.encode(errors="replace").decode()
