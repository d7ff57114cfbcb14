"""What making tasks needs of a place where tests are run; `lego_rl.sandbox.tree_tests` is one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from lego_rl.tasks.make.tree import Tree

type RunEnd = Literal["completed", "timed_out", "died", "no_report"]
"""How a run of tests ended. ``died``: its sandbox ran into a limit. ``no_report``: the runner itself failed."""


@dataclass(frozen=True)
class TestRun:
    """One run of tests.

    Attributes:
        ended: How it ended.
        report: pytest's ``--junitxml``.
        log: What the command printed, bounded.
        seconds: Wall-clock seconds.
    """

    __test__ = False

    ended: RunEnd
    report: bytes
    log: str
    seconds: float


class Bench(Protocol):
    """A tree that is ready to be tested, with changes and without."""

    async def run(self, files: Mapping[str, bytes | None], command: str, timeout_sec: float) -> TestRun:
        """Run a test command on the tree with some files replaced, or deleted where the content is ``None``.

        Raises:
            SandboxError: The run could not be had; nothing in the tree can bring that about.
        """
        ...


class Runner(Protocol):
    """Somewhere that tests can be run, sealed off from this machine."""

    @property
    def sandboxes(self) -> str:
        """Names what a run depends on beside the tree: another name, and what was found out is found out again."""
        ...

    async def bench(self, tree: Tree) -> Bench:
        """Make a tree ready.

        Raises:
            SandboxError: It cannot be had.
        """
        ...
