"""How much each row of a batch weighs: training laws 1 and 2 of the contract on verl's rows.

Invariant: the rows of a trial weigh 1 together, however many there are, and nothing where the trial's group says
nothing about which trials were better (fewer than two, or one verdict). Rows that verl adds to fill a batch weigh
nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lego_rl.train.advantages import Exclusion, group_advantages


@dataclass(frozen=True)
class BatchRow:
    """What of a row decides its weight.

    Attributes:
        key: verl's: prompt, session and number of the row, joined by underscores.
        reward: Of its trial.
        trained: Whether a token of it is trained.
        padding: Whether verl has added it to fill the batch.
    """

    key: str
    reward: float
    trained: bool
    padding: bool = False

    @property
    def trial(self) -> str:
        """Prompt and session."""
        return self.key.rpartition("_")[0]

    @property
    def group(self) -> str:
        """The prompt."""
        return self.trial.rpartition("_")[0]


@dataclass(frozen=True)
class RowWeights:
    """The weights of a batch.

    Attributes:
        weights: Of each row, in the order given.
        trials: Trials that contribute.
        excluded: Why trials contribute nothing: reason → trials.
    """

    weights: tuple[float, ...]
    trials: int
    excluded: dict[Exclusion, int]

    def metrics(self) -> dict[str, float]:
        """As verl's metrics."""
        return {
            "lego/trained_trials": float(self.trials),
            "lego/trained_rows": float(sum(weight > 0 for weight in self.weights)),
            **{f"lego/excluded/{reason}": float(trials) for reason, trials in self.excluded.items()},
        }


def row_weights(rows: Sequence[BatchRow]) -> RowWeights:
    """Weigh a batch of whole groups."""
    own = [row for row in rows if not row.padding]
    rewards = {row.trial: row.reward for row in own}
    groups = {row.trial: row.group for row in own}
    advantages = dict(
        zip(rewards, group_advantages(list(rewards.values()), [groups[trial] for trial in rewards]), strict=True)
    )
    segments = Counter(row.trial for row in own if row.trained)

    def weight(row: BatchRow) -> float:
        if row.padding or not row.trained or advantages[row.trial].exclusion is not None:
            return 0.0
        return 1.0 / segments[row.trial]

    excluded = Counter(a.exclusion for a in advantages.values() if a.exclusion is not None)
    return RowWeights(
        weights=tuple(weight(row) for row in rows),
        trials=len({row.trial for row in own if weight(row) > 0}),
        excluded=dict(excluded),
    )
