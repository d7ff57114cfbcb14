"""What leaves a sandbox: the agent's change (`Patch`) and what its tests say about it (`Verdict`)."""

from dataclasses import dataclass, field
from typing import Literal

from lego_rl.tasks.reports.status import TestStatus

type ChangeKind = Literal["file", "symlink", "deleted"]
"""What a path is after the agent's work."""

type GradingEnd = Literal["completed", "not_applied", "timed_out", "died", "no_report", "invalid_reward"]
"""How grading ended. ``not_applied``: the patch could not be written. ``timed_out``: the test command reached its time
limit. ``died``: the grading sandbox ended before the command did, and nothing says that somebody outside ended it.
``no_report``: the command ended and left none. ``invalid_reward``: the task's own script reported something that is
neither 0 nor 1."""


@dataclass(frozen=True)
class Change:
    """One path that differs from the pristine tree.

    Attributes:
        path: Relative to the work directory, POSIX form, never absolute and without ``..``.
        kind: What the path is now.
        content: New bytes of a file, or the target of a symlink; empty for a deletion.
        executable: Whether a file has its execute bit set.
    """

    path: str
    kind: ChangeKind
    content: bytes = b""
    executable: bool = False


@dataclass(frozen=True)
class Patch:
    """The agent's change to the work directory, computed on the host from file trees alone.

    Attributes:
        changes: Sorted by path.
        dropped: Paths that differ and are not carried over: path → reason (git directory, byte code, metadata…).
        more_dropped: Reason → how many more paths are not carried over than `dropped` has room to name.
        too_large: Whether a path is not carried over that another size of the change would not have cost.
    """

    changes: tuple[Change, ...] = ()
    dropped: dict[str, str] = field(default_factory=dict)
    more_dropped: dict[str, int] = field(default_factory=dict)
    too_large: bool = False


@dataclass(frozen=True)
class Verdict:
    """What the task's own tests say about a patch, in a sandbox the agent never touched.

    Attributes:
        reward: 1 where grading was completed and every FAIL_TO_PASS and PASS_TO_PASS test passed, else 0.
        tests: Status of every test the specification names; empty where the task's own script decides.
        rolled_back: Changed paths of which grading kept the task's own state, or a part of it → why.
        log: Output of the test command, for people and for regrading.
        seconds: Wall-clock seconds of the grading.
        ended: How grading ended.
        report: What the test command left, as it is, for regrading; empty where it is too large to keep.
        exit_status: Exit status of the test command. It decides nothing.
    """

    reward: Literal[0, 1]
    tests: dict[str, TestStatus] = field(default_factory=dict)
    rolled_back: dict[str, str] = field(default_factory=dict)
    log: str = ""
    seconds: float = 0.0
    ended: GradingEnd = "completed"
    report: bytes = b""
    exit_status: int | None = None
