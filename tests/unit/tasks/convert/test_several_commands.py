"""Several test commands of a row: all of them run, and none hides what another ended with. Rows are SYNTHETIC."""

import subprocess
from pathlib import Path

import pytest
from synthetic_rows import rebench_v2

from lego_rl.tasks.convert.registry import format_named


@pytest.mark.parametrize(
    ("commands", "said", "status"),
    [
        (["echo one; (exit 1)", "echo two"], "one two", 1),
        (["echo one", "echo two; (exit 3)"], "one two", 3),
        (["(exit 1)", "(exit 4)", "echo three"], "three", 4),
        (["(exit 4)", "(exit 1)"], "", 4),
        (["cd sub && false", "basename $PWD", "export A=x", "echo $A"], "sub x", 1),
        (["cat <<'EOF'\none\nEOF", "echo two # it is"], "one two", 0),
        (["for name in a b; do", "echo $name", "done"], "a b", 0),
        (["echo one; exit 5", "echo two"], "one", 5),
    ],
)
def test_swe_rebench_v2_runs_all_commands_whatever_one_ended_with(
    tmp_path: Path, commands: list[str], said: str, status: int
) -> None:
    config = {**rebench_v2()["install_config"], "test_cmd": commands}
    task = format_named("swe-rebench-v2").convert(rebench_v2(install_config=config))
    (tmp_path / "sub").mkdir()
    command = task.tests.command.replace("cd /Calc-c", f"cd {tmp_path}")
    assert command != task.tests.command
    done = subprocess.run(
        ["sh", "-c", command], env={"LEGO_REPORT": str(tmp_path / "log"), "PATH": "/usr/bin:/bin"}, check=False
    )
    log = (tmp_path / "log").read_text().split("\n")
    assert (" ".join(log[1:-2]), done.returncode) == (said, status)
