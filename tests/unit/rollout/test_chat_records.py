"""Records of trials that a chat backend answered: kept as they are, and refused by whoever trains."""

from pathlib import Path

import pytest

from lego_rl.engine.protocol import Timings
from lego_rl.errors import RunError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.trajectory import Accounting
from lego_rl.gateway.transcript import ChatCall, Transcript
from lego_rl.gateway.transcript_store import CHAT_CALLS_FILE
from lego_rl.messages import Message
from lego_rl.rollout.demonstrations import demonstrated_segments
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, TrialRecord
from lego_rl.rollout.settled import SCORED
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.train.loop import as_graded

CALL = ChatCall("c0", None, 10, 5, "stop", Timings(decode=1.0), "main", "delivered", parsed=True, calls_tools=False)
ACCOUNT = Accounting(calls=1, sampled_tokens=5, delivered_tokens=5, excluded={"chat_backend": 5})
TRANSCRIPT = Transcript((CALL,), ((Message("user", "hi"), Message("assistant", "Hello.")),), (), ACCOUNT)


@pytest.fixture
def record(tmp_path: Path) -> TrialRecord:
    spec = TrialSpec(
        task=tmp_path / "task",
        label="train/step-0001",
        attempt=0,
        attempts=1,
        seed=0,
        temperature=1.0,
        budget=Budget(),
        harness=HarnessChoice("claude-code"),
    )
    return TrialRecord(
        spec=spec,
        outcome=Outcome(1, Ended.FINISHED, None, "solved"),
        trajectory=None,
        seconds=PhaseSeconds(),
        accounting=ACCOUNT,
        transcript=TRANSCRIPT,
    )


def test_a_record_is_read_back_as_it_was(record: TrialRecord, tmp_path: Path) -> None:
    store = RunDirectory.make(tmp_path / "run").store
    store.save(record)
    assert store.load(record.spec.id) == record
    (store.path / record.spec.id / CHAT_CALLS_FILE).write_text("{}")
    with pytest.raises(RunError, match="is not the file that"):
        store.load(record.spec.id)


def test_whoever_trains_refuses_it(record: TrialRecord, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"chat backend, which gives no tokens to train on"):
        as_graded([record], 1)
    directory = RunDirectory.make(tmp_path / "run")
    directory.store.save(record)
    with Journal(directory.journal) as journal:
        journal.append(SCORED, {"id": record.spec.id, "try": 1, "ended": record.outcome.ended.value})
    with pytest.raises(RunError, match=r"chat backend, which gives no tokens to train on"):
        list(demonstrated_segments(directory.path))
