"""What may be learned from a run directory: demonstrations and training trials, never an evaluation."""

from dataclasses import replace
from pathlib import Path

import pytest
from test_trial_store import PLAIN, full

from lego_rl.errors import RunError
from lego_rl.rollout.demonstrations import demonstrated_segments
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import Outcome, TrialRecord
from lego_rl.rollout.settled import CANCELLED, FAULTED, SCORED
from lego_rl.rollout.store import RunDirectory


def run_of(folder: Path, *labels: str) -> Path:
    run = RunDirectory.make(folder)
    for number, label in enumerate(labels):
        record = full()
        assert record.trajectory is not None
        call = replace(record.trajectory.generations[0], call_id=f"{label}-{number}")
        trajectory = replace(record.trajectory, generations=(call,))
        counted(run, replace(record, spec=replace(record.spec, label=label, seed=number), trajectory=trajectory))
    return folder


def counted(run: RunDirectory, record: TrialRecord, kind: str = SCORED) -> None:
    run.store.save(record)
    with Journal(run.journal) as journal:
        journal.append(kind, {"id": record.spec.id, "try": 1, "ended": record.outcome.ended.value})


def test_trials_of_an_evaluation_are_left_out(tmp_path: Path) -> None:
    run = run_of(
        tmp_path / "run", "heldout/before", "train/step-0000", "demonstration", "train/step-0001", "heldout/after"
    )
    calls = [call for segment in demonstrated_segments(run) for call in segment.calls]
    assert sorted(calls) == ["demonstration-2", "train/step-0000-1", "train/step-0001-3"]


def test_a_trial_that_an_infrastructure_fault_cut_off_is_left_out(tmp_path: Path) -> None:
    run = RunDirectory(run_of(tmp_path / "run", "demonstration"))
    cut_off = replace(full(), outcome=Outcome(None, Ended.ENGINE_FAILED, None, ""))
    counted(run, replace(cut_off, spec=replace(cut_off.spec, label="demonstration", seed=9)), FAULTED)
    assert [call for segment in demonstrated_segments(run.path) for call in segment.calls] == ["demonstration-0"]


def test_a_record_that_the_journal_does_not_count_is_left_out(tmp_path: Path) -> None:
    run = RunDirectory(run_of(tmp_path / "run", "demonstration", "demonstration"))
    cancelled = run.store.ids()[0]
    with Journal(run.journal) as journal:
        journal.append(CANCELLED, {"id": cancelled, "try": 2, "ended": "cancelled"})
    (call,) = [call for segment in demonstrated_segments(run.path) for call in segment.calls]
    kept = run.store.load(run.store.ids()[1]).trajectory
    assert kept is not None
    assert call == kept.generations[0].call_id


def test_a_run_of_nothing_but_evaluations_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="nothing to learn from"):
        list(demonstrated_segments(run_of(tmp_path / "run", "heldout/before", "heldout/after")))


def test_a_trial_without_a_session_is_nothing_to_learn_from(tmp_path: Path) -> None:
    run = RunDirectory.make(tmp_path / "run")
    counted(run, replace(PLAIN, spec=replace(PLAIN.spec, label="demonstration")))
    with pytest.raises(RunError, match="nothing to learn from"):
        list(demonstrated_segments(run.path))


def test_a_folder_without_trials_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no captured trials"):
        list(demonstrated_segments(tmp_path))
