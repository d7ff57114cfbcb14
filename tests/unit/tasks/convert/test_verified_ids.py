"""All 500 instances of SWE-bench Verified: their ids, commits and versions are real, and nothing else of a row is.

Issue, patches and lists are SYNTHETIC (`synthetic_rows`): rows with others' patches are not in this repository.
"""

import json
from collections import Counter
from importlib.resources import files
from pathlib import Path

from harbor.models.task.task import Task as HarborTask
from synthetic_rows import Row, classic, present

from lego_rl.tasks.convert.registry import format_named
from lego_rl.tasks.convert.run import convert
from lego_rl.tasks.convert.tables import classic as classic_tables
from lego_rl.tasks.pool import load_pool
from lego_rl.tasks.reports.swebench import NAMES

VERIFIED = Path(__file__).parents[3] / "data" / "swebench_verified.json"
REPOSITORIES = {
    "astropy/astropy": 22, "django/django": 231, "matplotlib/matplotlib": 34, "mwaskom/seaborn": 2,
    "pallets/flask": 1, "psf/requests": 8, "pydata/xarray": 22, "pylint-dev/pylint": 10, "pytest-dev/pytest": 19,
    "scikit-learn/scikit-learn": 32, "sphinx-doc/sphinx": 44, "sympy/sympy": 75,
}  # fmt: skip


def instances() -> list[Row]:
    ids = json.loads((files("lego_rl.tasks.decontaminate") / "swe-bench-verified.json").read_text())["instances"]
    rest = json.loads(VERIFIED.read_text())["instances"]
    fields = ("version", "log_parser", "created_at")
    return [row | dict(zip(fields, more, strict=True)) for row, more in zip(ids, rest, strict=True)]


def test_all_of_them_load_here_and_partition_by_repository(tmp_path: Path) -> None:
    file = tmp_path / "verified.jsonl"
    rows = [present(**row, image="") for row in instances()]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    summary = convert("swebench", [file], tmp_path / "pool", workers=2)
    assert (summary.written, summary.skipped) == (500, [])
    (tasks,) = load_pool(tmp_path / "pool").values()
    assert Counter(task.family for task in tasks) == REPOSITORIES
    assert {(task.id, task.history.base_commit) for task in tasks} == {
        (row["instance_id"], row["base_commit"]) for row in rows
    }
    for task in tasks[::25]:
        stock = HarborTask(task.path)
        assert stock.config.environment.docker_image == _image(task.id)


def test_the_tables_know_every_one_of_them_with_the_parser_of_its_row() -> None:
    for row in instances():
        known = classic_tables(row["repo"], row["version"])
        assert known.parser in NAMES
        tests = "tests/test_calc.py"
        task = format_named("swebench").convert(classic(**row))
        assert known.test_cmd.partition("'")[0] in task.tests.command
        assert (
            tests.removesuffix(".py").removeprefix("tests/") if "django" in row["repo"] else tests
        ) in task.tests.command
        assert task.environment.docker_image == _image(row["instance_id"])


def _image(instance: str) -> str:
    return f"swebench/sweb.eval.x86_64.{instance.replace('__', '_1776_')}:latest"
