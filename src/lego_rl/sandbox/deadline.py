"""An end for work in a thread, which nobody can stop from outside: it looks at the clock itself, at every step."""

import time
from dataclasses import dataclass, field

from lego_rl.errors import SandboxError


@dataclass(frozen=True)
class Deadline:
    """The budget of one piece of work, from when this is made.

    Attributes:
        seconds: How long it may take.
        work: What it is, as the subject of a sentence.
        fix: What to do when the time is up.
    """

    seconds: float
    work: str
    fix: str
    _end: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_end", time.monotonic() + self.seconds)

    def check(self) -> None:
        """Go on, or not.

        Raises:
            SandboxError: The time is up.
        """
        if time.monotonic() > self._end:
            raise SandboxError(f"{self.work} did not end within {self.seconds:.0f} s", self.fix)
