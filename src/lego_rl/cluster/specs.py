"""From a row of verl's dataset to the specification of a trial.

Invariant: a trial's id follows from the row, the prompt's uid, the step and the session, so that a prompt which verl
gives out again after a restart under the same step finds what was paid for, and no two prompts share a trial.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lego_rl.config.recipe import Recipe
from lego_rl.errors import ConfigError
from lego_rl.gateway.budget import Budget
from lego_rl.rollout.labels import train_label
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.tasks.index.file import is_index

_SEED_BYTES = 7
_INDEX = "make the dataset with lego-rl tasks index"


@dataclass(frozen=True)
class RowSpecs:
    """Builds specifications from dataset rows.

    Attributes:
        recipe: The resolved recipe.
    """

    recipe: Recipe

    def of(self, row: Mapping[str, Any], sampling: Mapping[str, Any]) -> TrialSpec:
        """The trial of one session of a prompt.

        Args:
            row: The dataset row's columns, and verl's ``uid``, ``session_id`` and ``global_steps``.
            sampling: verl's sampling parameters.

        Raises:
            ConfigError: The row is none of an index of tasks, or sampling is not from the whole distribution.
        """
        info = row.get("extra_info")
        if not isinstance(info, Mapping) or not info.get("harbor_task_path"):
            raise ConfigError("a row of the dataset has no extra_info.harbor_task_path", _INDEX)
        if sampling.get("top_p", 1.0) != 1.0 or sampling.get("top_k", -1) not in {-1, 0}:
            raise ConfigError(
                f"top_p {sampling.get('top_p')} and top_k {sampling.get('top_k')} cut the distribution",
                "set rollout.top_p=1.0 and rollout.top_k=-1, under val_kwargs as well",
            )
        task = self.task(str(info["harbor_task_path"]))
        split, attempt = str(info.get("split") or "default"), int(row["session_id"])
        label, group = self._label(split, int(row["global_steps"])), f"{task.name}.{row['uid']}"
        return TrialSpec(
            task=task,
            label=label,
            group=group,
            attempt=attempt,
            attempts=max(attempt + 1, self.recipe.rollout.group_size),
            seed=self._seed(label, group, attempt),
            temperature=float(sampling["temperature"]),
            budget=Budget(**self.recipe.budget.model_dump()),
            harness=HarnessChoice(self.recipe.harness.name, self.recipe.harness.options),
            family=str(row.get("family") or "unknown"),
            split=split,
            content_digest=_text(row.get("content_digest")),
        )

    def task(self, path: str) -> Path:
        """A task's folder: an index names it relative to its own."""
        pool = Path(self.recipe.tasks.pool)
        return Path(path) if Path(path).is_absolute() else (pool.parent if is_index(pool) else pool) / path

    def _label(self, split: str, step: int) -> str:
        """verl counts steps from 1, trials from 0; what is evaluated is of no step."""
        return train_label(step - 1) if split == self.recipe.tasks.train else f"heldout/step-{step:04d}"

    def _seed(self, label: str, group: str, attempt: int) -> int:
        place = f"{self.recipe.run.seed}/{label}/{group}/{attempt}".encode()
        return int.from_bytes(hashlib.sha256(place).digest()[:_SEED_BYTES])


def _text(value: object) -> str | None:
    return str(value) if value else None
