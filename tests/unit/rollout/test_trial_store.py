"""The store: a record is on the disk whole or not at all, and comes back as it was."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_rl.engine.protocol import Timings, WeightSpan
from lego_rl.errors import RunError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.segments import build_segments
from lego_rl.gateway.trajectory import Accounting, Generation, Trajectory
from lego_rl.messages import Message, Tool, ToolCall
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.outcome import EngineSeconds, Outcome, PhaseSeconds, TrialRecord
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.store import RunDirectory, TrialStore, UnrecordableError
from lego_rl.sandbox.limits import LimitHits, LimitReport
from lego_rl.sandbox.verdict import Change, Patch, Verdict

SPEC = TrialSpec(
    task=Path("tasks/one"),
    label="heldout/before",
    attempt=2,
    attempts=4,
    seed=7,
    temperature=1.0,
    budget=Budget(turns=5, wall_clock_sec=90.0),
    harness=HarnessChoice("claude-code", {"bare": True, "tools": ["Bash"], "effort": "low"}),
)
PLAIN = TrialRecord(SPEC, Outcome(0, Ended.NO_SNAPSHOT, None, "nothing to read"), None, PhaseSeconds(total=2.5))


def generation() -> Generation:
    return Generation(
        call_id="scripted-0",
        parent=None,
        context_ids=np.array([1, 2, 3], np.int32),
        token_ids=np.array([4, 5], np.int32),
        logprobs=np.array([-0.5, -1.25], np.float32),
        finish_reason="stop",
        weight_versions=(WeightSpan(3, 0, 2),),
        timings=Timings(0.1, 0.2, 0.3),
        role="main",
        fate="delivered",
        routes=np.arange(8, dtype=np.uint8).reshape(4, 1, 2),
    )


def full() -> TrialRecord:
    generations = (generation(),)
    call = ToolCall("call_1", "Bash", {"command": "ls"})
    trajectory = Trajectory(
        segments=build_segments(generations),
        generations=generations,
        conversations=((Message("user", "Mend it."), Message("assistant", "", (call,))),),
        tools=(Tool("Bash", "Runs.", {"type": "object"}),),
        accounting=Accounting(calls=1, sampled_tokens=2, delivered_tokens=2, trainable_tokens=2),
    )
    verdict = Verdict(1, {"test_a.py::test": "passed"}, {"tests/ÿ\udcff.py": "a test"}, "1 passed\n", 0.75)
    patch = Patch((Change("a.py", "file", b"\x00\xff", executable=True), Change("b", "deleted")), {".git": "git"})
    return TrialRecord(
        spec=SPEC,
        outcome=Outcome(1, Ended.FINISHED, verdict, "the harness ended by itself"),
        trajectory=trajectory,
        seconds=PhaseSeconds(0.2, 1.5, 0.4, 2.2, EngineSeconds(0.1, 0.2, 0.3)),
        accounting=trajectory.accounting,
        patch=patch,
        logs={"harness.stdout": "line\nline é\n", "harness.stderr": ""},
        harness_version="2.1.332",
        harness_hash="ab" * 32,
        tries=3,
        limits=LimitReport("cgroup-v2", "rlimit"),
        limit_hits=LimitHits(memory=2, disk=True),
    )


@pytest.fixture
def store(tmp_path: Path) -> TrialStore:
    return RunDirectory.make(tmp_path / "run").store


def assert_same(one: object, other: object) -> None:
    """Equality that also looks into arrays."""
    if isinstance(one, np.ndarray):
        assert isinstance(other, np.ndarray)
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    elif dataclasses.is_dataclass(one):
        assert type(one) is type(other)
        for field in dataclasses.fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, tuple):
        assert isinstance(other, tuple)
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    else:
        assert one == other


@pytest.mark.parametrize("record", [PLAIN, full()], ids=["without a session", "with everything"])
def test_a_record_comes_back_as_it_was(store: TrialStore, record: TrialRecord) -> None:
    store.save(record)
    assert_same(store.load(SPEC.id), record)


def test_what_held_the_limits_is_in_the_outcome_file(store: TrialStore) -> None:
    store.save(full())
    outcome = json.loads((store.path / SPEC.id / "outcome.json").read_text())
    assert outcome["limits"] == {"memory": "cgroup-v2", "processes": "rlimit"}
    assert outcome["limit_hits"] == {"memory": 2, "processes": 0, "disk": True, "unmeasured": False}


def test_the_folder_holds_the_files_of_the_contract(store: TrialStore) -> None:
    store.save(full())
    folder = store.path / SPEC.id
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()) == [
        "logs/harness.stderr",
        "logs/harness.stdout",
        "logs/tests.log",
        "outcome.json",
        "patch.json",
        "tokens.npz",
        "trajectory.json.bz2",
        "verdict.json",
    ]


def test_a_record_without_its_logs_is_still_one(store: TrialStore) -> None:
    whole = full()
    store.save(whole)
    shutil.rmtree(store.path / SPEC.id / "logs")
    loaded = store.load(SPEC.id)
    assert loaded.logs == {}
    assert loaded.outcome.verdict is not None
    assert whole.outcome.verdict is not None
    assert_same(loaded.outcome.verdict, dataclasses.replace(whole.outcome.verdict, log=""))


def test_a_later_record_of_the_same_trial_replaces_the_earlier_one_whole(store: TrialStore) -> None:
    store.save(full())
    store.save(PLAIN)
    assert_same(store.load(SPEC.id), PLAIN)
    assert store.ids() == [SPEC.id]
    assert [store.load(trial_id).spec for trial_id in store.ids()] == [SPEC]


@settings(max_examples=30)
@given(text=st.text(st.characters(), max_size=20), name=st.binary(min_size=1, max_size=8))
def test_nothing_that_an_agent_prints_or_names_can_spoil_a_record(store: TrialStore, text: str, name: bytes) -> None:
    path = name.hex() + os.fsdecode(name.replace(b"/", b"\xff").replace(b"\0", b"\xfe"))
    verdict = Verdict(0, {"t": "failed"}, {path: text}, text, report=name)
    record = dataclasses.replace(
        PLAIN,
        outcome=Outcome(0, Ended.FINISHED, verdict, text),
        patch=Patch((Change(path, "file", name),), {path: text}),
        logs={"harness.stdout": text},
    )
    store.save(record)
    back = store.load(SPEC.id)
    assert back.outcome.detail == text
    assert back.outcome.verdict is not None
    assert back.outcome.verdict.rolled_back == {path: text}
    assert back.outcome.verdict.report == name
    assert back.patch == record.patch


@pytest.mark.parametrize("name", ["outcome.json", "tokens.npz", "trajectory.json.bz2", "verdict.json", "patch.json"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut"])
def test_a_damaged_record_is_named_never_half_read(store: TrialStore, name: str, damage: str) -> None:
    store.save(full())
    path = store.path / SPEC.id / name
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: 0 if damage == "empty" else -5])
    with pytest.raises(RunError, match=f"record of trial {SPEC.id}"):
        store.load(SPEC.id)


def changed(store: TrialStore, **changes: object) -> None:
    """Write a saved record's outcome file anew."""
    path = store.path / SPEC.id / "outcome.json"
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))


@pytest.mark.parametrize(
    ("number", "problem", "fix"),
    [
        (5, "outcome.json has format 5, this version of lego-rl reads 4", "update lego-rl"),
        (0, "outcome.json has format 0, this version of lego-rl reads 4", "with the version of lego-rl that wrote it"),
        (True, "outcome.json has format True", "with the version of lego-rl that wrote it"),
        (None, "outcome.json has no format number", "with the version of lego-rl that wrote it"),
    ],
)
def test_a_record_of_another_format_is_refused(store: TrialStore, number: int | None, problem: str, fix: str) -> None:
    store.save(full())
    changed(store, format=number)
    with pytest.raises(RunError, match=problem) as raised:
        store.load(SPEC.id)
    assert fix in raised.value.fix


OTHER = dataclasses.replace(SPEC, attempt=3)


@pytest.mark.parametrize("name", ["tokens.npz", "trajectory.json.bz2", "verdict.json", "patch.json"])
def test_a_file_of_another_trial_is_refused(store: TrialStore, name: str) -> None:
    whole = full()
    assert whole.trajectory is not None
    assert whole.outcome.verdict is not None
    (call,) = whole.trajectory.generations
    generations = (dataclasses.replace(call, logprobs=call.logprobs * 2),)  # every count is the same
    messages = ((Message("user", "Another."), *whole.trajectory.conversations[0][1:]),)
    verdict = dataclasses.replace(whole.outcome.verdict, seconds=1.0)
    trajectory = Trajectory(
        build_segments(generations), generations, messages, whole.trajectory.tools, whole.trajectory.accounting
    )
    store.save(whole)
    store.save(
        dataclasses.replace(
            whole,
            spec=OTHER,
            outcome=dataclasses.replace(whole.outcome, verdict=verdict),
            trajectory=trajectory,
            patch=Patch((Change("other.py", "deleted"),)),
        )
    )
    shutil.copy(store.path / OTHER.id / name, store.path / SPEC.id / name)
    with pytest.raises(RunError, match=f"{name} is not the file that outcome.json was written with") as raised:
        store.load(SPEC.id)
    assert f"restore {store.path / SPEC.id} from a copy" in raised.value.fix
    store.load(OTHER.id)


def test_a_folder_with_another_trials_name_is_refused(store: TrialStore) -> None:
    store.save(full())
    (store.path / SPEC.id).rename(store.path / OTHER.id)
    with pytest.raises(RunError, match=f"holds the record of {SPEC.id}") as raised:
        store.load(OTHER.id)
    assert "its name back" in raised.value.fix


def test_counts_and_rewards_that_contradict_the_other_files_are_refused(store: TrialStore) -> None:
    store.save(full())
    outcome = json.loads((store.path / SPEC.id / "outcome.json").read_text())
    changed(store, accounting=outcome["accounting"] | {"trainable_tokens": 3})
    with pytest.raises(RunError, match=r"the counts in outcome.json are not those in trajectory.json.bz2"):
        store.load(SPEC.id)
    changed(store, parts={name: digest for name, digest in outcome["parts"].items() if name != "tokens.npz"})
    with pytest.raises(RunError, match=r"names one of tokens.npz and trajectory.json.bz2"):
        store.load(SPEC.id)
    whole = full()
    lost = dataclasses.replace(whole.outcome, verdict=dataclasses.replace(whole.outcome.verdict, reward=0))  # type: ignore[type-var]
    with pytest.raises(UnrecordableError, match=r"outcome.json says reward 1, verdict.json 0"):
        store.save(dataclasses.replace(whole, outcome=lost))


def test_a_trial_without_a_record_is_a_clear_error(store: TrialStore) -> None:
    with pytest.raises(RunError, match="cannot be read"):
        store.load("never-run")


def test_a_process_that_is_killed_while_writing_leaves_nothing_under_the_name(tmp_path: Path) -> None:
    program = f"""
import os, pathlib, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_trial_store import full
from lego_rl.rollout.store import RunDirectory
import lego_rl.rollout.store as module
store = RunDirectory.make(pathlib.Path({str(tmp_path / "run")!r})).store
module.sync_folder = lambda folder: os.kill(os.getpid(), 9)
store.save(full())
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    run = RunDirectory(tmp_path / "run")
    assert len(list(run.trials.iterdir())) == 1
    assert run.store.ids() == []
    # A second process that was started by mistake, and has not the journal's lock yet, could be told from nothing here.
    RunDirectory.make(run.path)
    assert len(list(run.trials.iterdir())) == 1
    run.store.discard_unfinished()
    assert list(run.trials.iterdir()) == []


def test_a_run_directory_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError, match="cannot make the run directory"):
        RunDirectory.make(tmp_path / "file" / "run")
