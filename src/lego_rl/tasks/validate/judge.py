"""From some gradings of a task to a verdict and a reason."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from lego_rl.tasks.task import TestSpec
from lego_rl.tasks.validate.grader import Graded, Variant

type Judgement = Literal[
    "valid",
    "empty_solves",
    "passes_before",
    "fails_before",
    "gold_fails",
    "flaky",
    "nothing_decides",
    "not_graded",
    "unusable",
    "fault",
]
"""What validation found; `MEANINGS` says what each is."""

MEANINGS: Mapping[Judgement, str] = {
    "valid": "no change earns 0 and the solution earns 1, every time",
    "empty_solves": "no change earns 1",
    "passes_before": "some FAIL_TO_PASS pass without the fix",
    "fails_before": "some PASS_TO_PASS fail without the fix",
    "gold_fails": "the solution does not earn 1",
    "flaky": "a test ended differently from one time to the next",
    "nothing_decides": "no test fails without the solution and passes with it, every time",
    "not_graded": "the tests did not run to their end",
    "unusable": "the task cannot be read or graded, or a trial would refuse it",
    "fault": "sandboxes or a package could not be had; mend that and run the command again",
}

UNGRADED: frozenset[Judgement] = frozenset({"unusable", "fault"})
"""Of tasks that were not graded: what is missing may be there the next time."""

SHOWN = 3
"""Tests that a reason names."""


class Attempt(BaseModel):
    """One grading, as it is kept.

    Attributes:
        variant: What was graded.
        reward: 0 or 1.
        ended: How it ended.
        seconds: Wall-clock seconds.
        not_passed: Tests of either list that did not pass → how they ended; the first `KEPT`.
    """

    model_config = ConfigDict(frozen=True)

    variant: Variant
    reward: int
    ended: str
    seconds: float
    not_passed: dict[str, str]


KEPT = 50


class Validation(BaseModel):
    """What is known of a task.

    Attributes:
        task: Its id.
        digest: Of every byte of its directory (`tasks.content`).
        before: The same before its tests were recorded; empty where none were.
        sandboxes: Names the sandboxes that it was graded in (`Grader.sandboxes`).
        times: How often each variant was graded.
        judgement: What came of it.
        reason: Why, in one line; empty for a valid task.
        flaky: Tests that ended differently from one time to the next.
        attempts: The gradings.
    """

    model_config = ConfigDict(frozen=True)

    task: str
    digest: str
    before: str = ""
    sandboxes: str = ""
    times: int
    judgement: Judgement
    reason: str = ""
    flaky: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = ()


def attempt(variant: Variant, graded: Graded) -> Attempt:
    """What is kept of a grading."""
    failed: dict[str, str] = {test: status for test, status in sorted(graded.tests.items()) if status != "passed"}
    kept = dict(list(failed.items())[:KEPT])
    return Attempt(
        variant=variant, reward=graded.reward, ended=graded.ended, seconds=round(graded.seconds, 3), not_passed=kept
    )


def judge(
    spec: TestSpec | None, empty: Sequence[Graded], gold: Sequence[Graded]
) -> tuple[Judgement, str, tuple[str, ...]]:
    """Judge a task by its gradings.

    Args:
        spec: Its test specification; ``None`` for a task with a script of its own, where the rewards are all there is.
        empty: Gradings without a change.
        gold: Gradings of its solution.

    Returns:
        The verdict, a reason (empty where it is valid), and the flaky tests.
    """
    if (cut_short := not_ended(empty, gold)) is not None:
        return "not_graded", cut_short, ()
    flaky = tuple(sorted({*_differing(empty), *_differing(gold)}))
    if flaky:
        return "flaky", f"not the same every time: {_named(flaky)}", flaky
    if len({each.reward for each in empty}) > 1 or len({each.reward for each in gold}) > 1:
        return "flaky", "not the same reward every time", ()
    if spec is not None and (found := _wrong_before(spec, empty)) is not None:
        return (*found, ())
    if any(each.reward for each in empty):
        return "empty_solves", "it earns 1 without a change", ()
    if not all(each.reward for each in gold):
        failed = sorted({test for each in gold for test, status in each.tests.items() if status != "passed"})
        return "gold_fails", f"not passed with its solution: {_named(failed)}" if failed else "it earns 0", ()
    return "valid", "", ()


def not_ended(empty: Sequence[Graded], gold: Sequence[Graded]) -> str | None:
    """Which grading did not run to its end, and how it ended: it says nothing of the tests that it did not reach."""
    for name, some in (("without a change", empty), ("with its solution", gold)):
        for each in some:
            if each.ended != "completed":
                return f"{name}: {each.ended.replace('_', ' ')}"
    return None


def _wrong_before(spec: TestSpec, empty: Sequence[Graded]) -> tuple[Judgement, str] | None:
    passing = [test for test in spec.fail_to_pass if any(each.tests.get(test) == "passed" for each in empty)]
    failing = [test for test in spec.pass_to_pass if any(each.tests.get(test) != "passed" for each in empty)]
    if len(passing) == len(spec.fail_to_pass):
        return "empty_solves", "every FAIL_TO_PASS passes without a change"
    if passing:
        return "passes_before", f"passed without a change: {_named(passing)}"
    if failing:
        return "fails_before", f"not passed without a change: {_named(failing)}"
    return None


def _differing(some: Sequence[Graded]) -> Iterator[str]:
    """Tests that passed in one grading and not in another."""
    tests = {test for each in some for test in each.tests}
    for test in tests:
        if len({each.tests.get(test) == "passed" for each in some}) > 1:
            yield test


def _named(tests: Iterable[str]) -> str:
    listed = sorted(tests)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more
