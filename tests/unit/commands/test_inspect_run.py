"""``lego-rl inspect RUN`` lists the trials of a run, through the command."""

from dataclasses import replace
from pathlib import Path

import pytest

from lego_rl import cli
from lego_rl.gateway.budget import Budget
from lego_rl.rollout.faults import FAULT_TABLE, Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, Reward, TrialRecord
from lego_rl.rollout.settled import FAULTED, SCORED, STARTED
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.store import RunDirectory

SPEC = TrialSpec(Path("tasks/price"), "heldout/before", 0, 9, 7, 1.0, Budget(), HarnessChoice("claude-code"))


def end(run: RunDirectory, label: str, attempt: int, ended: Ended, reward: Reward | None) -> TrialSpec:
    spec = replace(SPEC, label=label, attempt=attempt)
    run.store.save(TrialRecord(spec, Outcome(reward, ended, None, ""), None, PhaseSeconds(total=12.34), tries=2))
    with Journal(run.journal) as journal:
        journal.append(
            FAULTED if FAULT_TABLE[ended].is_masked else SCORED, {"id": spec.id, "try": 1, "ended": ended.value}
        )
    return spec


def shown(run: RunDirectory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    monkeypatch.setattr("sys.argv", ["lego-rl", "inspect", str(run.path)])
    monkeypatch.setenv("COLUMNS", "40")  # far less than an ID has
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code in (0, None)
    return [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.make(tmp_path / "run")


def test_every_trial_that_counts_is_listed_with_how_it_ended(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = end(run, "train/step-0000", 0, Ended.NO_VERDICT, 0)
    solved = end(run, "heldout/before", 1, Ended.FINISHED, 1)
    masked = end(run, "heldout/before", 2, Ended.ENGINE_FAILED, None)
    recorded = end(run, "heldout/before", 3, Ended.FINISHED, None)
    uncounted = replace(SPEC, attempt=4)  # a kill came before its journal entry
    run.store.save(TrialRecord(uncounted, Outcome(1, Ended.FINISHED, None, ""), None, PhaseSeconds()))
    (run.scratch / uncounted.id).mkdir()
    heading, *rows = shown(run, monkeypatch, capsys)
    assert heading[0] == "trial"
    before = [
        [solved.id, "price", "finished", "1", "2", "12.3"],
        [masked.id, "price", "engine_failed", "masked", "2", "12.3"],
        [recorded.id, "price", "finished", "ungraded", "2", "12.3"],
    ]
    assert rows[:3] == sorted(before)
    assert rows[3] == [trained.id, "price", "no_verdict", "0", "2", "12.3"]
    assert rows[4][:4] == [uncounted.id, "·", "not", "finished,"]
    assert rows[5][:4] == ["4", "trials", "have", "ended"]
    assert len(rows) == 6


def test_a_trial_that_is_run_again_is_not_listed_as_ended(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = end(run, "heldout/before", 0, Ended.ENGINE_FAILED, None)
    with Journal(run.journal) as journal:
        journal.append(STARTED, {"id": spec.id, "try": 2})
    (run.scratch / spec.id).mkdir()
    first, last = shown(run, monkeypatch, capsys)
    assert first[0] == spec.id
    assert last[0] == "0"


def test_a_run_that_has_only_begun_has_a_list(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (only,) = shown(run, monkeypatch, capsys)
    assert only[:4] == ["0", "trials", "have", "ended"]


def test_a_damaged_record_is_one_line(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = end(run, "heldout/before", 0, Ended.FINISHED, 1)
    (run.trials / spec.id / "outcome.json").write_text("{")
    monkeypatch.setattr("sys.argv", ["lego-rl", "inspect", str(run.path)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    problem, fix = capsys.readouterr().err.splitlines()
    assert "outcome.json" in problem
    assert fix.startswith("  fix: ")


def test_a_run_that_is_not_there_is_said_not_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["lego-rl", "inspect", str(tmp_path / "nothere")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert f"there is no {tmp_path / 'nothere'}" in capsys.readouterr().err
