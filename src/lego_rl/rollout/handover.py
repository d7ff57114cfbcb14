"""What a trial begins with beside its task: the change that an earlier trial made, and words about it.

Invariant: a change is put into the new trial's sandbox as it is put into a grading one, by the host and before the
harness starts. The trial's own change is still all that differs from the pristine tree, so it is graded as any other.
Words and change are an agent's: they reach another agent's prompt and sandbox, and nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lego_rl.sandbox.patch_text import patch_text
from lego_rl.sandbox.verdict import Patch

DIFF_CHARS = 30_000
"""Most of a change that an instruction quotes; the whole of it lies in the work tree."""

type Retold = Callable[[str, str], str]
"""The instruction of a task and the text of a change → the instruction of the trial that takes the change over."""


@dataclass(frozen=True)
class Handover:
    """An earlier trial's change, and what is said of it.

    Attributes:
        patch: The change.
        retold: What the harness is told in place of the task's instruction.
    """

    patch: Patch
    retold: Retold

    def instruction(self, own: str, pristine: Path) -> str:
        """What the harness is told; it reads files, and belongs off the event loop.

        Args:
            own: The task's instruction.
            pristine: The tree that the change is one of.
        """
        text = patch_text(self.patch, pristine).decode("utf-8", errors="replace")
        if len(text) > DIFF_CHARS:
            text = f"{text[:DIFF_CHARS]}\n[{len(text) - DIFF_CHARS} more characters; the files have all of it]\n"
        return self.retold(own, text)
