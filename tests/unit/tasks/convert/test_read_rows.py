"""Rows as they lie on disks: every kind of file, row by row, with the place of each, in bounded memory."""

import json
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lego_rl.errors import TaskError
from lego_rl.tasks.convert.read_rows import MAX_ROW_BYTES, Unread, count_rows, files_of, read_rows

ROWS: list[dict[str, object]] = [{"instance_id": f"a-{number}", "tests": ["x", "é\n"]} for number in range(50)]


def write_jsonl(path: Path) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n\n" for row in ROWS))


def write_json(path: Path) -> None:
    path.write_text(json.dumps(ROWS, indent=2))


def write_parquet(path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=7)


def write_arrow(path: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=20)


def write_arrow_file(path: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=20)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("rows.jsonl", write_jsonl),
        ("rows.json", write_json),
        ("rows.parquet", write_parquet),
        ("rows.arrow", write_arrow),
        ("other.arrow", write_arrow_file),
    ],
)
def test_every_kind_of_file(tmp_path: Path, name: str, write: object) -> None:
    assert callable(write)
    write(tmp_path / name)
    found = list(read_rows([tmp_path / name]))
    assert [one.row for one in found] == ROWS
    assert found[0].place == f"{tmp_path / name}:1" and found[-1].place.endswith(":50")
    assert count_rows([tmp_path / name]) in (50, None)
    assert list(read_rows([tmp_path])) == found


def test_what_datasets_saved_to_disk(tmp_path: Path) -> None:
    split = tmp_path / "train"
    split.mkdir()
    write_arrow(split / "data-00000-of-00001.arrow")
    write_arrow(split / "cache-0123.arrow")
    (split / "dataset_info.json").write_text("{}")
    (split / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    assert len(list(read_rows([split]))) == 50
    (split / "state.json").write_text(json.dumps({"_data_files": [{"filename": "../../x.arrow"}]}))
    with pytest.raises(TaskError, match="lacks its file"):
        files_of(split)


def test_what_a_hub_gives(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / ".cache").mkdir()
    write_parquet(tmp_path / "data" / "test-00000-of-00001.parquet")
    write_jsonl(tmp_path / ".cache" / "x.jsonl")
    (tmp_path / "README.md").write_text("x")
    (tmp_path / "dataset_infos.json").write_text("{}")
    assert [path.name for path in files_of(tmp_path)] == ["test-00000-of-00001.parquet"]
    assert count_rows([tmp_path]) == 50


def test_a_row_that_cannot_be_read_is_one_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": \n[1]\n\xff\n' + b"[" * 100_000 + b'\n{"a": 2}')
    found = [one.row for one in read_rows([path])]
    assert [isinstance(row, Unread) for row in found] == [False, True, True, True, True, False]
    assert "no JSON object" in str(found[2])


def test_a_row_without_end_is_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_ROW_BYTES > 1 << 20
    monkeypatch.setattr("lego_rl.tasks.convert.read_rows.MAX_ROW_BYTES", 1000)
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"a": "{"x" * 5000}"}}\n{{"a": 2}}\n')
    long, short = (one.row for one in read_rows([path]))
    assert isinstance(long, Unread) and short == {"a": 2}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.json", b'{"rows": []}', "is no JSON array"),
        ("x.json", b'[{"a": 1}', "ends in the middle"),
        ("x.json", b'[{"a": 1}, {"a": ]', "is damaged"),
        ("x.json", b"[" * 100_000, "is damaged"),
        ("x.json", b"\xff", "cannot be read"),
        ("x.parquet", b"PAR1", "is no Parquet file"),
        ("x.arrow", b"nothing", "cannot be read"),
        ("x.csv", b"a,b", "of no kind that is known"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TaskError, match=said):
        list(read_rows([tmp_path / name]))


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="there is no file or folder"):
        list(read_rows([tmp_path / "x.jsonl"]))
    with pytest.raises(TaskError, match="holds no rows"):
        list(read_rows([tmp_path]))


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_a_large_file_is_not_in_memory(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    row = json.dumps({"text": "x" * 50_000})
    with path.open("w") as stream:
        stream.write("[" if suffix == ".json" else "")
        for number in range(800):
            stream.write(f"{',' if number and suffix == '.json' else ''}{row}\n")
        stream.write("]" if suffix == ".json" else "")
    assert path.stat().st_size > 40_000_000
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_rows([path])) == 800
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
