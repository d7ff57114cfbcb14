"""The held-out evaluation of a training run: the same tasks and the same number of trials before and after."""

from collections.abc import Sequence

from lego_rl.tasks.task import Task


def spread_over_families(tasks: Sequence[Task], count: int) -> list[Task]:
    """Choose `count` tasks, as evenly over the families as their sizes allow.

    Deterministic: families in alphabetical order take turns, each giving its tasks in the order of their ids.

    Args:
        tasks: Held-out tasks.
        count: How many to choose; all of them where there are fewer.
    """
    queues: dict[str, list[Task]] = {}
    for task in sorted(tasks, key=lambda task: task.id):
        queues.setdefault(task.family, []).append(task)
    chosen: list[Task] = []
    while len(chosen) < count and any(queues.values()):
        for family in sorted(queues):
            if queues[family] and len(chosen) < count:
                chosen.append(queues[family].pop(0))
    return chosen
