"""Whether an agent phase is sealed, asked from inside before the agent starts.

Invariant: a hole is a `SealError`, an infrastructure fault; there is no weaker sandbox.
"""

import asyncio
import os
from functools import lru_cache
from pathlib import Path

from lego_rl.errors import SandboxError, TaskError
from lego_rl.sandbox.sandbox import Sandbox
from lego_rl.sandbox.seal_request import SealRequest
from lego_rl.tasks.task import Task, TestScript, TestSpec

ALWAYS_HIDDEN = ("/tests", "/solution")


class SealError(SandboxError):
    """A sandbox that was started has a hole. Nothing of an agent was in it yet, so none can bring this about."""


async def verify_seal(box: Sandbox, task: Task | None) -> None:
    """Look from inside for hidden tests, git objects that the base commit does not reach, whatever answers on a network
    and what the kernel's locks leave open.

    Args:
        box: A sandbox in which nothing ran yet.
        task: The task whose tests must be hidden; ``None`` for one without Lego-RL's specification.

    Raises:
        SealError: The sandbox has a hole.
        SandboxError: It did not answer.
        TaskError: The task's own repository gives a hidden test away.
    """
    hidden = await asyncio.to_thread(hidden_tests, task, box.image.pristine) if task is not None else ()
    paths = (*ALWAYS_HIDDEN, *(f"{box.image.workdir}/{path}" for path in hidden))
    holes = await box.holes(SealRequest(paths, box.image.history))
    if holes:
        raise SealError(f"the sandbox is not sealed: {'; '.join(hole.said for hole in holes)}", "report this as a bug")


def hidden_tests(task: Task, pristine: Path) -> tuple[str, ...]:
    """Test files of the task that must not be in the work tree: those that the pristine tree does not have.

    Raises:
        TaskError: A file that holds a FAIL_TO_PASS test is in the repository under this or another name.
    """
    match task.tests:
        case TestSpec(test_files=files, fail_to_pass=tests):
            deciding = frozenset(test.partition("::")[0] for test in tests)
            return _hidden_tests(task.path, Path("tests", "files"), files, deciding, pristine)
        case TestScript():
            folder = task.path / "tests"
            scripts = frozenset(path.relative_to(folder).as_posix() for path in folder.rglob("test*") if path.is_file())
            return _hidden_tests(task.path, Path("tests"), (), scripts, pristine)


@lru_cache(maxsize=4096)
def _hidden_tests(
    task: Path, place: Path, test_files: tuple[str, ...], deciding: frozenset[str], pristine: Path
) -> tuple[str, ...]:
    secret = {path.read_bytes(): name for name in deciding if (path := task / place / name).is_file()}
    sizes = {len(content) for content in secret}
    for folder, _, names in os.walk(pristine):
        for path in (Path(folder, name) for name in names):
            if path.is_file() and path.stat().st_size in sizes and (name := secret.get(path.read_bytes())) is not None:
                raise TaskError(
                    f"task {task.name} shows its hidden test {name} as {path.relative_to(pristine)}",
                    "remove the file from environment/",
                )
    return tuple(name for name in test_files if not os.path.lexists(pristine / name))
