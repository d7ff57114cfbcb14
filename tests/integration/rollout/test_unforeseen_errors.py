"""An error that nobody foresaw, after a trial's end: a row of the fault table, and never the end of the batch."""

from pathlib import Path
from typing import Any

import pytest
from rollout_kit import runtime, spec, write_task

from lego_rl.rollout import trial
from lego_rl.rollout.agent import LiveTrial
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.spec import Grading


def unforeseen(*_: Any, **__: Any) -> Any:
    raise ValueError("a line of /proc that\nnobody expected")


@pytest.mark.parametrize(("grading", "reward"), [(Grading.FRESH, 0), (Grading.NONE, None)])
@pytest.mark.parametrize("where", ["recording.agent_evidence", "recording.host_evidence", "trial.grades_of"])
async def test_in_the_records_making(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, grading: Grading, reward: int | None
) -> None:
    monkeypatch.setattr(f"lego_rl.rollout.{where}", unforeseen)
    record = await runtime(tmp_path / "run").run(spec(write_task(tmp_path, "the fixer"), grading=grading))
    assert (record.outcome.ended, record.outcome.reward) == (Ended.UNATTRIBUTED_AFTER, reward)
    assert record.outcome.detail.endswith("ValueError: a line of /proc that nobody expected")
    assert "in unforeseen" in record.logs["error.txt"]


async def test_in_the_look_at_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "may_be_short", lambda *_: True)
    monkeypatch.setattr(trial, "host_shortage", unforeseen)
    record = await runtime(tmp_path / "run").run(spec(write_task(tmp_path, "the fixer")))
    assert (record.outcome.ended, record.outcome.reward) == (Ended.FINISHED, 1)
    assert "in unforeseen" in record.logs["error.txt"]


async def test_in_its_putting_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close = LiveTrial.close

    async def close_and_fail(live: LiveTrial) -> None:
        await close(live)
        unforeseen()

    monkeypatch.setattr(LiveTrial, "close", close_and_fail)
    record = await runtime(tmp_path / "run").run(spec(write_task(tmp_path, "the fixer")))
    assert (record.outcome.ended, record.outcome.reward) == (Ended.FINISHED, 1)
