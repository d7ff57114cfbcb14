"""A bound on how much is looked at, where how much there is to look at is a sandbox's to choose.

Invariant: it counts the work of the looking thread alone, so a machine that is busy with others ends no look.
"""

import time

WORK_SECONDS = 3.0


class TooMuchError(Exception):
    """There is more to look at than can be looked at in time."""


class Pace:
    """The bound of one look, which begins with it and in the thread that looks.

    Args:
        seconds: Processor time that the look may take.
    """

    def __init__(self, seconds: float = WORK_SECONDS) -> None:
        self._seconds = seconds
        self._end = time.thread_time() + seconds

    def step(self) -> None:
        """Go on, or not.

        Raises:
            TooMuchError: Enough has been done.
        """
        if time.thread_time() > self._end:
            raise TooMuchError(f"a look took more than {self._seconds:.0f} s of processor time")
