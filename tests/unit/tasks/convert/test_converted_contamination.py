"""Rows of every format, converted, indexed and compared: what is contaminated is hit, each by the rules that say why.

All rows are SYNTHETIC (`synthetic_rows`), with texts of the benchmark's made-up language."""

import json
import random
from collections import defaultdict
from importlib.resources import files
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from synthetic_rows import ROWS, Row, gym, openswe, present, r2e, rebench, rebench_v2, smith
from typer.testing import CliRunner

from lego_rl.bench.tasks_corpus import issue, patch, patch_text, repositories
from lego_rl.bench.tasks_words import Language
from lego_rl.cli import app
from lego_rl.tasks.index.file import Index

VERIFIED = "swe-bench-verified"
FORMATS = list(ROWS)
MADE = repositories(Language(), len(FORMATS))
TEXTS = {form: issue(random.Random(number), MADE[number]).text() for number, form in enumerate(FORMATS)}
PATCHES = {form: patch_text(patch(random.Random(number), MADE[number])) for number, form in enumerate(FORMATS)}
NAMES = {"repository", "instance", "pull-request", "commit"}


def evaluated() -> dict[str, str]:
    """Ids of SWE-bench Verified → base commits."""
    text = files("lego_rl.tasks.decontaminate").joinpath("swe-bench-verified.json").read_text()
    return {each["instance_id"]: each["base_commit"] for each in json.loads(text)["instances"]}


def lego(*arguments: str | Path, code: int = 0) -> str:
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert (done.exit_code != 0) == (code != 0), f"{done.output}{done.exception}"
    return done.output


def indexed(folder: Path, rows: dict[str, Row]) -> Path:
    """The index of the converted rows, one of each format."""
    for form, row in rows.items():
        (folder / f"{form}.jsonl").write_text(json.dumps(row) + "\n")
        lego("tasks", "convert", form, folder / f"{form}.jsonl", "--out", folder / "pool" / form, "--workers", "1")
    lego("tasks", "index", folder / "pool", "--out", folder / "index.parquet", "--strict")
    return folder / "index.parquet"


def rules_by_format(index: Path, against: str | Path, out: Path) -> dict[str, set[str]]:
    lego("tasks", "decontaminate", index, "--against", against, "--report", out / "hits.parquet")
    read = Index.read(index)
    formats = dict(zip(read.ids, read.column("source_format").to_pylist(), strict=True))
    found: dict[str, set[str]] = defaultdict(set)
    for hit in pq.read_table(out / "hits.parquet").to_pylist():
        found[formats[hit["instance_id"]]].add(hit["rule"])
    return dict(found)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Row]]:
    """Rows of nobody's repositories, and their index."""
    rows = {
        "swebench": present(repo="made/web", instance_id="made__web-9999", image=""),
        "openswe": openswe(),
        "swe-rebench": rebench(),
        "swe-rebench-v2": rebench_v2(interface=""),
        "swe-gym": gym(),
        "r2e-gym": r2e(),
        "swe-smith": smith(),
    }
    for number, (form, row) in enumerate(rows.items()):
        row["problem_statement"] = TEXTS[form] if form != "r2e-gym" else f"[ISSUE]\n{TEXTS[form]}\n[/ISSUE]"
        if "patch" in row:
            row["patch"] = PATCHES[form]
        if "base_commit" in row:
            row["base_commit"] = f"{number + 1:x}" * 40
    return indexed(tmp_path_factory.mktemp("clean"), rows), rows


def test_an_index_has_what_every_format_says(clean: tuple[Path, dict[str, Row]]) -> None:
    index = Index.read(clean[0])
    found = {row["source_format"]: row for row in map(index.row, range(len(index)))}
    assert set(found) == set(FORMATS)
    for form, row in found.items():
        assert row["repo"] and row["image"] and row["base_commit"], form
        assert len(row["source_digest"]) == len(row["issue_digest"]) == len(row["patch_digest"]) == 64, form
        assert "image" in row["unmeasured"], form
    assert [found[form]["pull_request"] for form in FORMATS] == [9999, 7, 8, 9, 9999, None, None]
    assert found["openswe"]["unmeasured"] == ["image", "tests", "lists"]
    assert found["swe-smith"]["repo"] == "swesmith/mewwts__addict.75284f95"
    assert found["swe-rebench-v2"]["data_source"] == "nebius/SWE-rebench-V2"
    assert found["swebench"]["data_source"] == "pool"
    assert found["swe-rebench"]["licence"] == "MIT License"


def test_a_clean_pool_is_clean(clean: tuple[Path, dict[str, Row]], tmp_path: Path) -> None:
    assert rules_by_format(clean[0], VERIFIED, tmp_path) == {}
    lego("tasks", "decontaminate", clean[0], "--against", VERIFIED, "--check")


def test_a_pool_is_contaminated_with_the_rows_that_it_was_made_of(
    clean: tuple[Path, dict[str, Row]], tmp_path: Path
) -> None:
    index, rows = clean
    reference = tmp_path / "rows.jsonl"
    reference.write_text("".join(f"{json.dumps(row)}\n" for row in rows.values()))
    found = rules_by_format(index, reference, tmp_path)
    numbered, texts = {*NAMES, "issue-text", "patch"}, {"issue-text", "patch"}
    assert found == {
        **dict.fromkeys(("swebench", "openswe", "swe-rebench", "swe-rebench-v2", "swe-gym"), numbered),
        "swe-smith": {"repository", "instance", "commit"} | texts,
        "r2e-gym": {"repository", "commit", "issue-text"},  # a row of it has no id, and no patch in one piece
    }
    lego("tasks", "decontaminate", index, "--against", reference, "--check", code=1)
    lego("tasks", "decontaminate", index, "--against", index, "--out", tmp_path / "none.parquet")
    assert len(Index.read(tmp_path / "none.parquet")) == 0


def test_what_is_of_verified_is_found_in_every_format(tmp_path: Path) -> None:
    commits = evaluated()
    django, requests, sympy, sphinx = (
        next(name for name in commits if name.startswith(owner))
        for owner in ("django__", "psf__requests", "sympy__", "sphinx-doc__")
    )
    rows = {
        "swebench": present(repo="django/django", instance_id=django, base_commit=commits[django], image=""),
        "openswe": openswe(repo="kennethreitz/requests", instance_id=requests.replace("psf", "kennethreitz")),
        "swe-rebench": rebench(repo="somebody/sympy", instance_id="somebody__sympy-8", docker_image=None),
        "swe-rebench-v2": rebench_v2(repo="Sphinx-Doc/Sphinx", instance_id=f"{sphinx}0", image_name="x/made-c:9"),
        "swe-gym": gym(base_commit=commits[sympy]),
        "r2e-gym": r2e(repo_name="sympy", docker_image=f"namanjain12/sympy_final:{'e' * 40}"),
        "swe-smith": smith(base_commit=commits[sphinx]),
    }
    index = indexed(tmp_path, rows)
    assert rules_by_format(index, VERIFIED, tmp_path) == {
        "swebench": NAMES,
        "openswe": {"repository", "instance", "pull-request"},
        "swe-rebench": {"fork"},
        "swe-rebench-v2": {"repository"},
        "swe-gym": {"commit"},
        "r2e-gym": {"repository"},
        "swe-smith": {"commit"},
    }
    printed = lego("tasks", "decontaminate", index, "--against", VERIFIED, "--check", code=1)
    assert "7 of 7 tasks are contaminated" in printed
