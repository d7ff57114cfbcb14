"""Task directories that nobody would make: each is left out of an index with its reason, or is in it; the rest is."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lego_rl.tasks.build import write_task
from lego_rl.tasks.generate import generate
from lego_rl.tasks.index.build import build_index
from lego_rl.tasks.index.file import Index


def folder_for_a_patch(task: Path) -> None:
    (task / "solution" / "x.patch").mkdir()


def patch_that_leads_nowhere(task: Path) -> None:
    (task / "solution" / "x.patch").symlink_to("nowhere")


def deep_row(task: Path) -> None:
    (task / "tests" / "config.json").write_text("[" * 100_000)


def half_a_character(task: Path) -> None:
    row = {"instance_id": "\ud800", "repo": "a/b", "patch": "\ud800", "base_commit": "0" * 40}
    (task / "tests" / "config.json").write_text(json.dumps(row))
    for patch in (task / "solution").glob("*.patch"):
        patch.unlink()


def blank_repository(task: Path) -> None:
    (task / "tests" / "config.json").write_text('{"repo": "  "}')


def folder_for_the_issue(task: Path) -> None:
    (task / "instruction.md").unlink()
    (task / "instruction.md").mkdir()


def folder_for_the_solution(task: Path) -> None:
    for path in sorted((task / "solution").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (task / "solution").rmdir()
    (task / "solution").write_text("x")


def name_that_is_no_text(task: Path) -> None:
    task.rename(task.with_name(os.fsdecode(b"\xff")))


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (folder_for_a_patch, "x.patch cannot be read: Is a directory"),
        (patch_that_leads_nowhere, "x.patch cannot be read: No such file"),
        (folder_for_the_issue, "instruction.md"),
        (name_that_is_no_text, "is no text"),
        (deep_row, None),
        (half_a_character, None),
        (blank_repository, None),
        (folder_for_the_solution, None),
    ],
)
def test_one_odd_directory_does_not_end_the_index(
    odd: Callable[[Path], None], reason: str | None, tmp_path: Path
) -> None:
    write_task(generate(0, "comparison", 0), tmp_path / "pool")
    odd(write_task(generate(0, "comparison", 1), tmp_path / "pool"))
    index, left_out = build_index([tmp_path / "pool"])
    assert len(index) == (1 if reason else 2)
    assert [reason in each.reason for each in left_out if reason] == [True] * (reason is not None)
    index.write(tmp_path / "index.parquet")
    assert Index.read(tmp_path / "index.parquet").ids == index.ids
    assert not any(repo == "" or (repo and repo.isspace()) for repo in index.column("repo").to_pylist())
