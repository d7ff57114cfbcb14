import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import record, write_run
from stories import STORIES, conversation
from typer.testing import CliRunner

from lego_rl.analysis.behaviour import Behaviour, Line, analyse, analyse_against, behaviour_of, compare_behaviour
from lego_rl.analysis.estimates import Estimate
from lego_rl.analysis.figures import TrialFigures, figures_of
from lego_rl.analysis.measures import MEASURES, K
from lego_rl.analysis.view import View
from lego_rl.cli import app
from lego_rl.errors import RunError
from lego_rl.evaluate.heldout import Score
from lego_rl.evaluate.intervals import wilson
from lego_rl.evaluate.trials import EvaluatedTrial
from lego_rl.report.behaviour import markdown
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.labels import AFTER, BEFORE, train_label
from lego_rl.rollout.outcome import Reward


def trial(
    task: str,
    attempt: int,
    reward: Reward | None = 0,
    ended: Ended = Ended.FINISHED,
    turns: int = 4,
    malformed: int = 0,
) -> TrialFigures:
    evaluated = EvaluatedTrial(f"{task}-{attempt}", "x", task, "g", attempt, reward, ended, "", turns, 10, 1.0)
    return replace(figures_of(evaluated, View("", (), 0, 0), malformed), calls=10)


def line(table: Behaviour, key: str) -> Line:
    return next(each for each in table.lines if each.measure.key == key)


def value(table: Behaviour, key: str, side: int = 0) -> Estimate:
    return line(table, key).values[side]


def test_infrastructure_faults_are_in_no_denominator() -> None:
    trials = [trial("a", 0, 1), trial("a", 1, 0), trial("b", 0, None, Ended.ENGINE_FAILED, turns=900)]
    table = behaviour_of("all", trials)
    assert (table.sides[0].trials, table.sides[0].tasks, table.sides[0].masked) == (2, 1, 1)
    assert value(table, "solved") == Estimate(1, 2, wilson(Score(1, 2)))
    assert value(table, "turns").value == 4
    assert all(each.values[0].denominator <= 20 for each in table.lines)


def test_trials_that_are_not_graded_are_in_no_solve_rate_and_in_all_else() -> None:
    table = behaviour_of("demonstrations", [trial("a", 0, None), trial("b", 0, None)])
    assert value(table, "solved").value is None
    assert (value(table, "turns").numerator, value(table, "turns").denominator) == (8, 2)


def test_pass_at_k_leaves_out_tasks_with_too_few_attempts() -> None:
    trials = [trial("a", n, 1 if n < 1 else 0) for n in range(K + 1)] + [trial("b", n, 1) for n in range(K - 1)]
    table = behaviour_of("all", trials)
    # One of nine is solved: eight of nine miss it with chance 1/9, and no eight are all solved.
    assert (value(table, f"pass_at_{K}").value, value(table, f"pass_at_{K}").denominator) == (pytest.approx(8 / 9), 1)
    assert value(table, f"pass_hat_{K}").value == 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 10), st.sampled_from([0, 1])), min_size=1, max_size=12))
def test_a_value_is_the_ratio_of_sums_and_lies_in_its_interval(rows: Sequence[tuple[int, int, Reward]]) -> None:
    trials = [
        trial(f"t{at % 4}", at, reward, turns=turns, malformed=bad) for at, (turns, bad, reward) in enumerate(rows)
    ]
    table = behaviour_of("all", trials)
    assert value(table, "turns").value == pytest.approx(sum(turns for turns, _, _ in rows) / len(rows))
    assert value(table, "malformed").value == pytest.approx(sum(bad for _, bad, _ in rows) / (10 * len(rows)))
    for each in table.lines:
        found = each.values[0]
        if found.value is not None and found.interval is not None:
            assert found.interval.low - 1e-9 <= found.value <= found.interval.high + 1e-9


def test_the_bootstrap_draws_tasks() -> None:
    """Against all draws of three tasks, each as likely as any other."""
    per_task = {"a": (1, 3), "b": (4, 4, 4), "c": (9,)}
    trials = [trial(task, at, turns=turns) for task, each in per_task.items() for at, turns in enumerate(each)]
    means = [
        sum(sum(per_task[task]) for task in drawn) / sum(len(per_task[task]) for task in drawn)
        for drawn in itertools.product(per_task, repeat=3)
    ]
    interval = value(behaviour_of("all", trials), "turns").interval
    assert interval is not None
    low, high = np.quantile(means, [0.025, 0.975], method="inverted_cdf")
    assert (interval.low, interval.high) == (pytest.approx(low), pytest.approx(high))


def test_two_sides_are_compared_over_the_same_attempts_at_the_same_tasks() -> None:
    before = [trial("a", 0, 0), trial("a", 1, 0), trial("b", 0, 0), trial("c", 0, 1, turns=90)]
    after = [trial("a", 0, 1), trial("a", 2, 1, turns=90), trial("b", 0, 1), trial("c", 0, None, Ended.ENGINE_FAILED)]
    table = compare_behaviour(("before", "after"), before, after)
    assert table.cohort
    assert [(side.trials, side.tasks, side.masked, side.outside) for side in table.sides] == [
        (2, 2, 0, 2),
        (2, 2, 1, 1),
    ]
    assert [value(table, "turns", side).value for side in (0, 1)] == [4, 4]
    found = line(table, "solved").difference
    assert found is not None
    assert found.value == 1
    assert found.interval is None  # both tasks rose alike: draws of them say nothing


def test_the_same_trials_twice_do_not_differ() -> None:
    trials = [trial(f"t{n}", 0, n % 2, turns=n, malformed=n % 3) for n in range(20)]
    table = compare_behaviour(("one", "two"), trials, trials)
    assert {each.difference.value for each in table.lines if each.difference is not None} == {0.0}
    assert not any(each.difference.distinguishable for each in table.lines if each.difference is not None)


def test_a_large_difference_is_told_from_none() -> None:
    first = [trial(f"t{n}", 0, turns=10 + n % 3) for n in range(20)]
    second = [trial(f"t{n}", 0, turns=20 + n % 5) for n in range(20)]
    found = line(compare_behaviour(("one", "two"), first, second), "turns").difference
    assert found is not None
    assert found.distinguishable
    assert found.value == pytest.approx(11.05)


def test_sides_without_a_task_in_common_are_compared_as_they_are() -> None:
    first, second = ([trial(f"{side}{n}", 0, turns=n) for n in range(9)] for side in "ab")
    table = compare_behaviour(("one", "two"), first, second)
    assert not table.cohort
    assert [side.trials for side in table.sides] == [9, 9]
    found = line(table, "turns").difference
    assert found is not None
    assert found.interval is not None
    assert found.interval.low < 0 < found.interval.high


def test_every_measure_has_its_definition_in_the_docs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "analysis.md").read_text(encoding="utf-8")
    rows = [
        row.strip("| ").split(" | ")
        for row in page.partition("| --- | --- | --- |\n")[2].partition("\n\n")[0].split("\n")
    ]
    assert rows == [[measure.name, measure.numerator, measure.denominator] for measure in MEASURES]
    assert len({measure.key for measure in MEASURES}) == len(MEASURES)


def a_training_run(path: Path) -> Path:
    said = conversation(STORIES["claude-code"]())
    labels = [BEFORE, AFTER, train_label(0), train_label(1), train_label(2)]
    records = [
        record(label, f"task-{task}", attempt, 1 if label == AFTER else 0, said if label == AFTER else None)
        for label in labels
        for task in range(2)
        for attempt in range(2)
    ]
    lost = record(AFTER, "task-9", 0, None, ended=Ended.ENGINE_FAILED)
    return write_run(path, [*records, lost])


def test_a_training_run_is_shown_before_and_after_and_first_step_and_last(tmp_path: Path) -> None:
    tables = analyse(a_training_run(tmp_path / "run"))
    assert [[side.name for side in table.sides] for table in tables] == [
        ["before", "after"],
        ["first step", "last step"],
    ]
    evaluation = tables[0]
    assert (evaluation.cohort, evaluation.sides[1].masked) == (True, 1)
    assert [value(evaluation, "rereads", side).value for side in (0, 1)] == [None, 1]
    assert [value(evaluation, "loops", side).value for side in (0, 1)] == [0, 1]
    assert value(evaluation, "own_tests", 1).value == 1


def test_workers_of_a_run_on_verl_are_one_run(tmp_path: Path) -> None:
    for worker in range(2):
        write_run(tmp_path / "workers" / str(worker), [record(train_label(0), f"t{worker}", 0, 1)])
    (table,) = analyse(tmp_path)
    assert (table.sides[0].name, table.sides[0].trials) == ("step", 2)


def test_two_runs_are_compared_set_by_set(tmp_path: Path) -> None:
    run = a_training_run(tmp_path / "run")
    names = [[side.name for side in table.sides] for table in analyse_against(run, run)]
    assert names == [[f"run: {name}"] * 2 for name in ("before", "after", "first step", "last step")]
    captured = write_run(tmp_path / "captured", [record("demonstration", "task-0", 0, None)])
    with pytest.raises(RunError, match="nothing goes together"):
        analyse_against(run, captured)


def test_many_trials_are_read_by_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = conversation(STORIES["claude-code"]())
    run = write_run(tmp_path / "run", [record("trials", f"t{n}", 0, n % 2, said, turns=n) for n in range(8)])
    alone = analyse(run)
    monkeypatch.setattr("lego_rl.analysis.read._FEW", 2)
    monkeypatch.setattr("lego_rl.analysis.read._CHUNK", 2)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert analyse(run) == alone


def test_the_command_prints_tables_json_and_markdown(tmp_path: Path) -> None:
    run, out = a_training_run(tmp_path / "run"), tmp_path / "tables.md"
    shown = CliRunner().invoke(app, ["analyse", str(run), "--markdown", str(out)], catch_exceptions=False).stdout
    assert "behaviour: before and after" in shown
    assert "1 that count for nothing are left out" in shown
    assert out.read_text() == markdown(analyse(run))
    assert "| loops | 0.000" in out.read_text()
    printed = CliRunner().invoke(app, ["analyse", str(run), "--json"], catch_exceptions=False).stdout
    assert json.loads(printed)[0]["measures"]["rereads"]["sides"][1]["value"] == 1


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no journal"):
        analyse(tmp_path)
