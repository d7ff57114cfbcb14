"""What rows of every format have in common: typed fields, read leniently where formats differ and strictly else.

Invariant: a row that cannot become a task is refused with a `RowError`, which says what is wrong in words for a person.
What a row says is data: a name of it becomes a path only through `lego_rl.tasks.directory`, a text of it becomes part
of a command only quoted, and a command of it runs nowhere but in a grading sandbox.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from lego_rl.documents import DocumentError, read_json
from lego_rl.errors import TaskError
from lego_rl.tasks.convert.diff_tests import touched
from lego_rl.tasks.decontaminate.names import id_readings
from lego_rl.tasks.provenance import Provenance, Unmeasured, pull_request_at
from lego_rl.tasks.unified_diff import DiffError, FileDiff, read_diff

type RawRow = Mapping[str, object]
"""A row as its file has it."""

MAX_INSTRUCTION = 1 << 20
"""Characters of an issue."""
_MILLISECONDS = 100_000_000_000
"""From here on a number is of milliseconds: as seconds it would be of the year 5138, as milliseconds it is of 1973."""


class RowError(ValueError):
    """A row that cannot become a task; the message says why."""


def _names(value: object) -> object:
    """A list of test ids: as a list, or as the JSON text of one."""
    if isinstance(value, str):
        try:
            return read_json(value) if value.strip() else []
        except DocumentError as error:
            raise ValueError(f"it is neither a list nor the JSON text of one: {error}") from error
    return [] if value is None else value


def _time(value: object) -> object:
    """A time in ISO 8601: as text or as tables have it, or as a number since 1970: the milliseconds
    that SWE-rebench V2 has, or seconds."""
    if isinstance(value, date):  # or a time of one
        return value.isoformat()
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return datetime.fromtimestamp(value if abs(value) < _MILLISECONDS else value / 1000, UTC).isoformat()
        except (OverflowError, ValueError, OSError) as error:
            raise ValueError(f"it is no time: {error}") from error
    return "" if value is None else value


def _text(value: object) -> object:
    return "" if value is None else value


def as_object(value: object) -> object:
    """An object: as one, or as its JSON text."""
    try:
        return read_json(value) if isinstance(value, str) else value
    except DocumentError as error:
        raise ValueError(f"it is no JSON text: {error}") from error


def _names_if_any(value: object) -> object:
    """The same, where what is not there is not an empty list."""
    return None if value is None else _names(value)


type Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_names)]
type NamesIfAny = Annotated[tuple[Word, ...] | None, BeforeValidator(_names_if_any)]
type Time = Annotated[str, BeforeValidator(_time)]
type OptionalText = Annotated[str, BeforeValidator(_text)]
type Word = Annotated[str, Field(min_length=1)]
_NAME = "[._-]*[A-Za-z0-9][A-Za-z0-9._-]*"  # with a letter or digit: ``..`` is a way, and no name
type Repository = Annotated[str, Field(pattern=f"^{_NAME}/{_NAME}$")]
type CommitId = Annotated[str, Field(pattern="^[0-9a-f]{40}$")]
type ImageName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._/:@-]{0,254}$")]


class Fields(BaseModel):
    """Fields of a row; those that are not named are left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @classmethod
    def read(cls, row: RawRow) -> Self:
        """The fields of a row.

        Raises:
            RowError: One is missing or is not what it should be; the message names it.
        """
        try:
            return cls.model_validate(row)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the row"
            raise RowError(f"{place}: {first['msg']}") from error


class SweRow(Fields):
    """The fields that most formats share."""

    instance_id: Word
    repo: Repository
    base_commit: CommitId
    patch: Word
    test_patch: Word
    problem_statement: Word
    created_at: Time = ""
    version: OptionalText = ""
    fail_to_pass: Names = Field(default=(), alias="FAIL_TO_PASS")
    pass_to_pass: NamesIfAny = Field(default=None, alias="PASS_TO_PASS")

    def own_paths(self) -> tuple[str, ...]:
        """What both of its patches make, change or delete.

        Raises:
            RowError: One of them cannot be used.
        """
        return (*touched(diff_of(self.patch, "patch")), *touched(diff_of(self.test_patch, "test_patch")))


def listed(
    fail_to_pass: tuple[str, ...], pass_to_pass: tuple[str, ...] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Both lists, each test once.

    Raises:
        RowError: A list is not there, no test is to pass that failed, or one is on both sides.
    """
    if pass_to_pass is None:
        raise RowError("it has no PASS_TO_PASS: what has to keep passing is unknown, which is not nothing")
    before, after = tuple(dict.fromkeys(fail_to_pass)), tuple(dict.fromkeys(pass_to_pass))
    if not before:
        raise RowError("FAIL_TO_PASS is empty: nothing would tell a fix from none")
    if both := set(before) & set(after):
        raise RowError(f"{min(both)!r} is in FAIL_TO_PASS and in PASS_TO_PASS")
    return before, after


def diff_of(text: str, what: Literal["patch", "test_patch"]) -> tuple[FileDiff, ...]:
    """The files of a diff of a row.

    Raises:
        RowError: It cannot be used; the message says why.
    """
    try:
        return read_diff(text.encode())
    except (DiffError, UnicodeEncodeError) as error:
        raise RowError(f"its {what} {error}") from error


def with_end(diff: str) -> bytes:
    """A diff as a file: with a line feed at its end, which some rows have lost."""
    return (diff if diff.endswith("\n") else f"{diff}\n").encode()


def instruction(text: str) -> str:
    """An issue as it is shown: with the line ends of a text file, and one at its end.

    Raises:
        RowError: It is empty, or no text of a bearable length.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    if not lines.strip() or len(lines) > MAX_INSTRUCTION:
        raise RowError(f"its issue has {len(lines)} characters")
    if "\0" in lines:
        raise RowError("its issue is no text: it holds a null character")
    return f"{lines}\n"


def digest(content: bytes) -> str:
    """SHA-256."""
    return hashlib.sha256(content).hexdigest()


def row_digest(row: RawRow) -> str:
    """What tells a row from every other of its format: of its JSON, compact and with sorted keys."""
    text = json.dumps(row, sort_keys=True, separators=(",", ":"), default=str)
    return digest(text.encode(errors="surrogatepass"))


def provenance(
    form: str,
    row: RawRow,
    fields: SweRow,
    *,
    image: str,
    data_source: str = "",
    licence: str = "",
    unmeasured: tuple[Unmeasured, ...] = ("image", "tests"),
) -> Provenance:
    """Where a task of a row comes from."""
    return Provenance(
        format=form,
        instance_id=fields.instance_id,
        data_source=data_source,
        repo=fields.repo,
        base_commit=fields.base_commit,
        pull_request=pull_request_of(row, fields.instance_id),
        created_at=fields.created_at,
        licence=licence,
        image=image,
        row_sha256=row_digest(row),
        unmeasured=unmeasured,
    )


def pull_request_of(row: RawRow, instance: str) -> int | None:
    """The number of the pull request that a row is made of: its ``meta.pr_url`` says it, or its id, if it says one."""
    meta = row.get("meta")
    address = meta.get("pr_url") if isinstance(meta, Mapping) else None
    said = pull_request_at(address) if isinstance(address, str) else None
    numbers = {name.number for name in id_readings(instance)}
    return said or (numbers.pop() if len(numbers) == 1 else None) or None


def image_named(name: str) -> str:
    """A container image as a row names it.

    Raises:
        RowError: It is none.
    """
    if re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9._/:@-]{0,254}", name) is None:
        raise RowError(f"{name[:200]!r} names no container image")
    return name


def refused(error: TaskError) -> RowError:
    """A fault of the directory that a row would become, as one of the row."""
    return RowError(error.problem)
