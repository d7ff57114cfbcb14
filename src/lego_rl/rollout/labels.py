"""Labels of trials: what a trial of a run is part of. Whoever sorts trials asks here."""

BEFORE, AFTER = "heldout/before", "heldout/after"
"""Trials of the two evaluations."""

TRAIN = "train/"
"""How the labels of training steps begin."""

DEMONSTRATION = "demonstration"
"""Trials of a capture: a demonstrator in the policy's place."""


def train_label(step: int) -> str:
    """Label of the trials of a training step, from 0."""
    return f"{TRAIN}step-{step:04d}"


ROLLOUT = "rollout"
"""Trials of ``lego-rl rollout``."""


def may_be_selected(label: str) -> bool:
    """Whether a selection may hold trials of this label: rollouts too, which are of no evaluation."""
    return label == ROLLOUT or may_be_learned_from(label)


def may_be_learned_from(label: str) -> bool:
    """Whether a model may be fine-tuned on trials of this label: never on those of a held-out evaluation."""
    return label == DEMONSTRATION or label.startswith(TRAIN)
