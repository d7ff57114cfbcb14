"""From what a test command left to 0 or 1: the last step of grading, and of grading again without running anything."""

from typing import Literal

from lego_rl.errors import TaskError
from lego_rl.sandbox.reward_file import InvalidRewardError, read_reward
from lego_rl.sandbox.verdict import Verdict
from lego_rl.tasks.reports import Report, TestStatus, parser_named
from lego_rl.tasks.task import TestScript, TestSpec


def statuses_of(spec: TestSpec, report: Report) -> dict[str, TestStatus]:
    """The status of every test that a specification names."""
    return parser_named(spec.parser).statuses(report, (*spec.fail_to_pass, *spec.pass_to_pass))


def earns(statuses: dict[str, TestStatus]) -> Literal[0, 1]:
    """1 where there are tests and all passed."""
    return 1 if statuses and all(status == "passed" for status in statuses.values()) else 0


def reward_from_report(tests: TestSpec | TestScript, verdict: Verdict) -> Literal[0, 1]:
    """The reward that a stored verdict's report gives.

    Args:
        tests: The task's.
        verdict: As it is stored.

    Raises:
        TaskError: The report was too large to be kept.
    """
    if verdict.ended != "completed":
        return 0  # nothing that a report says changes that the tests did not come to their end
    if not verdict.report:
        raise TaskError("the report was too large to be kept", "grade from the patch: --from patch")
    match tests:
        case TestSpec() as spec:
            return earns(statuses_of(spec, Report(verdict.report, verdict.exit_status)))
        case TestScript():
            try:
                return _reward(verdict.report)
            except InvalidRewardError:
                return 0


def _reward(report: bytes) -> Literal[0, 1]:
    """What a script reported; which of its two files it was is not kept, and only one of them is JSON."""
    try:
        return read_reward(report, text=b"") or 0
    except InvalidRewardError:
        return read_reward(b"", text=report) or 0
