"""``bash scripts/eval/eval.sh FILE`` for real: tasks of public rows, unmodified Claude Code, an endpoint, their tests.

The rows are synthetic, of the formats of SWE-bench and SWE-rebench; their images are stood in for by a work tree, as in
tests/integration/sandbox/test_converted_rows.py.
"""

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from lego_rl.tasks.convert.registry import format_named
from tests.chat_endpoint import by_turn, calling, endpoint
from tests.unit.tasks.convert.synthetic_rows import TREE, Row, classic, present, rebench

ROOT = Path(__file__).parents[3]
DOCKERFILE = b"FROM scratch\nWORKDIR /testbed\nCOPY repo/ ./\n"
FIX = calling("Bash", command="sed -i 's/first - second/first + second/' src/calc.py", call_id="toolu_1")


def written(number: int, form: str, row: Row, pool: Path) -> None:
    task = format_named(form).convert(row)
    task = replace(task, id=f"{task.id}-{number}")
    files = {"Dockerfile": DOCKERFILE, **{f"repo/{path}": content for path, content in TREE.items()}}
    environment = replace(task.environment, docker_image=None, files=files, memory_mb=1024, storage_mb=256)
    replace(task, environment=environment, base_commit=None, grading_history="same").write(pool)


def keys(folder: Path, url: str) -> Path:
    path = folder / "my_eval.env"
    path.write_text(
        f"API_BASE={url}\nMODEL_NAME=hosted\nDATASET_PATH={folder / 'pool'}\nSCAFFOLD=cc\nN_CONCURRENT=2\n"
        f"OUTPUT_DIR={folder / 'out'}\nMAX_TURNS=5\n"
    )
    return path


async def evaluated(path: Path, *arguments: str) -> tuple[int, str]:
    command = ["bash", str(ROOT / "scripts" / "eval" / "eval.sh"), str(path), *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=os.environ
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


@pytest.mark.timeout(300)
async def test_the_script_evaluates_tasks_of_public_rows(tmp_path: Path) -> None:
    rows = [
        ("swebench", present(log_parser="parse_log_pytest")),
        ("swebench", classic()),
        ("swe-rebench", rebench()),
    ]
    for number, (form, row) in enumerate(rows):
        written(number, form, row, tmp_path / "pool")
    tasks = sorted(path.name for path in (tmp_path / "pool").iterdir())
    async with endpoint(by_turn(FIX, "Mended.")) as served:
        status, out = await evaluated(keys(tmp_path, served.url), "--dry-run")
        assert (status, served.bodies) == (0, [])
        assert 'name = "claude-code"' in out
        status, out = await evaluated(keys(tmp_path, served.url))
    assert status == 0, out
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    (cell,) = report["cells"]
    assert len(tasks) >= 2
    assert (cell["model"], cell["harness"], cell["scored"], cell["coverage"]) == (
        "hosted",
        "claude-code",
        len(tasks),
        1.0,
    )
    assert cell["pass@1"] == 1.0
    (delta,) = report["regraded"].values()
    assert (delta["trials"], delta["agree"]) == (len(tasks), len(tasks))
    assert f"{len(tasks)}/{len(tasks)}" in out


async def test_a_wrong_key_is_named(tmp_path: Path) -> None:
    path = keys(tmp_path, "http://127.0.0.1:1/v1")
    path.write_text(path.read_text() + "N_CONCURENT=3\n")
    status, out = await evaluated(path)
    assert status == 1
    assert "unknown key N_CONCURENT" in out
    assert "did you mean N_CONCURRENT?" in out
