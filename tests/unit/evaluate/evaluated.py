"""Trials as an evaluation reads them, made by hand."""

from lego_rl.evaluate.trials import EvaluatedTrial
from lego_rl.rollout.faults import Ended


def trial(task: str, attempt: int, reward: int | None, **changed: object) -> EvaluatedTrial:
    """A trial; without a reward an infrastructure fault took it."""
    ended = Ended.FINISHED if reward is not None else Ended.SANDBOX_START
    known: dict[str, object] = {
        "id": f"{task}-{attempt}",
        "label": "evaluation",
        "task": task,
        "group": task.partition("-")[0],
        "attempt": attempt,
        "reward": reward,
        "ended": ended,
        "detail": "",
        "turns": 4,
        "sampled": 100,
        "seconds": 2.0,
    }
    return EvaluatedTrial(**known | changed)  # type: ignore[arg-type]


def trials(**rewards: list[int | None]) -> list[EvaluatedTrial]:
    """Of every task as many attempts as it has rewards; underscores stand for hyphens."""
    return [
        trial(task.replace("_", "-"), attempt, reward)
        for task, own in rewards.items()
        for attempt, reward in enumerate(own)
    ]
