"""Who is told of trials while they run."""

from typing import Protocol

from lego_rl.rollout.progress import Progress


class TrialWatcher(Protocol):
    """Is told of every trial."""

    def trial(self, event: Progress) -> None:
        """Something happened to a trial."""
        ...
