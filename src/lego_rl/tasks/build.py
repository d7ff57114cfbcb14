"""Writes generated tasks as Harbor task directories.

Invariant: `build_pool` gives the same bytes on every machine, and a folder holds a whole pool or none: the pool is
written beside its place and renamed when it is complete.
"""

import difflib
from collections.abc import Iterator
from pathlib import Path

from lego_rl.errors import TaskError
from lego_rl.owner import owned_folder
from lego_rl.tasks.bugtask import BugTask
from lego_rl.tasks.directory import EnvironmentPart, SolutionPart, TaskDirectory, TestsPart
from lego_rl.tasks.generate import families_of, generate
from lego_rl.tasks.names import Split

POOL_SEED = 0
"""Seed of the built-in pool."""

POOL_SIZES: dict[Split, int] = {"train": 40, "heldout": 8, "unseen": 8}
"""Instances a family in each split of the built-in pool."""

WORKDIR = "/app"
_DESCRIPTION = "Fix one bug in a small Python package"

_DOCKERFILE = f"""\
FROM python:3.12-slim
WORKDIR {WORKDIR}
COPY repo/ ./
"""

# -P keeps the work directory off the path while pytest itself is imported, and no configuration is read from there, so
# that no file of the agent stands in for the test runner. Plug-ins of the environment would double the start-up time.
_PYTEST = (
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python3 -P -B -m pytest -q -p no:cacheprovider -c /dev/null "
    "--noconftest --import-mode=importlib "
    '--rootdir="$PWD" -o pythonpath="$PWD" --junitxml="$LEGO_REPORT"'
)

_TEST_SH = """\
#!/bin/sh
# For stock Harbor: writes its reward. The image has no pytest and there is no network to fetch it; the hidden tests are
# plain functions, so they are called as they are, and every one of them decides.
cd {workdir} || exit 1
if python3 -P -B - <<'PY'
import runpy
import sys

sys.path.insert(0, "{workdir}")
tests = runpy.run_path("/tests/files/{test}")
for name in [name for name in tests if name.startswith("test_")]:
    tests[name]()
PY
then reward=1; else reward=0; fi
mkdir -p /logs/verifier
echo "$reward" > /logs/verifier/reward.txt
"""

_SOLVE_SH = f"""\
#!/bin/sh
# The fixed file; gold.patch shows the change.
cp -R /solution/files/. {WORKDIR}/
"""


def pool_tasks(seed: int = POOL_SEED, sizes: dict[Split, int] | None = None) -> Iterator[BugTask]:
    """Generate the tasks of a pool, split by split and family by family.

    Args:
        seed: Of the pool.
        sizes: Instances a family in each split; by default `POOL_SIZES`.
    """
    for split, count in (POOL_SIZES if sizes is None else sizes).items():
        for family in families_of(split):
            for index in range(count):
                yield generate(seed, family.name, index, split)


def build_pool(out: Path, seed: int = POOL_SEED, sizes: dict[Split, int] | None = None) -> list[Path]:
    """Write a pool of Harbor task directories.

    Args:
        out: The pool's folder; it must not exist or be empty.
        seed: Of the pool.
        sizes: As for `pool_tasks`.

    Returns:
        The task directories.

    Raises:
        TaskError: `out` is not empty, or cannot be written.
    """
    try:
        if out.exists() and any(out.iterdir()):
            raise TaskError(f"{out} is not empty", "name a new folder, or remove this one first")
        out.parent.mkdir(parents=True, exist_ok=True)
        with owned_folder(out.parent, f".{out.name}-") as scratch:
            pool = scratch / "pool"
            names = [write_task(task, pool).name for task in pool_tasks(seed, sizes)]
            pool.rename(out)
    except OSError as error:
        raise TaskError(f"cannot write tasks into {out}: {error}", "name a new folder on a disk with space") from error
    return [out / name for name in names]


def write_task(task: BugTask, pool: Path) -> Path:
    """Write one Harbor task directory under `pool`, all of it or nothing, and return it."""
    return directory_of(task).write(pool)


def gold_patch(task: BugTask) -> str:
    """The fix as a unified diff."""
    path = task.bug.path
    before, after = task.files[path].splitlines(keepends=True), task.fixed_files[path].splitlines(keepends=True)
    return "".join(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}"))


def task_texts(task: BugTask) -> dict[str, str]:
    """Every file of a task directory: path in it → text."""
    return {name: content.decode() for name, content in directory_of(task).files().items()}


def directory_of(task: BugTask) -> TaskDirectory:
    """The task directory of a generated task."""
    (path,) = task.tests
    fixed = {task.bug.path: task.fixed_files[task.bug.path].encode()}
    return TaskDirectory(
        id=task.id,
        name=f"lego-rl/{task.id}",
        description=_DESCRIPTION,
        instruction=task.instruction,
        family=task.family,
        split=task.split,
        environment=EnvironmentPart(
            WORKDIR,
            {
                "Dockerfile": _DOCKERFILE.encode(),
                **{f"repo/{name}": text.encode() for name, text in task.files.items()},
            },
        ),
        tests=TestsPart(
            task.fail_to_pass,
            task.pass_to_pass,
            command=f"{_PYTEST} {path}",
            parser="pytest-junit",
            script=_TEST_SH.format(workdir=WORKDIR, test=path),
            files={name: text.encode() for name, text in task.tests.items()},
        ),
        solution=SolutionPart(gold_patch(task).encode(), _SOLVE_SH, fixed),
    )
