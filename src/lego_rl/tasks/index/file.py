"""An index as a file, and in memory.

Invariants: the same tasks give the same bytes, wherever they lie: paths are written relative to the folder of the
index, so that an index moves with its pool. No id stands twice. A file is whole or not there.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lego_rl.durable import sync_folder
from lego_rl.errors import TaskError
from lego_rl.tasks.index.schema import SCHEMA, VERSION, VERSION_KEY, IndexRow, table_of

_MAKE = "make one with: lego-rl tasks index DIR --out FILE"


@dataclass(frozen=True)
class Index:
    """An index in memory.

    Attributes:
        table: Of `SCHEMA`; paths of task directories are absolute.
    """

    table: Any

    @classmethod
    def of(cls, rows: list[IndexRow]) -> Self:
        """An index of rows, in the order of their ids.

        Raises:
            TaskError: Two rows have one id; the message names both directories.
        """
        ordered = sorted(rows, key=lambda row: row.instance_id)
        for one, other in pairwise(ordered):
            if one.instance_id == other.instance_id:
                raise TaskError(
                    f"{one.path} and {other.path} are both the task {one.instance_id}", "leave one of them out"
                )
        return cls(table_of(ordered))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read an index.

        Raises:
            TaskError: There is none, it is no index, of another version, or has an id twice.
        """
        return cls(_absolute(_read(path), path.resolve().parent))

    def write(self, path: Path) -> None:
        """Write it, whole or not at all.

        Raises:
            TaskError: It cannot be written.
        """
        write_table(_relative(self.table, path.resolve().parent), path)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def ids(self) -> list[str]:
        """``[tasks]`` ids, in order."""
        return self.info("instance_id")

    @property
    def paths(self) -> list[Path]:
        """``[tasks]`` task directories."""
        return list(map(Path, self.info("harbor_task_path")))

    def info(self, name: str) -> list[Any]:
        """``[tasks]`` one field of ``extra_info``."""
        found: list[Any] = pc.struct_field(self.table["extra_info"], name).to_pylist()
        return found

    def column(self, name: str) -> Any:
        """``[tasks]`` a column, as one array."""
        return self.table[name].combine_chunks()

    def take(self, keep: npt.NDArray[np.bool_]) -> "Index":
        """The tasks that `keep` says, in order, numbered anew."""
        return Index(numbered(self.table.filter(pa.array(keep))))

    def row(self, place: int) -> Mapping[str, Any]:
        """One row, as Python objects."""
        found: Mapping[str, Any] = self.table.slice(place, 1).to_pylist()[0]
        return found


def check_names(paths: Iterable[Path]) -> None:
    """See that no two task directories have one name: trials are of a task by the name of its directory.

    Raises:
        TaskError: Two have; the message names both.
    """
    seen: dict[str, Path] = {}
    for path in paths:
        other = seen.setdefault(path.name, path)
        if other is not path:
            raise TaskError(
                f"{other} and {path} are both called {path.name}, so that their trials cannot be told apart",
                "rename one of the folders, or leave one out",
            )


def is_index(place: Path) -> bool:
    """Whether a path is named like an index, and not like a folder of tasks."""
    return place.suffix == ".parquet"


def write_table(table: pa.Table, path: Path) -> None:
    """Write a Parquet file of the same bytes for the same table, whole or not at all.

    Raises:
        TaskError: It cannot be written.
    """
    if path.is_dir():
        raise TaskError(f"{path} is a folder", "name a file in it, such as index.parquet")
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as file:
                pq.write_table(table.combine_chunks(), file, compression="zstd", row_group_size=1 << 16)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
            sync_folder(path.parent)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise TaskError(f"cannot write {path}: {error}", "name a file on a disk with space") from error


def read_parquet(path: Path, fix: str) -> pa.Table:
    """Read a Parquet file.

    Args:
        path: The file.
        fix: What to do where it is none.

    Raises:
        TaskError: It cannot be read.
    """
    try:
        return pq.ParquetFile(path).read()
    except (OSError, pa.ArrowException) as error:
        raise TaskError(f"{path} is not a Parquet file that can be read: {error}", fix) from error


def numbered(table: pa.Table) -> pa.Table:
    """The table with ``extra_info.index`` counted anew."""
    return _with_info(table, "index", pa.array(np.arange(table.num_rows)))


def in_split(table: pa.Table, name: str) -> pa.Table:
    """The table with every task in one split."""
    return _with_info(table, "split", pa.array([name] * table.num_rows, pa.string()))


def _read(path: Path) -> pa.Table:
    if not path.is_file():
        raise TaskError(f"there is no index at {path}", _MAKE)
    table = read_parquet(path, _MAKE)
    version = (table.schema.metadata or {}).get(VERSION_KEY)
    if version is None:
        raise TaskError(f"{path} is a Parquet file but no index of tasks", _MAKE)
    if version != str(VERSION).encode():
        raise TaskError(
            f"{path} is an index of version {version.decode(errors='replace')}, this lego-rl reads version {VERSION}",
            "make it anew with: lego-rl tasks index DIR --out FILE",
        )
    for field in SCHEMA:
        at = table.schema.get_field_index(field.name)
        if at < 0 or table.schema.field(at).type != field.type:
            found = "is missing" if at < 0 else f"is {table.schema.field(at).type}, not {field.type}"
            raise TaskError(f"{path} is no whole index: its column {field.name} {found}", _MAKE)
    table = table.select(SCHEMA.names).cast(SCHEMA)
    _check_ids(table, path)
    return table


def _check_ids(table: pa.Table, path: Path) -> None:
    ids = pc.struct_field(table["extra_info"], "instance_id").combine_chunks()
    places = pc.struct_field(table["extra_info"], "harbor_task_path")
    if ids.null_count or places.null_count:
        raise TaskError(f"{path} has a row without an instance_id or a harbor_task_path", _MAKE)
    counts = pc.value_counts(ids)
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(twice):
        name = twice.field("values")[0].as_py()
        raise TaskError(f"{path} has the task {name} twice", "make it anew, or merge again without one of the two")


def _with_info(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    info = table["extra_info"].combine_chunks()
    kinds = info.type
    fields = [values if kinds[at].name == name else info.field(at) for at in range(kinds.num_fields)]
    names = [kinds[at].name for at in range(kinds.num_fields)]
    at = table.schema.get_field_index("extra_info")
    changed = pa.StructArray.from_arrays(fields, names=names).cast(kinds)
    return table.set_column(at, table.schema.field(at), changed)


def _absolute(table: pa.Table, folder: Path) -> pa.Table:
    paths = pc.struct_field(table["extra_info"], "harbor_task_path").to_pylist()
    return _with_info(table, "harbor_task_path", pa.array([_joined(folder, path) for path in paths], pa.string()))


def _relative(table: pa.Table, folder: Path) -> pa.Table:
    paths = pc.struct_field(table["extra_info"], "harbor_task_path").to_pylist()
    parents = {parent: os.path.relpath(parent, folder) for parent in {os.path.dirname(path) for path in paths}}  # noqa: PTH120
    placed = [os.path.normpath(f"{parents[os.path.dirname(path)]}/{os.path.basename(path)}") for path in paths]  # noqa: PTH119, PTH120
    return _with_info(table, "harbor_task_path", pa.array(placed, pa.string()))


def _joined(folder: Path, path: str) -> str:
    return os.path.normpath(f"{folder}/{path}") if not path.startswith("/") else path
