"""What stock Harbor runs of a converted task: ``tests/test.sh`` with its judge, and ``solution/solve.sh``.

Harbor runs the script in the agent's own sandbox, with ``tests/`` at ``/tests``. Lego-RL's grading reads neither: it
makes the hidden tests on the host and judges there.
"""

import shlex
from functools import cache
from importlib.resources import files

from lego_rl.tasks.directory import SolutionPart

_TEST_SH = """\
#!/bin/bash
# For stock Harbor: brings the hidden tests, runs them, writes a reward. No reward is written where the log cannot be
# read, so that Harbor reports a fault and no 0.
cd {workdir} || exit 1
{bring}
mkdir -p /logs/verifier
export LEGO_REPORT=/logs/verifier/report.log
/bin/sh -c {command}
status=$?
for python in python3 /opt/miniconda3/bin/python3 python; do
    command -v "$python" > /dev/null && break
done
"$python" /tests/judge.py "$status" "$LEGO_REPORT" > /tmp/reward.txt && mv /tmp/reward.txt /logs/verifier/reward.txt
"""
_APPLY = "git apply --whitespace=nowarn /tests/test.patch || patch -p1 < /tests/test.patch || exit 1"
_COPY = "cp -R /tests/files/. . || exit 1"
_SOLVE_SH = """\
#!/bin/bash
cd {workdir} || exit 1
git apply --whitespace=nowarn /solution/gold.patch || patch -p1 < /solution/gold.patch
"""


def test_script(command: str, workdir: str, *, bring: str = _APPLY) -> str:
    """``tests/test.sh``.

    Args:
        command: Of the specification.
        workdir: Of the task.
        bring: Shell commands that bring the hidden tests: `BY_PATCH`, `BY_FILES` or `NOTHING`.
    """
    return _TEST_SH.format(workdir=shlex.quote(workdir), bring=bring, command=shlex.quote(command))


BY_PATCH, BY_FILES, NOTHING = _APPLY, _COPY, "# The hidden tests are in the work tree."


@cache
def judge_files() -> dict[str, bytes]:
    """What `test_script` reads a log with: a program and the file of ours that stands alone."""
    package = files("lego_rl.tasks.reports")
    judge = files("lego_rl.tasks.convert").joinpath("judge.py")
    return {"judge.py": judge.read_bytes(), "lines.py": package.joinpath("lines.py").read_bytes()}


def solution(patch: bytes, workdir: str) -> SolutionPart:
    """``solution/`` of a task whose fix is a patch."""
    return SolutionPart(patch, _SOLVE_SH.format(workdir=shlex.quote(workdir)))
