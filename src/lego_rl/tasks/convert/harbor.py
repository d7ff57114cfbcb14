"""What stock Harbor runs of a converted task: ``tests/test.sh`` with its judge, and ``solution/solve.sh``.

Harbor runs the script in the agent's own sandbox, with ``tests/`` at ``/tests``. Lego-RL's grading reads neither: it
makes the hidden tests on the host and judges there.
"""

import shlex
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from lego_rl.tasks.directory import SolutionPart
from lego_rl.tasks.unified_diff import FileDiff

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
_RESTORE = "git -c safe.directory='*' checkout -q {base} -- {paths} || exit 1"
_REMOVE = "rm -rf -- {paths}"
_COPY = "cp -R /tests/files/. . || exit 1"
_SOLVE_SH = """\
#!/bin/bash
cd {workdir} || exit 1
git apply --whitespace=nowarn /solution/gold.patch || patch -p1 < /solution/gold.patch
"""


BY_FILES, NOTHING = _COPY, "# The hidden tests are in the work tree."


def by_patch(base_commit: str, files: Sequence[FileDiff]) -> str:
    """Shell commands that bring hidden tests as a patch, onto the files that it is a patch of.

    An agent may have changed those, as it should where it tests what it does; without them the patch would not apply,
    and no reward would be written.

    Args:
        base_commit: What the patch is against.
        files: Of the patch.
    """
    changed = dict.fromkeys(file.before for file in files if file.before is not None)
    every = changed | dict.fromkeys(path for file in files for path in file.paths)
    commands = [_REMOVE.format(paths=shlex.join(every))]
    if changed:
        commands.append(_RESTORE.format(base=shlex.quote(base_commit), paths=shlex.join(changed)))
    return "\n".join([*commands, _APPLY])


def test_script(command: str, workdir: str, *, bring: str) -> str:
    """``tests/test.sh``.

    Args:
        command: Of the specification.
        workdir: Of the task.
        bring: Shell commands that bring the hidden tests: of `by_patch`, `BY_FILES` or `NOTHING`.
    """
    return _TEST_SH.format(workdir=shlex.quote(workdir), bring=bring, command=shlex.quote(command))


@cache
def judge_files() -> dict[str, bytes]:
    """What `test_script` reads a log with: a program and the file of ours that stands alone."""
    package = files("lego_rl.tasks.reports")
    judge = files("lego_rl.tasks.convert").joinpath("judge.py")
    return {"judge.py": judge.read_bytes(), "lines.py": package.joinpath("lines.py").read_bytes()}


def solution(patch: bytes, workdir: str) -> SolutionPart:
    """``solution/`` of a task whose fix is a patch."""
    return SolutionPart(patch, _SOLVE_SH.format(workdir=shlex.quote(workdir)))
