"""An index: what is written of task directories, read back, split, merged, and refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.errors import ConfigError, TaskError
from lego_rl.tasks.build import write_task
from lego_rl.tasks.generate import generate
from lego_rl.tasks.index.build import build_index
from lego_rl.tasks.index.file import Index, in_split
from lego_rl.tasks.index.ops import Unit, merge, split, stats
from lego_rl.tasks.index.schema import SCHEMA, VERSION_KEY, IndexRow

CONFIG = """schema_version = "1.4"

[metadata.source]
format = "swe-bench"
instance_id = "sympy__sympy-20212"
data_source = "made"
repo = "sympy/sympy"
base_commit = "{base}"
pull_request = 20212
created_at = 2020-10-06T11:34:13Z
licence = "BSD-3-Clause"
row_sha256 = "{digest}"
unmeasured = ["image", "lists"]

[environment]
docker_image = "swebench/sweb.eval.x86_64.sympy_1776_sympy-20212:latest"
"""


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    for index in range(3):
        write_task(generate(0, "comparison", index), tmp_path / "pool")
    return tmp_path / "pool"


def harbor_task(folder: Path, **files: str) -> Path:
    """A task of a published set, graded by a script of its own."""
    given_files = {
        "task.toml": 'version = "1.0"\n',
        "instruction.md": "Mend the price of a basket that is empty, which is not zero now.",
        "environment/Dockerfile": "FROM scratch AS tools\nFROM --platform=linux/amd64 swebench/x:1\n",
        "tests/test.sh": "true\n",
        "solution/solve.sh": "cat > fix.patch <<'EOF'\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-price = None\n"
        "+price = 0 if empty else sum(items)\nEOF\n",
    } | files
    for name, text in given_files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def rows(*names: str, repo: str | None = "a/b") -> list[IndexRow]:
    return [IndexRow(name, Path("/pool") / name, "made", repo=repo) for name in names]


def test_a_row_has_what_verl_reads(pool: Path) -> None:
    index, left_out = build_index([pool])
    assert left_out == []
    row = index.row(1)
    name = "comparison-train-001"
    assert row["prompt"] == [{"role": "user", "content": f"Lego-RL task {name}"}]
    assert row["data_source"] == "pool"
    assert row["ability"] == "software-engineering"
    assert row["reward_model"] == {"style": "lego-rl", "ground_truth": name}
    assert row["extra_info"] == {
        "index": 1,
        "split": "train",
        "instance_id": name,
        "data_source": "pool",
        "harbor_task_path": str(pool / name),
    }
    assert row["family"] == "comparison"
    assert row["repo"] is None
    assert len(row["issue_digest"]) == 64


def test_a_task_says_where_it_comes_from(tmp_path: Path) -> None:
    text = CONFIG.format(base="a106f4782a9dbe7f8fd16030f15401d977e03ae9", digest="0" * 64)
    harbor_task(tmp_path / "set" / "one", **{"task.toml": text})
    row = build_index([tmp_path / "set"])[0].row(0)
    assert {name: row[name] for name in SCHEMA.names[5:11]} == {
        "repo": "sympy/sympy",
        "base_commit": "a106f4782a9dbe7f8fd16030f15401d977e03ae9",
        "pull_request": 20212,
        "created_at": "2020-10-06T11:34:13+00:00",
        "licence": "BSD-3-Clause",
        "image": "swebench/sweb.eval.x86_64.sympy_1776_sympy-20212:latest",
    }
    assert (row["source_format"], row["source_digest"]) == ("swe-bench", "0" * 64)
    assert row["unmeasured"] == ["image", "lists"]
    assert row["extra_info"]["instance_id"] == "sympy__sympy-20212"
    assert row["data_source"] == "made"


def test_a_published_set_of_harbor_has_an_index(tmp_path: Path) -> None:
    adapter_row = {"instance_id": "a__b-7", "repo": "a/b", "base_commit": "0" * 40, "created_at": "2020"}
    harbor_task(tmp_path / "set" / "tasks" / "one", **{"tests/config.json": json.dumps(adapter_row)})
    harbor_task(tmp_path / "set" / "tasks" / "two", **{"tests/config.json": "not a row"})
    index, _ = build_index([tmp_path / "set"], data_source="published")
    assert index.ids == ["a__b-7", "two"]
    one, two = index.row(0), index.row(1)
    assert (one["repo"], one["base_commit"], one["created_at"]) == ("a/b", "0" * 40, "2020")
    assert (two["repo"], two["image"], two["data_source"]) == (None, "swebench/x:1", "published")
    assert one["patch_digest"] == two["patch_digest"] is not None  # out of the here-document of solve.sh


def test_what_a_task_says_first_counts(tmp_path: Path) -> None:
    adapter_row = {"instance_id": "row", "repo": "row/row", "base_commit": "2" * 40, "meta": {"pr_url": "x/pull/7"}}
    one, two = "source = { format = 'x', instance_id = 'said', repo = 'said/said' }", "source = 'a set'\nrepo = 'a/b'"
    for name, said in (("one", one), ("two", two)):
        text = f"[metadata]\nbase_commit = '{'1' * 40}'\n{said}\n"
        harbor_task(tmp_path / name, **{"task.toml": text, "tests/config.json": json.dumps(adapter_row)})
    rows = [build_index([tmp_path / name])[0].row(0) for name in ("one", "two")]
    assert [row["extra_info"]["instance_id"] for row in rows] == ["said", "row"]
    assert [row["repo"] for row in rows] == ["said/said", "a/b"]
    assert [(row["base_commit"], row["pull_request"]) for row in rows] == [("1" * 40, 7)] * 2


def test_the_same_pool_gives_the_same_bytes_wherever_it_lies(pool: Path, tmp_path: Path) -> None:
    build_index([pool])[0].write(tmp_path / "index.parquet")
    (tmp_path / "moved").mkdir()
    shutil.copytree(pool, tmp_path / "moved" / "pool")
    build_index([tmp_path / "moved" / "pool"])[0].write(tmp_path / "moved" / "index.parquet")
    assert (tmp_path / "index.parquet").read_bytes() == (tmp_path / "moved" / "index.parquet").read_bytes()
    assert Index.read(tmp_path / "moved" / "index.parquet").paths[0] == tmp_path / "moved/pool/comparison-train-000"


def test_an_index_elsewhere_still_finds_its_tasks(pool: Path, tmp_path: Path) -> None:
    index = build_index([pool])[0]
    index.write(tmp_path / "far" / "away" / "index.parquet")
    read = Index.read(tmp_path / "far" / "away" / "index.parquet")
    assert read.paths == index.paths
    assert read.table.equals(index.table)
    assert list((tmp_path / "far" / "away").iterdir()) == [tmp_path / "far" / "away" / "index.parquet"]


def test_what_is_taken_is_numbered_anew() -> None:
    index = Index.of(rows("c", "a", "b"))
    assert index.ids == ["a", "b", "c"]
    assert index.info("index") == [0, 1, 2]
    taken = index.take(np.array([False, True, True]))
    assert (taken.ids, taken.info("index")) == (["b", "c"], [0, 1])


def test_a_task_that_cannot_be_used_is_left_out_with_its_reason(pool: Path) -> None:
    (pool / "comparison-train-001" / "instruction.md").unlink()
    index, (left_out,) = build_index([pool])
    assert len(index) == 2
    assert left_out.path == pool / "comparison-train-001"
    assert "instruction.md" in left_out.reason


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ("source = { format = 'x', instance_id = 'y', pull_request = 0 }", "pull_request"),
        ("source = { format = 'x', instance_id = 'y', source_digest = 'z' }", "source_digest"),
        ("source = { format = 'x' }", "instance_id"),
        ("repo = []", "repo"),
    ],
)
def test_provenance_that_is_no_provenance_is_said(metadata: str, reason: str, tmp_path: Path) -> None:
    harbor_task(tmp_path / "set" / "good")
    harbor_task(tmp_path / "set" / "bad", **{"task.toml": f"[metadata]\n{metadata}\n"})
    _, (left_out,) = build_index([tmp_path / "set"])
    assert reason in left_out.reason


def test_folders_without_a_usable_task_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="holds no task directories"):
        build_index([tmp_path])
    with pytest.raises(TaskError, match="holds no task directories"):
        build_index([tmp_path / "nowhere"])
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "task.toml").write_text("")
    with pytest.raises(TaskError, match=r"no task directory of 1 can be used: .*instruction\.md"):
        build_index([tmp_path])


def test_one_id_twice_is_refused_with_both_places(tmp_path: Path) -> None:
    for name in ("a", "b"):
        harbor_task(tmp_path / name / "same")
    with pytest.raises(TaskError, match=r"a/same and .*b/same are both the task same"):
        build_index([tmp_path / "a", tmp_path / "b"])


def test_tasks_whose_trials_could_not_be_told_apart_are_refused(tmp_path: Path) -> None:
    made = [write_task(generate(0, "comparison", 0), tmp_path / name) for name in ("a", "b")]
    for number, task in enumerate(made):
        text = (task / "task.toml").read_text()
        source = f'\n[metadata.source]\nformat = "made"\ninstance_id = "id-{number}"\n'
        (task / "task.toml").write_text(text + source)
    with pytest.raises(TaskError, match="are both called comparison-train-000"):
        build_index([tmp_path])
    one, other = (build_index([task])[0] for task in made)
    with pytest.raises(TaskError, match="are both called comparison-train-000"):
        merge({Path("a"): one, Path("b"): other})


def changed(path: Path, **metadata: str) -> None:
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({VERSION_KEY: metadata["version"]} if metadata else None), path)


def test_what_is_no_index_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "index.parquet"
    with pytest.raises(TaskError, match="there is no index at"):
        Index.read(path)
    path.write_text("nothing")
    with pytest.raises(TaskError, match="is not a Parquet file"):
        Index.read(path)
    Index.of(rows("a")).write(path)
    changed(path)
    with pytest.raises(TaskError, match="is a Parquet file but no index"):
        Index.read(path)
    changed(path, version="7")
    with pytest.raises(TaskError, match="is an index of version 7, this lego-rl reads version 3") as raised:
        Index.read(path)
    assert "lego-rl tasks index" in raised.value.fix


@pytest.mark.parametrize("column", ["repo", "extra_info"])
def test_an_index_without_a_column_or_with_another_kind_is_refused(column: str, tmp_path: Path) -> None:
    path = tmp_path / "index.parquet"
    table = Index.of(rows("a")).table
    pq.write_table(table.drop_columns([column]), path)
    with pytest.raises(TaskError, match=f"its column {column} is missing"):
        Index.read(path)
    at = table.schema.get_field_index(column)
    pq.write_table(table.set_column(at, column, pa.array([1])), path)
    with pytest.raises(TaskError, match=f"its column {column} is int64, not"):
        Index.read(path)


def test_an_index_with_a_task_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "index.parquet"
    table = Index.of(rows("a", "b")).table
    pq.write_table(pa.concat_tables([table, table.slice(1)]), path)
    with pytest.raises(TaskError, match="has the task b twice"):
        Index.read(path)


def test_an_index_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TaskError, match="cannot write"):
        Index.of(rows("a")).write(tmp_path / "file" / "index.parquet")


def test_figures_of_an_index() -> None:
    found = stats(Index.of([*rows("a", "b"), *rows("c", repo=None)]))
    assert found.tasks == 3
    assert found.counts["repo"] == {"a/b": 2}
    assert found.counts["split"] == {"default": 3}
    assert found.filled["repo"] == 2
    assert found.filled["patch_digest"] == 0


ids = st.lists(st.integers(0, 10_000), min_size=1, max_size=60, unique=True)


@given(ids, st.integers(0, 3), st.sampled_from(Unit))
def test_the_parts_of_a_split_have_every_task_once(numbers: list[int], seed: int, unit: Unit) -> None:
    made = [IndexRow(f"t{n}", Path(f"/p/t{n}"), "made", repo=f"a/{n % 7}" if n % 5 else None) for n in numbers]
    index = Index.of(made)
    parts = split(index, {"train": 8, "test": 1, "more": 1}, unit, seed)
    assert sorted(name for part in parts.values() for name in part.ids) == index.ids
    places = {name: part for part, found in parts.items() for name in found.ids}
    if unit is Unit.REPOSITORY:
        for repo in range(7):
            assert len({places[f"t{n}"] for n in numbers if n % 7 == repo and n % 5}) <= 1
    smaller = split(Index.of(made[: len(made) // 2]), {"train": 8, "test": 1, "more": 1}, unit, seed)
    assert all(places[name] == part for part, found in smaller.items() for name in found.ids)
    assert all(set(part.info("split")) <= {name} for name, part in parts.items())
    merged = merge({Path(name): part for name, part in parts.items()})
    assert [places[name] for name in merged.ids] == merged.info("split")
    assert in_split(merged.table, "default").equals(index.table)


def test_names_of_one_repository_stay_together() -> None:
    names = ["psf/requests", "kennethreitz/requests", "swesmith/psf__requests.0123abcd", "PSF/Requests"]
    made = [IndexRow(f"t{n}", Path(f"/p/t{n}"), "made", repo=repo) for n, repo in enumerate(names)]
    for seed in range(20):
        parts = split(Index.of(made), {"a": 1, "b": 1}, Unit.REPOSITORY, seed)
        assert sorted(map(len, parts.values())) == [0, 4]


IMAGE = "swebench/sweb.eval.x86_64.acme_1776_tool-{}:latest"


def of_one_repository(number: int) -> dict[str, list[IndexRow]]:
    """Ways to say of two tasks that they are of one repository, or of a fork of it."""
    one, other = f"x{number}", f"y{number}"

    def row(name: str, **said: Any) -> IndexRow:
        return IndexRow(name, Path("/p") / name, "made", **said)

    return {
        "ids": [row(f"acme__tool-{number}"), row(f"Acme__Tool-1{number}")],
        "images": [row(one, image=IMAGE.format(number)), row(other, image=IMAGE.format(f"1{number}"))],
        "id and column": [row(f"acme__tool-{number}"), row(other, repo="acme/tool")],
        "bare": [row(one, repo="attrs"), row(other, repo="python-attrs/attrs")],
        "fork": [row(one, repo="acme/tool"), row(other, repo="else/tool")],
        "mirror": [row(one, repo="acme/tool"), row(other, repo="swesmith/acme__tool.2ab64612")],
        "branch": [row(one, repo="acme/tool:main"), row(other, repo="acme/tool")],
        "no repository": [
            row(one, repo="(acme) tool, its main branch"),
            row(other, repo="(acme) tool, its main branch"),
        ],
        "no repository, and an id": [
            row(f"acme__tool-{number}", repo="?"),
            row(other, repo="?"),
            row(f"z{number}", repo="tool"),
        ],
        "joined": [row(f"acme-my-tool:{number}"), row(other, repo="acme/my.tool")],
        "joined, an owner of two words": [row(f"my-acme-tool:{number}"), row(other, repo="my-acme/tool")],
        "by a third": [
            row(one, repo="acme/tool"),
            row(other, repo="acme/box"),
            row(f"acme__box-{number}", repo="acme/tool"),
        ],
    }


@pytest.mark.parametrize("way", list(of_one_repository(0)))
def test_tasks_of_one_repository_are_in_one_part_however_they_say_it(way: str) -> None:
    index = Index.of([row for number in range(8) for row in of_one_repository(number)[way]])
    for seed in range(12):
        sizes = sorted(map(len, split(index, {"a": 1, "b": 1}, Unit.REPOSITORY, seed).values()))
        assert sizes == [0, len(index)]


@given(st.permutations([row for rows_ in of_one_repository(0).values() for row in rows_][:12]), st.integers(0, 5))
def test_a_pool_that_grows_moves_no_task(order: list[IndexRow], seed: int) -> None:
    made = [replace(row, instance_id=f"{row.instance_id}{place}") for place, row in enumerate(order)]
    parts = {"a": 1, "b": 1, "c": 1}
    grown = split(Index.of(made), parts, Unit.REPOSITORY, seed)
    places = {name: part for part, found in grown.items() for name in found.ids}
    smaller = split(Index.of(made[:5]), parts, Unit.REPOSITORY, seed)
    assert all(places[name] == part for part, found in smaller.items() for name in found.ids)


def test_tasks_that_name_no_repository_go_by_themselves() -> None:
    index = Index.of([IndexRow(f"t{n}", Path(f"/p/t{n}"), "made", repo=("n/a", None)[n % 2]) for n in range(60)])
    assert min(map(len, split(index, {"a": 1, "b": 1}, Unit.REPOSITORY, 0).values())) > 10


def test_a_split_is_about_as_large_as_it_is_asked_to_be() -> None:
    index = Index.of(rows(*(f"t{n}" for n in range(2_000))))
    parts = split(index, {"train": 3, "test": 1}, Unit.TASK, 0)
    assert abs(len(parts["train"]) - 1_500) < 80
    assert split(index, {"train": 3, "test": 1}, Unit.TASK, 1)["test"].ids != parts["test"].ids


def test_a_repository_is_counted_once_however_it_is_spelt() -> None:
    names = ["acme/tool", "Acme/Tool", "Acme/Tool", "https://github.com/acme/tool.git", "n/a", None, ""]
    index = Index.of([IndexRow(f"t{n}", Path(f"/p/t{n}"), "made", repo=name) for n, name in enumerate(names)])
    assert stats(index).counts["repo"] == {"Acme/Tool": 4, "": 1, "n/a": 1}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("parts", [{}, {"a": 0.0}, {"a": 1.0, "b": -1.0}, {"a": 1e308, "b": 1e308}])
def test_a_split_without_weights_is_refused(parts: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="needs parts with a weight above 0"):
        split(Index.of(rows("a")), parts, Unit.TASK, 0)


@pytest.mark.parametrize(
    ("other", "name"),
    [(rows("b"), "b"), ([IndexRow("c", Path("/pool/b"), "made")], "/pool/b")],
    ids=["id", "directory"],
)
def test_indexes_with_a_task_in_common_are_not_merged(other: list[Any], name: str) -> None:
    with pytest.raises(TaskError, match=rf"x and y both have the task {name}"):
        merge({Path("x"): Index.of(rows("a", "b")), Path("y"): Index.of(other)})
