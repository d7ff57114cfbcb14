"""Demonstrations in the real harnesses: what is captured is what was demonstrated, and grading agrees with it."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lego_rl.gateway.template import ChatTemplate
from lego_rl.rollout.demonstrations import demonstrated_segments
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.progress import Progress, TrialEnded, ignore
from lego_rl.rollout.runner import run_trials
from lego_rl.rollout.spec import Grading
from lego_rl.rollout.store import RunDirectory
from warm_start.capture import Capture, CaptureSettings, capture
from warm_start.mistakes import Mistake

CLAUDE = CaptureSettings(count=6, seed=7, concurrency=3)


def turns(record: TrialRecord) -> list[str]:
    """The policy's turns as the training mask has them, in text."""
    assert record.trajectory is not None
    (segment,) = record.trajectory.segments
    template = ChatTemplate.load(CLAUDE.policy)
    texts, current = [], []
    for token, mask in zip(segment.token_ids.tolist(), segment.loss_mask.tolist(), strict=True):
        if mask:
            current.append(token)
        elif current:
            texts.append(template.decode(current))
            current = []
    return [*texts, template.decode(current)] if current else texts


def loaded(events: Sequence[Progress]) -> list[bool]:
    return [event.loaded for event in events if isinstance(event, TrialEnded)]


def test_demonstrations_in_claude_code_are_captured_once_and_exactly(tmp_path: Path) -> None:
    events: list[Progress] = []
    asyncio.run(capture(CLAUDE.model_copy(update={"count": 3}), tmp_path, events.append))
    assert loaded(events) == [False] * 3
    events.clear()
    records = asyncio.run(capture(CLAUDE, tmp_path, events.append))
    assert sorted(loaded(events)) == [False] * 3 + [True] * 3

    demonstrators = Capture(CLAUDE, RunDirectory(tmp_path)).demonstrators()
    for record, demonstrator in zip(records, demonstrators, strict=True):
        assert record.outcome.ended is Ended.FINISHED
        assert record.outcome.reward is None
        assert record.accounting.delivered_fraction == 1.0
        said = turns(record)
        short = demonstrator.mistakes & {Mistake.STOPS_EARLY, Mistake.MALFORMED}
        assert len(said) == (3 if short else 4)
        assert said[0] == demonstrator.next_turn([])
        assert record.trajectory is not None
        (conversation,) = record.trajectory.conversations
        for turn, message in zip(said[1:], [m for m in conversation if m.role == "tool"], strict=False):
            before = conversation[: conversation.index(message) + 1]
            assert turn == demonstrator.next_turn(before)
    assert sum(int(segment.loss_mask.sum()) for segment in demonstrated_segments(tmp_path)) == sum(
        record.accounting.trainable_tokens for record in records
    )


@pytest.mark.parametrize(("harness", "count"), [("claude-code", 16), ("openhands-sdk", 3), ("opencode", 3)])
def test_a_demonstration_is_rewarded_where_it_holds_no_mistake(harness: str, count: int, tmp_path: Path) -> None:
    parts = Capture(CaptureSettings(harness=harness, count=count, seed=11), RunDirectory.make(tmp_path))
    specs = [replace(spec, grading=Grading.FRESH) for spec in parts.specs()]
    with Journal(parts.directory.journal) as journal:
        records = asyncio.run(run_trials(specs, parts.runtime(), journal, concurrency=2, progress=ignore))
    rewards = [record.outcome.reward for record in records]
    assert rewards == [int(not demonstrator.mistakes) for demonstrator in parts.demonstrators()]
    assert set(rewards) == {0, 1}


def test_a_selection_of_captured_trials_is_learned_from_token_by_token(tmp_path: Path) -> None:
    runs, out = tmp_path / "captured", tmp_path / "selected"
    records = asyncio.run(capture(CLAUDE.model_copy(update={"count": 3}), runs, ignore))
    lego_rl = [sys.executable, "-c", "from lego_rl.cli import main; main()", "export-sft", runs]
    for rule in ("solved", "finished", "well_formed", "distinct"):
        lego_rl += ["--set", f"{rule}=false"]
    subprocess.run([*lego_rl, "--out", out], check=True)
    before, after = ([*demonstrated_segments(folder)] for folder in (runs, out))
    assert len(before) == len(after) == 3
    for one, other in zip(before, after, strict=True):
        assert np.array_equal(one.token_ids, other.token_ids)
        assert np.array_equal(one.loss_mask, other.loss_mask)
        assert np.array_equal(one.logprobs, other.logprobs)
    subprocess.run([*lego_rl, "--out", tmp_path / "chat.jsonl", "--format", "chat"], check=True)
    chats = [json.loads(line) for line in (tmp_path / "chat.jsonl").read_text().splitlines()]
    assert {chat["trial"] for chat in chats} == {record.spec.id for record in records}
    for chat in chats:
        roles = [message["role"] for message in chat["messages"]]
        assert roles[:3] == ["system", "user", "assistant"]
        assert chat["messages"][2]["tool_calls"][0]["function"]["name"] == "Bash"
        assert {tool["function"]["name"] for tool in chat["tools"]} >= {"Bash", "Read", "Edit"}
