"""Which trials a model may learn from."""

import pytest

from lego_rl.rollout.labels import AFTER, BEFORE, DEMONSTRATION, TRAIN, may_be_learned_from, train_label


def test_training_steps_are_numbered_so_that_they_sort() -> None:
    assert train_label(3) == "train/step-0003"
    assert train_label(9).startswith(TRAIN)
    assert train_label(9) < train_label(10)


@pytest.mark.parametrize("label", [DEMONSTRATION, train_label(0), train_label(12)])
def test_demonstrations_and_training_trials_may_be_learned_from(label: str) -> None:
    assert may_be_learned_from(label)


@pytest.mark.parametrize("label", [BEFORE, AFTER, "heldout/other", "test", "train", "retrain/step-0000"])
def test_nothing_else_may(label: str) -> None:
    assert not may_be_learned_from(label)
