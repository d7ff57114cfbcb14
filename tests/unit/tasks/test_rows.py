"""Rows as they lie on disks: every kind of file, row by row, with the place of each, in bounded memory."""

import json
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lego_rl.errors import TaskError
from lego_rl.tasks.rows.files import files_of
from lego_rl.tasks.rows.read import count_rows, read_rows
from lego_rl.tasks.rows.row import MAX_DEPTH, MAX_ROW_BYTES, Unread

ROWS: list[dict[str, object]] = [{"instance_id": f"a-{number}", "tests": ["x", "é\n"]} for number in range(50)]


def write_jsonl(path: Path) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n\n" for row in ROWS))


def write_json(path: Path) -> None:
    path.write_text(json.dumps(ROWS, indent=2))


def write_one_line(path: Path) -> None:
    path.write_text(json.dumps(ROWS))


def write_marked(path: Path) -> None:
    path.write_text(json.dumps(ROWS), encoding="utf-8-sig")


def write_marked_lines(path: Path) -> None:
    path.write_text("".join(f"{json.dumps(row)}\r\n" for row in ROWS), encoding="utf-8-sig")


def write_object(path: Path) -> None:
    path.write_text(json.dumps({"source": "}]", "n": [1, {}], "rows": ROWS, "more": {"rows": []}}, indent=1))


def write_instances(path: Path) -> None:
    path.write_text(json.dumps({"instances": ROWS}))


def write_arrays(path: Path) -> None:
    path.write_text(f"{json.dumps(ROWS[:20])}\n{json.dumps(ROWS[20:])}\n")


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
        ("rows.JSONL", write_jsonl),
        ("rows.ndjson", write_jsonl),
        ("lines.json", write_jsonl),
        ("array.jsonl", write_json),
        ("rows.json", write_json),
        ("line.json", write_one_line),
        ("marked.json", write_marked),
        ("marked.jsonl", write_marked_lines),
        ("lines.json", write_marked_lines),
        ("object.json", write_object),
        ("object.jsonl", write_object),
        ("instances.Json", write_instances),
        ("arrays.json", write_arrays),
        ("rows.parquet", write_parquet),
        ("rows.Parquet", write_parquet),
        ("rows.arrow", write_arrow),
        ("other.arrow", write_arrow_file),
    ],
)
def test_every_kind_of_file(tmp_path: Path, name: str, write: object) -> None:
    assert callable(write)
    write(tmp_path / name)
    found = list(read_rows([tmp_path / name]))
    assert [one.row for one in found] == ROWS
    last = 99 if write is write_jsonl else 50  # with blank lines between
    assert found[0].place == f"{tmp_path / name}:1" and found[-1].place.endswith(f":{last}")
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


DAMAGED = [
    b'{"instance_id": "bad-1", "a": }',
    b"\xff",
    b"[" * 500 + b"]" * 500,
    b'{"instance_id": "bad-2", "a": "\xff"}',
]


def test_a_row_that_cannot_be_read_is_one_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": \n[1]\n' + b"\n".join([*DAMAGED, b"[" * 100_000, b'{"a": 2}']))
    found = [one.row for one in read_rows([path])]
    assert found[0] == {"a": 1} and found[2] == [1] and found[-1] == {"a": 2} and len(found) == 9
    assert [row.instance for row in found if isinstance(row, Unread)] == ["", "bad-1", "", "", "bad-2", ""]


@pytest.mark.parametrize("around", [(b"[", b"]"), (b'{"x": "[", "rows": [', b'], "y": 1}')])
def test_a_value_of_an_array_that_cannot_be_read_is_one_row(tmp_path: Path, around: tuple[bytes, bytes]) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(around[0] + b",\n".join([b'{"a": "]}\\""}', *DAMAGED, b"1", b'{"a": 2}']) + around[1])
    found = [one.row for one in read_rows([path])]
    assert found[0] == {"a": ']}"'} and found[-2:] == [1, {"a": 2}] and len(found) == 7
    assert [row.instance for row in found if isinstance(row, Unread)] == ["bad-1", "", "", "bad-2"]


@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1, 900])
@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_a_row_is_nested_only_so_deep_that_it_can_be_handed_on(tmp_path: Path, depth: int, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    nested = f'{{"instance_id": "deep", "a": {"[" * (depth - 1)}{"]" * (depth - 1)}}}'
    path.write_text(f'{nested}\n{{"a": 2}}' if suffix == ".jsonl" else f'[{nested}, {{"a": 2}}]')
    deep, flat = (one.row for one in read_rows([path]))
    assert isinstance(deep, Unread) == (depth > MAX_DEPTH) and flat == {"a": 2}
    assert depth <= MAX_DEPTH or deep == Unread(f"it is nested more than {MAX_DEPTH} deep", "deep")


def test_a_single_object_is_a_row(tmp_path: Path) -> None:
    for name, text in (("x.json", json.dumps(ROWS[0], indent=2)), ("x.jsonl", json.dumps(ROWS[0]))):
        (tmp_path / name).write_text(text)
        assert [one.row for one in read_rows([tmp_path / name])] == ROWS[:1]


def test_lines_and_arrays_of_ids_are_told_apart(tmp_path: Path) -> None:
    for name, text, rows in (
        ("a.json", '["a", "b"]', ["a", "b"]),
        ("b.json", '[["a", "b"]]', [["a", "b"]]),
        ("c.json", '["a", "b"]\n["c", "d"]\n', [["a", "b"], ["c", "d"]]),
        ("d.jsonl", '"a"\n"b"\n', ["a", "b"]),
        ("e.json", '[\n"a",\n"b"\n]\n', ["a", "b"]),
        ("f.json", " \n", []),
    ):
        (tmp_path / name).write_text(text)
        assert [one.row for one in read_rows([tmp_path / name])] == rows, name


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_a_row_without_end_is_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    assert MAX_ROW_BYTES > 1 << 20
    monkeypatch.setattr("lego_rl.tasks.rows.row.MAX_ROW_BYTES", 1000)
    monkeypatch.setattr("lego_rl.tasks.rows.json_values._PIECE", 64)
    path = tmp_path / f"rows{suffix}"
    rows = [f'{{"a": "{"x" * 5000}", "b": [{{}}]}}', '{"a": 2}']
    path.write_text("\n".join(rows) if suffix == ".jsonl" else f"[{', '.join(rows)}]")
    long, short = (one.row for one in read_rows([path]))
    assert isinstance(long, Unread) and short == {"a": 2}


@pytest.mark.parametrize("piece", [1, 2, 3, 7])
def test_a_text_may_be_cut_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr("lego_rl.tasks.rows.json_values._PIECE", piece)
    rows = [{"a\\": 'x"\\\\"', "b": ["\\", "]}", {"c": [1.5, None, True, -1e9]}]}, "x\\", 12, None, {"é": "\n"}]
    for text in (json.dumps(rows), json.dumps({"é": rows[0], "rows": rows}, ensure_ascii=False, indent=1)):
        (tmp_path / "x.json").write_text(text)
        assert [one.row for one in read_rows([tmp_path / "x.json"])] == rows


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.json", b'[{"a": 1}', "ends at byte 9, where a value has to be"),
        ("x.json", b'[{"a": 1}, {"a": ]', "is damaged at byte 18, where ']' closes what it did not open"),
        ("x.json", b'[{"a": 1}, {"a": "x}]', "ends at byte 21, in the middle of a string"),
        ("x.json", b'[{"a": 1}] x', "is damaged at byte 11"),
        ("x.json", b'{"rows": [{"a": 1}, }', "is damaged at byte 20, where a value has to be"),
        ("x.json", b'{"rows": [{"a": 1}], x', "is damaged"),
        ("x.json", b"[" * 100_000, "ends at byte 100000, in the middle of a value"),
        ("x.json", b"\xff", "holds no JSON"),
        ("x.json", b"instance_id,repo\n", "holds no JSON"),
        ("x.jsonl", b"\xff\xfe{\0}\0", "is UTF-16"),
        ("x.jsonl", b"\x1f\x8b\x08", "is compressed"),
        ("x.parquet", b"PAR1", "is no Parquet file"),
        ("x.arrow", b"nothing", "cannot be read"),
        ("x.csv", b"a,b", "of no kind that is known"),
    ],
)
def test_a_damaged_file_is_named_after_its_rows_were_read(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    found: list[object] = []
    with pytest.raises(TaskError, match=said):
        found.extend(one.row for one in read_rows([tmp_path / name]))
    assert found == ([{"a": 1}] if b'{"a": 1}' in content else [])


def test_a_value_of_a_table_that_cannot_be_read_is_one_row(tmp_path: Path) -> None:
    ids = pa.array([f"a-{number}" for number in range(40)])
    times = pa.array([2**62 if number == 7 else 0 for number in range(40)], pa.int64()).view(pa.timestamp("us"))
    notes = pa.array([b"\xff" if number == 20 else b"x" for number in range(40)], pa.binary()).view(pa.string())
    table = pa.table({"instance_id": ids, "created_at": times, "hints_text": notes})
    pq.write_table(table, tmp_path / "rows.parquet")
    with pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    for name in ("rows.parquet", "rows.arrow"):
        rows = [one.row for one in read_rows([tmp_path / name])]
        wrong = {number: row for number, row in enumerate(rows) if isinstance(row, Unread)}
        assert {number: row.instance for number, row in wrong.items()} == {7: "a-7", 20: "a-20"}
        assert "its created_at cannot be read" in wrong[7].reason and "its hints_text cannot" in wrong[20].reason
        assert [row["instance_id"] for row in rows if isinstance(row, dict)] == [
            f"a-{number}" for number in range(40) if number not in (7, 20)
        ]


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="there is no file or folder"):
        list(read_rows([tmp_path / "x.jsonl"]))
    with pytest.raises(TaskError, match="holds no rows"):
        list(read_rows([tmp_path]))


@pytest.mark.parametrize(
    ("before", "between", "after"), [("", "\n", "\n"), ("[", ",\n", "]"), ("[", ", ", "]"), ('{"rows": [', ", ", "]}")]
)
def test_a_large_file_is_not_in_memory(tmp_path: Path, before: str, between: str, after: str) -> None:
    path = tmp_path / "rows.json"
    row = json.dumps({"text": "x" * 50_000})
    with path.open("w") as stream:
        for number in range(800):
            stream.write(f"{between if number else before}{row}")
        stream.write(after)
    assert path.stat().st_size > 40_000_000
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_rows([path])) == 800
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
