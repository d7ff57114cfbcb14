"""A first step whose tool calls could not be read at all ends the run: the parser is wrong, not the policy."""

from pathlib import Path

import pytest

from lego_rl.errors import RunError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.trajectory import Accounting
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, TrialRecord
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.tool_parsing import refuse_unreadable

SPEC = TrialSpec(
    task=Path("task"),
    label="train/0",
    attempt=0,
    attempts=2,
    seed=1,
    temperature=1.0,
    budget=Budget(),
    harness=HarnessChoice("claude-code", {}),
    family="family",
    split="train",
)


def record(calls: int, faults: int) -> TrialRecord:
    outcome = Outcome(reward=0, ended=Ended.FINISHED, verdict=None, detail="")
    accounting = Accounting(calls=9, tool_calls=calls, tool_parse_faults=faults)
    return TrialRecord(SPEC, outcome, None, PhaseSeconds(), accounting)


@pytest.mark.parametrize("counts", [[], [(0, 0)], [(5, 0), (1, 4)], [(0, 99), (1, 0)], [(0, 7), (0, 8)]])
def test_a_policy_that_calls_tools_or_none_or_says_too_little_goes_on(counts: list[tuple[int, int]]) -> None:
    refuse_unreadable([record(*count) for count in counts])


def test_calls_of_which_none_could_be_parsed_end_the_run() -> None:
    with pytest.raises(RunError, match=r"\[tool_parse\] none of the tool calls in 17 answers"):
        refuse_unreadable([record(0, 9), record(0, 8), record(0, 0)])
