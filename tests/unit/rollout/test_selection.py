"""Rejection sampling: what is chosen, what is left out and by which rule, and that tokens come back as they were."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from runner_kit import record, specs

from lego_rl.commands.sft_export import chats
from lego_rl.errors import RunError
from lego_rl.gateway.trajectory import Accounting
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.selection import SelectionSettings, select
from lego_rl.rollout.selection_folder import SelectionFolder
from lego_rl.sandbox.verdict import Change, Patch, Verdict

DEFAULTS = SelectionSettings()


def made(number: int, change: bytes = b"", *, sampled: int = 10, task: str = "one", **outcome: object) -> TrialRecord:
    """A solved trial whose change is `change`, or one of its own."""
    (spec,) = (replace(each, attempt=0, seed=number, task=Path("tasks") / task) for each in specs(1))
    found = record(spec)
    return replace(
        found,
        outcome=replace(found.outcome, **{"reward": 1} | outcome),
        accounting=Accounting(calls=3, sampled_tokens=sampled),
        patch=Patch((Change("a.py", "file", change or str(number).encode()),)),
    )


def test_each_rule_leaves_out_its_own() -> None:
    evaluated = made(1)
    evaluated = replace(evaluated, spec=replace(evaluated.spec, label="heldout/after"))
    rolled_back = Verdict(1, rolled_back={"tests/test_a.py": "task's own"})
    broken = {
        "held_out": evaluated,
        "fault": made(2, reward=None, ended=Ended.SANDBOX_START),
        "not_solved": made(3, reward=0),
        "not_finished": made(4, ended=Ended.TURN_BUDGET),
        "malformed": replace(made(5), accounting=Accounting(tool_parse_faults=1)),
        "tests_touched": made(6, verdict=rolled_back),
        "too_long": replace(made(7), accounting=Accounting(calls=9)),
    }
    for rule, one in broken.items():
        found = select([one, made(8)], DEFAULTS.model_copy(update={"max_calls": 8}))
        assert ([each.spec.seed for each in found.chosen], dict(found.left_out)) == ([8], {rule: 1}), rule


def test_of_the_same_change_the_shortest_is_kept() -> None:
    found = select(
        [made(1, b"x", sampled=9), made(2, b"x", sampled=5), made(3, b"y"), made(4, b"x", task="two")], DEFAULTS
    )
    assert [each.spec.seed for each in found.chosen] == [2, 3, 4]
    assert dict(found.left_out) == {"same_change": 1}


def test_a_task_gives_as_many_as_are_asked_for() -> None:
    many = [made(number, sampled=20 - number) for number in range(5)]
    found = select(many, DEFAULTS.model_copy(update={"per_task": 2}))
    assert [each.spec.seed for each in found.chosen] == [3, 4]
    assert dict(found.left_out) == {"per_task": 3}


def test_rollouts_and_training_may_be_learned_from() -> None:
    labels = {"rollout": 1, "train/step-0001": 1, "demonstration": 1, "evaluation": 0, "heldout/before": 0}
    for label, count in labels.items():
        one = made(1)
        found = select([replace(one, spec=replace(one.spec, label=label))], DEFAULTS)
        assert len(found.chosen) == count, label


def test_a_selection_is_written_whole_and_read_back(tmp_path: Path) -> None:
    chosen = select([made(1), made(2), made(3, reward=0)], DEFAULTS)
    folder = SelectionFolder(tmp_path / "out")
    folder.write(chosen, {"settings": DEFAULTS.model_dump()})
    assert [each.spec.id for each in folder.records()] == [each.spec.id for each in chosen.chosen]
    said = json.loads((tmp_path / "out" / "selection.json").read_text())
    assert (said["seen"], said["left_out"]) == (3, {"not_solved": 1})
    with pytest.raises(RunError, match="is there already"):
        folder.write(chosen, {})


def test_a_trial_that_captured_nothing_has_no_conversation() -> None:
    assert [*chats(made(1))] == []
