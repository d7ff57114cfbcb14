"""Which tasks a step trains on.

Invariant: a function of (seed, step) alone, so that a resumed run sees the tasks that the killed one would have seen.
Tasks are drawn without replacement: every task is seen once before any is seen twice, and no step has one twice.
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
        ``per_step`` different tasks.

    Raises:
        ValueError: `per_step` is not within ``1..len(tasks)``.
    """
    if not 1 <= per_step <= len(tasks):
        raise ValueError(f"a step of {per_step} tasks does not fit a split of {len(tasks)}")
    first = step * per_step
    epoch, place = divmod(first, len(tasks))
    order = _order(len(tasks), epoch, per_step, seed)
    chosen = order[place : place + per_step]
    rest = per_step - len(chosen)
    return [tasks[index] for index in chosen + _order(len(tasks), epoch + 1, per_step, seed)[:rest]]


def _order(count: int, epoch: int, per_step: int, seed: int) -> list[int]:
    """The order of one epoch: shuffled, but what a step shared with the epoch before has drawn there comes last."""
    order: list[int] = []
    for number in range(epoch + 1):
        shared = (number * count) % per_step
        drawn = set(order[count - shared :])
        shuffled = list(range(count))
        random.Random(f"{seed}/{number}").shuffle(shuffled)
        order = [i for i in shuffled if i not in drawn] + [i for i in shuffled if i in drawn]
    return order
