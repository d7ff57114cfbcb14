"""The summary: recomputed from the records of a run, whatever state it is in."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fake_run import FakeRun, spec
from rich.console import Console

from lego_rl.errors import RunError
from lego_rl.evaluate.heldout import Score
from lego_rl.report.files import RunFiles
from lego_rl.report.summary import Summary, summarise
from lego_rl.report.table import before_after, closing_line
from lego_rl.report.write import write_report
from lego_rl.rollout.outcome import Reward

FAMILIES = {"a-1": "alpha", "a-2": "alpha", "b-1": "beta", "u-1": "unseen_one"}
BEFORE = {"a-1": [0, 0, 1, 0], "a-2": [0, 0, 0, 0], "b-1": [1, 0, 0, None], "u-1": [0, 1, 0, 0]}
AFTER = {"a-1": [1, 1, 1, 0], "a-2": [1, 0, 1, 1], "b-1": [0, 0, 1, 0], "u-1": [0, 0, 0, 0]}


@pytest.fixture
def run(tmp_path: Path) -> FakeRun:
    """A run that has only begun."""
    return FakeRun(tmp_path / "demo")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; every record is forced to the disk, so it is made once."""
    run = FakeRun(tmp_path_factory.mktemp("finished") / "demo")
    run.evaluate("heldout/before", BEFORE, FAMILIES)
    run.trial(spec("train/step-0000", "t-1", 0, "alpha", "train"), 1)
    run.metrics(
        [
            {
                "fidelity/pearson_logprobs": 0.9999,
                "fidelity/mean_abs": 1e-4,
                "rollout/delivered_fraction": 1.0,
                "seconds/training": 30.0,
            },
            {
                "fidelity/pearson_logprobs": None,
                "fidelity/mean_abs": 2e-4,
                "rollout/delivered_fraction": 0.98,
                "seconds/training": 30.0,
            },
        ]
    )
    run.evaluate("heldout/after", AFTER, FAMILIES)
    return run.path


@pytest.fixture
def whole(finished: Path, tmp_path: Path) -> Path:
    """A copy of it to write into."""
    return shutil.copytree(finished, tmp_path / "copy")


@pytest.fixture(scope="module")
def summary(finished: Path) -> Summary:
    return summarise(RunFiles.open(finished))


def test_scores_are_of_the_trials_that_count_and_unseen_families_stand_apart(summary: Summary) -> None:
    assert summary.heldout_before == Score(2, 11)
    assert summary.heldout_after == Score(7, 12)
    assert (summary.unseen_before, summary.unseen_after) == (Score(1, 4), Score(0, 4))
    assert summary.families["alpha"].before == Score(1, 8)
    assert summary.families["alpha"].after == Score(6, 8)
    assert [name for name, family in summary.families.items() if not family.trained] == ["unseen_one"]
    assert (summary.families_risen, summary.families_trained) == (1, 2)
    assert summary.rise is not None
    assert summary.rise.mean == pytest.approx((2 / 4 + 3 / 4 + (1 / 4 - 1 / 3)) / 3)


def test_figures_are_the_worst_of_the_steps(summary: Summary) -> None:
    assert summary.steps == 2
    assert summary.pearson_min == 0.9999
    assert summary.mean_abs_max == 2e-4
    assert summary.delivered_fraction_min == 0.98
    assert summary.minutes_training == round((30 + 30 + 2) / 60, 2)
    assert summary.minutes == round((30 + 30 + 2 + 16 * 2 * 2) / 60, 2)
    assert (summary.harness, summary.harness_version, summary.seed) == ("claude-code", "2.1.332", 7)


def test_the_file_holds_what_it_must(whole: Path) -> None:
    report = write_report(whole)
    content = json.loads(report.summary_file.read_text())
    assert content["heldout_before"] == {"solved": 2, "trials": 11}
    assert content["families"]["beta"]["after"] == {"solved": 1, "trials": 4}
    assert {"heldout_after", "steps", "pearson_min", "minutes", "harness", "seed"} <= content.keys()


def test_a_report_is_made_again_from_the_records_alone(whole: Path) -> None:
    first = write_report(whole)
    texts = [first.summary_file.read_text(), first.page.read_text()]
    first.summary_file.write_text("{}")
    first.page.unlink()
    again = write_report(whole)
    assert [again.summary_file.read_text(), again.page.read_text()] == texts


def test_a_run_that_was_stopped_has_a_report(run: FakeRun) -> None:
    run.evaluate("heldout/before", {"a-1": [0, 1]}, FAMILIES)
    run.metrics([{"rollout/solve_rate": 0.5}])
    run.directory.metrics.write_text(run.directory.metrics.read_text() + '{"step": 1, "torn')
    report = write_report(run.path)
    assert report.summary.rise is None
    assert report.summary.heldout_after == Score(0, 0)
    assert report.summary.steps == 1
    assert report.summary.families_risen == 0
    assert "no rise until two tasks" in report.page.read_text()
    assert report.summary.steps_planned is None, "its recipe does not say"
    assert report.summary.missing == "trials left of the evaluation after training: 2"


@pytest.mark.parametrize(
    ("steps", "after", "missing"),
    [
        (1, [1, 1], "1 of 2 steps are done"),
        (2, [], "trials left of the evaluation after training: 2"),
        (2, [1], "trials left of the evaluation after training: 1"),
        (2, [1, None], ""),
    ],
)
def test_what_is_missing_of_a_run_is_said_wherever_it_is_summed_up(
    run: FakeRun, steps: int, after: list[Reward | None], missing: str
) -> None:
    recipe = run.directory.recipe
    recipe.write_text(recipe.read_text().replace("seed = 7", "seed = 7\nsteps = 2"))
    run.evaluate("heldout/before", {"a-1": [0, 1]}, FAMILIES)
    run.evaluate("heldout/after", {"a-1": after}, FAMILIES)
    run.metrics([{"rollout/solve_rate": 0.5} for _ in range(steps)])
    report = write_report(run.path)
    assert report.summary.missing == missing
    said = f"unfinished: {missing}"
    assert (said in closing_line(report.summary)) == (said in report.page.read_text()) == bool(missing)
    assert ("unfinished" in report.page.read_text()) == bool(missing)


def test_an_evaluation_that_was_stopped_compares_only_the_tasks_that_were_tried_twice(run: FakeRun) -> None:
    families = {"a-1": "alpha", "b-1": "beta", "b-2": "beta", "c-1": "gamma"}
    run.evaluate("heldout/before", {"a-1": [0, 0], "b-1": [1, 0], "b-2": [0, 0], "c-1": [None, None]}, families)
    run.evaluate("heldout/after", {"a-1": [0, 1], "b-1": [1, 0], "c-1": [1, 1]}, families)
    summary = summarise(RunFiles.open(run.path))
    assert summary.rise is not None
    assert summary.rise.mean == pytest.approx((0.5 + 0.0) / 2)
    assert summary.families_risen == 1, "beta is unchanged on b-1, and gamma was not tried before"


def test_a_record_that_the_journal_does_not_count_is_in_no_figure(run: FakeRun) -> None:
    run.evaluate("heldout/before", {"a-1": [0, 1, 1]}, FAMILIES)
    run.log("trial-cancelled", spec("heldout/before", "a-1", 2, "alpha", "heldout", 3))
    assert len(RunFiles.open(run.path).trials) == 2
    assert write_report(run.path).summary.heldout_before == Score(1, 2)


def test_what_is_unseen_follows_from_the_families_and_not_from_a_splits_name(run: FakeRun) -> None:
    for family, split in (("alpha", "unseen"), ("unseen_one", "heldout")):
        run.trial(spec("heldout/before", f"{family}-1", 0, family, split), 1)
    summary = summarise(RunFiles.open(run.path))
    assert {name: family.trained for name, family in summary.families.items()} == {"alpha": True, "unseen_one": False}
    assert (summary.heldout_before, summary.unseen_before) == (Score(1, 1), Score(1, 1))


def test_a_run_that_did_not_write_its_families_down_has_those_of_its_training_trials(whole: Path) -> None:
    RunFiles.open(whole).directory.trained_families.unlink()
    assert RunFiles.open(whole).trained_families == {"alpha"}


def test_a_damaged_list_of_families_is_named(whole: Path) -> None:
    RunFiles.open(whole).directory.trained_families.write_text("[")
    with pytest.raises(RunError, match=r"trained-families\.json"):
        write_report(whole)


def test_a_run_that_has_only_begun_has_a_report(run: FakeRun) -> None:
    summary = write_report(run.path).summary
    assert (summary.steps, summary.minutes, summary.harness, summary.harness_version) == (0, 0.0, "claude-code", "")
    assert summary.pearson_min is None


def test_the_table_shows_every_family_and_the_sums(summary: Summary) -> None:
    console = Console(width=100, record=True)
    console.print(before_after(summary))
    lines = [line.split() for line in console.export_text().splitlines()]
    assert ["alpha", "1/8", "=", "0.125", "6/8", "=", "0.750", "+0.625"] in lines
    assert ["unseen_one", "(unseen)", "1/4", "=", "0.250", "0/4", "=", "0.000", "-0.250"] in lines
    assert ["all", "trained", "families", "2/11", "=", "0.182", "7/12", "=", "0.583", "+0.402"] in lines
    assert closing_line(summary).startswith("rise +0.389 (95 % interval over tasks ")
    assert "1 of 2 families rose" in closing_line(summary)


def test_a_run_without_a_step_claims_no_rise(summary: Summary) -> None:
    line = closing_line(replace(summary, steps=0, steps_planned=0))
    assert "no step was trained" in line and "rise" not in line and "rose" not in line


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run directory"):
        write_report(tmp_path)


@pytest.mark.parametrize("file", ["outcome.json", "verdict.json", "trajectory.json.bz2", "patch.json"])
def test_a_damaged_record_is_named(whole: Path, file: str) -> None:
    for folder in (whole / "trials").iterdir():
        (folder / file).write_text("{")
    with pytest.raises(RunError):
        write_report(whole)
    assert not (whole / "report.html").exists()


def test_a_damaged_recipe_is_named(run: FakeRun) -> None:
    run.directory.recipe.write_text("[run")
    with pytest.raises(RunError, match=r"recipe\.toml"):
        write_report(run.path)


@pytest.mark.parametrize("finished", [0, 1, 2])
def test_a_step_that_a_kill_interrupted_after_its_row_is_not_finished(run: FakeRun, finished: int) -> None:
    rows = [{"fidelity/pearson_logprobs": 0.99, "seconds/training": 60.0}] * 2
    rows[-1] = {"fidelity/pearson_logprobs": 0.5, "seconds/training": 60.0}
    run.metrics(rows, finished)
    summary = write_report(run.path).summary
    assert (summary.steps, summary.minutes_training) == (finished, float(finished))
    assert summary.pearson_min == {0: None, 1: 0.99, 2: 0.5}[finished]
