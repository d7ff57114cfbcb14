"""``lego-rl regrade``: what is graded again, what is not graded twice, and whose verdict is another one."""

import json
from pathlib import Path

import pytest
from eval_desk import TASKS, Desk, Stopped, desk_in, verdict_of

from lego_rl.commands.regrade import regrade_sample
from lego_rl.evaluate.made_from import From
from lego_rl.evaluate.regrade import Again, Regraded, Stored, drawn, stored
from lego_rl.evaluate.regraded_file import RegradedFile
from lego_rl.rollout.store import RunDirectory
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.task_grader import SandboxedGrader
from lego_rl.sandbox.verdict import Patch, Verdict
from lego_rl.tasks.task import Task

CELLS = [f"{model}--{harness}" for model in ("strong", "weak") for harness in ("claude-code", "opencode")]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    found = desk_in(tmp_path, monkeypatch, capsys)
    found.run("eval", "run", "evaluation.toml")
    return found


def cell(name: str) -> Path:
    return Path("evaluation", "cells", name, "0-of-1")


def changed(folder: Path) -> tuple[str, int]:
    """Give the first trial of a run the reward that it did not earn; its id, and what it earned."""
    path = min(folder.glob("trials/*/outcome.json"))
    content = json.loads(path.read_text())
    earned = content["outcome"]["reward"]
    content["outcome"]["reward"] = 1 - earned
    path.write_text(json.dumps(content))
    return path.parent.name, earned


def test_all_cells_are_graded_again_and_told_apart(desk: Desk) -> None:
    out = desk.run("regrade", "evaluation", "--from", "report")
    assert [line.split()[:3] for line in out.splitlines()[1:]] == [[f"{name}/0-of-1", "20", "20"] for name in CELLS]
    (line,) = desk.run("regrade", str(cell(CELLS[1])), "--from", "report").splitlines()[1:]
    assert line.split()[:3] == ["0-of-1", "20", "20"]


@pytest.mark.parametrize("name", CELLS)
def test_a_wrong_verdict_is_named_whichever_cell_it_is_in(name: str, desk: Desk) -> None:
    trial, earned = changed(cell(name))
    said = desk.run("regrade", "evaluation", "--from", "report", code=1)
    assert "1 of 80 verdicts are not what they were" in said
    content = json.loads((cell(name) / "regraded-from-report.json").read_text())
    assert content["delta"]["false_zeros" if earned else "false_ones"] == [trial]


def test_a_run_without_verdicts_agrees_with_nothing(desk: Desk) -> None:
    desk.lost |= {(task, 0) for task in TASKS}
    changes = ("evaluation.dir=lost", "evaluation.attempts=1", "tasks.count=1")
    desk.run("eval", "run", "evaluation.toml", *(word for change in changes for word in ("--set", change)), code=1)
    first = Path("lost", "cells", "weak--claude-code", "0-of-1")
    said = desk.run("regrade", str(first), "--from", "report", code=1)
    assert "has no trial with a verdict" in said


def test_a_pass_that_was_stopped_goes_on(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    grade, graded, left = Again.grade, [], [33]

    async def counted(again: Again, one: Stored, source: From) -> Regraded:
        if left[0] == 0:
            raise Stopped
        left[0] -= 1
        graded.append(one.folder.path)
        return await grade(again, one, source)

    monkeypatch.setattr(Again, "grade", counted)
    with pytest.raises(Stopped):
        desk.run("regrade", "evaluation", "--from", "report", "--at-once", "1")
    assert not list(Path("evaluation").rglob("regraded*.json"))
    left[0] = 10**9
    desk.run("regrade", "evaluation", "--from", "report")
    assert len(graded) == len(set(graded)) == 80
    assert not list(Path("evaluation").rglob("regraded*.jsonl"))
    desk.run("regrade", "evaluation", "--from", "report")
    assert len(graded) == 160, "a whole pass is no reason not to look again"


def test_a_line_of_another_reward_counts_for_nothing(desk: Desk) -> None:
    place = cell(CELLS[0])
    trials = list(stored(RunDirectory(place)))
    file = RegradedFile(place, From.REPORT)
    for each in trials[:3]:
        file.add(Regraded(each.trial, each.reward, each.reward, "as it was"))
    file.add(Regraded(trials[3].trial, 1 - trials[3].reward, 1, ""))
    file.add(Regraded(trials[4].trial, trials[4].reward, None, "it cannot be graded again"))
    with (place / "regraded-from-report.jsonl").open("a") as damaged:
        damaged.write('{"trial": "half a li')
    assert set(file.begun(trials)) == {each.trial for each in trials[:3]}


def test_the_sample_of_an_evaluation_grows_with_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sandboxes are stood in for by tests that all pass."""
    ran: list[str] = []

    async def verdict(_: SandboxedGrader, task: Task, __: Patch) -> Verdict:
        ran.append(task.id)
        found = verdict_of(task, 1)
        assert found is not None
        return found

    monkeypatch.setattr(SandboxedGrader, "verdict", verdict)
    place, settings = cell(CELLS[0]), SandboxSettings()
    for count, more in ((5, 5), (5, 0), (12, 7), (3, 0)):
        ran.clear()
        regrade_sample(place, count, 2, settings, "evaluation")
        assert len(ran) == more
    delta = RegradedFile(place, From.PATCH).delta()
    assert delta is not None
    assert delta.trials == 12
    assert report_says(desk) == 12


def report_says(desk: Desk) -> int:
    """Trials of the first cell that the report says were graded again."""
    desk.run("eval", "report", "evaluation")
    return int(json.loads(Path("evaluation/report.json").read_text())["regraded"][CELLS[0]]["trials"])


def test_of_more_trials_a_sample_keeps_what_further_ones_do_not_displace(desk: Desk) -> None:
    trials = list(stored(RunDirectory(cell(CELLS[0]))))
    for size in range(len(trials)):
        for count in (0, 1, 7):
            few, all_ = drawn(trials[:size], count), drawn(trials, count)
            assert len(few) == min(size, count)
            assert {each.trial for each in all_} & {each.trial for each in trials[:size]} <= {
                each.trial for each in few
            }
