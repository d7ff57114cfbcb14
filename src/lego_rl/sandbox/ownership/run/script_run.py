"""What of the work tree is the task's own where a script of the task's grades it, as other Harbor tasks do.

Such a script runs two things: tests, and the program that an agent was asked to write or mend. Only a name can tell
them apart: what has a word for tests in its path (``run_tests.sh``, ``ci/``, ``make check``) is the task's own, and
``python main.py`` or ``make`` runs what is tested. What a shell is told to run and the task lacks is what an agent was
asked for, whatever its name.
"""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.known.test_names import is_test
from lego_rl.sandbox.ownership.run.declared_run import DeclaredRun
from lego_rl.sandbox.ownership.run.naming import Script
from lego_rl.sandbox.ownership.texts.task_tree import TaskTree
from lego_rl.tasks.task import Task

MAX_FILES_OF_FOLDER = 100_000
"""Of a folder, among which tests are looked for."""

_SCRIPTS = frozenset({".sh", ".bash", ".mk"})


def declared_by_script(task: Task, tree: TaskTree, env: Mapping[str, str]) -> tuple[DeclaredRun, frozenset[str]]:
    """What the task's script and the scripts beside it run of the work tree, and the test files among that.

    Args:
        task: A task that is graded by its script.
        tree: Its work tree.
        env: Environment variables of its tests.
    """
    folder = task.path / "tests"
    own = TaskTree(folder)
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    text = "\n".join(
        own.read(name).decode(errors="replace") for name in names if PurePosixPath(name).suffix in _SCRIPTS
    )
    beside = tuple(own.read(name) for name in names if name.endswith(".py"))
    run = DeclaredRun.of(text, tree, env, task.workdir, (), beside, Script())
    return run, frozenset(_tests(tree, run))


def _tests(tree: TaskTree, run: DeclaredRun) -> Iterator[str]:
    yield from (file for file in run.files if is_test(PurePosixPath(file).name))
    for folder in run.folders | run.searched:
        yield from (file for file in tree.files(folder, MAX_FILES_OF_FOLDER) if is_test(PurePosixPath(file).name))
