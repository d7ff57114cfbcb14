"""What has no tokens is never a training row, and what is masked changes no gradient."""

from pathlib import Path

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_moe import honest, moe, segment, trials

from lego_rl.rollout.faults import FAULT_TABLE, Ended
from lego_rl.train.batch import TrainingTrial, select
from lego_rl.train.settings import OptimizerSettings, TrainSettings
from lego_rl.train.trainer import BatchShape, Trainer

masks = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=5), max_size=3)
some_trials = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([0, 1, None]), masks), min_size=1, max_size=12)


@given(some_trials, st.integers(1, 3))
def test_a_trial_without_tokens_is_never_a_training_row(
    drawn: list[tuple[str, int | None, list[list[int]]]], updates: int
) -> None:
    made = [
        TrainingTrial(f"t{n}", group, reward, tuple(segment([7] * (1 + len(m)), [0, *m]) for m in several))  # type: ignore[arg-type]
        for n, (group, reward, several) in enumerate(drawn)
    ]
    tokens = {trial.trial_id: trial.trainable_tokens for trial in made}
    rewards = {trial.trial_id: trial.reward for trial in made}
    selection = select(made, updates)
    rows = [row for each in (*selection.updates, selection.silent) for row in each]
    for row in rows:
        assert tokens[row.trial_id] > 0
        assert row.segment.loss_mask.any()
        assert rewards[row.trial_id] is not None
    trained = {row.trial_id for each in selection.updates for row in each}
    assert selection.trials == len(trained)
    assert sum(selection.excluded_trials.values()) == len(made) - len(trained)


def weights(rewards: list[int | None], *, kept: slice) -> list[torch.Tensor]:
    """The policy after a step on one group."""
    shape = BatchShape(prompts=1, trials_per_prompt=4, temperature=1.0)
    one = Trainer(moe(), moe(), Path(), TrainSettings(optimizer=OptimizerSettings(lr=1e-2)), shape)
    group = trials(moe(), groups=1, size=4)
    batch = [TrainingTrial(t.trial_id, "g", r, t.segments) for t, r in zip(group, rewards, strict=True)][kept]  # type: ignore[arg-type]
    metrics = one.step(batch, honest())
    assert metrics.trials == 3
    return [tensor.clone() for tensor in one.state_dict().values()]


def test_a_step_with_a_masked_trial_is_the_step_without_it() -> None:
    """Mean 2/3 over three, and the divisor is the constant: the fourth trial adds no gradient and shifts none."""
    assert FAULT_TABLE[Ended.SANDBOX_KILLED].is_masked
    masked = weights([1, 1, 0, None], kept=slice(4))
    absent = weights([1, 1, 0, None], kept=slice(3))
    assert all(torch.equal(one, other) for one, other in zip(masked, absent, strict=True))
    before = list(moe().state_dict().values())
    assert any(not np.array_equal(one, other) for one, other in zip(masked, before, strict=True))
