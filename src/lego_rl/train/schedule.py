"""Which tasks a step trains on.

Invariant: a function of (seed, step) alone, so that a resumed run sees the tasks that the killed one would have seen.
Tasks are drawn without replacement: every task is seen once before any is seen twice.
"""

import random
from collections.abc import Sequence


def tasks_of_step[T](tasks: Sequence[T], step: int, per_step: int, seed: int) -> list[T]:
    """The tasks of one step.

    Args:
        tasks: The training split, in a fixed order.
        step: Step number, from 0.
        per_step: How many tasks a step takes; at most ``len(tasks)``.
        seed: The run's seed.

    Returns:
        ``per_step`` different tasks, except where a step spans two epochs and both chose the same one.

    Raises:
        ValueError: `per_step` is not within ``1..len(tasks)``.
    """
    if not 1 <= per_step <= len(tasks):
        raise ValueError(f"a step of {per_step} tasks does not fit a split of {len(tasks)}")
    first = step * per_step
    return [
        tasks[_shuffled(len(tasks), position // len(tasks), seed)[position % len(tasks)]]
        for position in range(first, first + per_step)
    ]


def _shuffled(count: int, epoch: int, seed: int) -> list[int]:
    order = list(range(count))
    random.Random(f"{seed}/{epoch}").shuffle(order)
    return order
