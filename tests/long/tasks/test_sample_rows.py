"""Real rows of public data sets, from a folder that is not in this repository: ``--samples FOLDER``.

A file of it is JSON of the form ``{"source": …, "rows": [row, …]}``, and is called like its data set. Rows hold other
people's patches, so none is kept here; without the folder there is nothing to test.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from harbor.models.task.task import Task as HarborTask

from lego_rl.tasks.convert.run import Summary, convert
from lego_rl.tasks.provenance import Provenance
from lego_rl.tasks.task import Task, TestSpec
from lego_rl.tasks.test_patch import patched_paths
from lego_rl.tasks.unified_diff import read_diff

FORMATS = {
    "SWE-bench": "swebench", "OpenSWE": "openswe", "SWE-rebench-V2": "swe-rebench-v2", "SWE-rebench": "swe-rebench",
    "SWE-smith": "swe-smith", "SWE-Gym": "swe-gym", "R2E-Gym": "r2e-gym",
}  # fmt: skip
"""Format by how a file's name begins; the first that fits."""
LEAKING = ("hints_text", "patch", "test_patch", "pr_description", "prompt", "modified_files", "relevant_files")


@pytest.fixture
def samples(request: pytest.FixtureRequest) -> list[Path]:
    folder: Path | None = request.config.getoption("--samples")
    if folder is None:
        pytest.skip("name a folder of real rows with --samples")
    found = sorted(folder.glob("*.json"))
    assert found, f"{folder} holds no rows"
    return found


def test_real_rows_become_tasks_that_load_here_and_in_stock_harbor(samples: list[Path], tmp_path: Path) -> None:
    tasks = 0
    for file in samples:
        rows = json.loads(file.read_text())["rows"]
        form = next(form for beginning, form in FORMATS.items() if file.name.startswith(beginning))
        out = tmp_path / file.stem
        summary = convert(form, [file], out, workers=1)
        _refused_with_reason(file, summary)
        for row, path in _pairs(rows, out):
            _check(row, path)
            tasks += 1
        again = convert(form, [file], out, workers=1)
        assert (again.unchanged, again.written, again.replaced) == (summary.written, 0, 0)
    assert tasks


def _refused_with_reason(file: Path, summary: Summary) -> None:
    """Two kinds of samples are none of a data set: pictures, and what OpenSWE's builder takes in."""
    if file.name.startswith("SWE-bench_Multimodal"):
        assert not summary.tasks and all("Multimodal" in one.reason for one in summary.skipped)
    elif file.name.startswith("OpenSWE.input"):
        assert [one.reason for one in summary.skipped] == ["eval_script: Field required"]
    else:
        assert not summary.skipped, summary.skipped


def _pairs(rows: list[dict[str, object]], out: Path) -> Iterator[tuple[dict[str, object], Path]]:
    by_digest = {str(row.get("instance_id")): row for row in rows}
    for path in sorted(out.iterdir()):
        if path.is_dir():
            source = Task.load_unlisted(path).source
            assert isinstance(source, Provenance)
            yield by_digest[source.instance_id], path


def _check(row: dict[str, object], path: Path) -> None:
    task, stock = Task.load(path), HarborTask(path)
    assert isinstance(task.tests, TestSpec) and HarborTask.is_valid_dir(path)
    assert stock.instruction == task.instruction
    problem = str(row["problem_statement"]).replace("\r\n", "\n").strip("\n")
    assert task.instruction.startswith(problem)
    lists = [row["FAIL_TO_PASS"], row["PASS_TO_PASS"]]
    fails, passes = (json.loads(tests) if isinstance(tests, str) else tests for tests in lists)
    assert isinstance(fails, list) and isinstance(passes, list)
    assert len(task.tests.fail_to_pass) == len(set(fails)) and len(task.tests.pass_to_pass) == len(set(passes))
    assert read_diff((path / "solution" / "gold.patch").read_bytes())
    patch = path / "tests" / "test.patch"
    if patch.is_file():
        assert set(patched_paths(patch)) == set(task.tests.test_files)
    shown = (path / "instruction.md").read_text() + "".join(
        file.read_text() for file in (path / "environment").rglob("*") if file.is_file() and file.name != "bug.patch"
    )
    for name in LEAKING:
        value = row.get(name)
        for line in value.split("\n") if isinstance(value, str) else []:
            if len(line.strip()) > 60 and line.strip() not in problem:
                assert line.strip() not in shown, name
