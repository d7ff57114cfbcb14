"""How much of its repository's history a task shows, and when."""

from dataclasses import dataclass
from typing import Literal

type AgentHistory = Literal["reachable", "single-commit", "none"]
type GradingHistory = Literal["same", "tags", "full"]


@dataclass(frozen=True)
class History:
    """``[metadata]`` of a ``task.toml``, ``base_commit``, ``history`` and ``grading_history``, and what goes with it.

    Attributes:
        base_commit: Full id of the commit that the agent starts from; the shipped repository's ``HEAD`` where unset.
        agent: What the agent phase has: ``reachable``, everything the base commit reaches and nothing else;
            ``single-commit``, the base commit's tree under one commit without parents, or the work tree where no
            repository is shipped; ``none``, no repository.
        grading: What grading has: the ``same`` as the agent phase; ``tags``, what the base commit reaches and the tags
            of its past; ``full``, the repositories as they are shipped, with the fix where they hold it.
        withheld: Ids of files that no history of the agent phase may have unless its base commit has them, and what
            each is (`withheld`).
    """

    base_commit: str | None = None
    agent: AgentHistory = "reachable"
    grading: GradingHistory = "same"
    withheld: tuple[tuple[str, str], ...] = ()


DEFAULT_HISTORY = History()
"""Of a task that says nothing of it."""
