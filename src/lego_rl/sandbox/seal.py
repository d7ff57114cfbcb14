"""Whether an agent phase is sealed, asked from inside before the agent starts.

Invariant: a hole is a `SealError`, an infrastructure fault; there is no weaker sandbox.
"""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from lego_rl.errors import SandboxError
from lego_rl.sandbox.hole import Hole, HoleKind
from lego_rl.sandbox.sandbox import Sandbox
from lego_rl.sandbox.seal_request import SealRequest
from lego_rl.tasks.hidden_content import HiddenFile, hidden_files
from lego_rl.tasks.task import Task, TestSpec

ALWAYS_HIDDEN = ("/tests", "/solution")
BUG = "report this as a bug"
WAYS_OUT: Mapping[HoleKind, str] = {
    HoleKind.HIDDEN: "remove the path from environment/ of the task, or from its image",
    HoleKind.SHOWN: "remove the file from environment/ of the task or from its image, or name the task's own file in"
    " visible of [metadata] where agents may see it",
    HoleKind.GIT: BUG,
    HoleKind.STRAY: "remove it from the image, or have the repository below the work directory",
    HoleKind.SOCKET: BUG,
    HoleKind.KEY: "remove the variable (ENV) or the file from the image",
    HoleKind.KERNEL: BUG,
}
"""What to do about a hole, by its kind; about one in the network the environment knows."""


OF_TASK = frozenset({HoleKind.HIDDEN, HoleKind.SHOWN, HoleKind.STRAY, HoleKind.KEY})
"""Holes that are the task's, or its image's; the others are this machine's."""


class SealError(SandboxError):
    """A sandbox that was started has a hole. Nothing of an agent was in it yet, so none can bring this about."""

    def __init__(self, problem: str, fix: str = "", kinds: frozenset[HoleKind] = frozenset()) -> None:
        super().__init__(problem, fix)
        self.kinds = kinds


async def verify_seal(box: Sandbox, task: Task | None) -> None:
    """Look from inside for hidden tests, git objects that the base commit does not reach, whatever answers on a network
    and what the kernel's locks leave open.

    Args:
        box: A sandbox in which nothing ran yet.
        task: The task whose tests must be hidden; ``None`` for one without Lego-RL's specification.

    Raises:
        SealError: The sandbox has a hole; what it says to do fits the kinds of the holes.
        SandboxError: It did not answer.
    """
    paths, files = await asyncio.to_thread(_hidden, task, box.image.pristine)
    hidden = (*ALWAYS_HIDDEN, *(f"{box.image.workdir}/{path}" for path in paths))
    holes = await box.holes(SealRequest(hidden, box.image.history, files))
    if holes:
        said = "; ".join(hole.said for hole in holes)
        kinds = frozenset(hole.kind for hole in holes)
        raise SealError(f"the sandbox is not sealed: {said}", _way_out(holes, box.surroundings.network_advice), kinds)


def _way_out(holes: list[Hole], network: str) -> str:
    return "; ".join(dict.fromkeys(WAYS_OUT.get(hole.kind, network) for hole in holes))


def _hidden(task: Task | None, pristine: Path) -> tuple[tuple[str, ...], tuple[HiddenFile, ...]]:
    if task is None:
        return (), ()
    return hidden_tests(task, pristine), hidden_files(task, pristine)


def hidden_tests(task: Task, pristine: Path) -> tuple[str, ...]:
    """Test files of the task that must not be in the work tree: those that the pristine tree does not have."""
    names = task.tests.test_files if isinstance(task.tests, TestSpec) else ()
    return tuple(name for name in names if not os.path.lexists(pristine / name))
