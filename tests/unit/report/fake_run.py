"""A run directory written by the real store and journal, with as many trials as a test needs."""

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lego_rl.engine.protocol import Timings, WeightSpan
from lego_rl.gateway.accounting import account
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.segments import build_segments
from lego_rl.gateway.trajectory import Generation, Trajectory
from lego_rl.messages import Message, Tool, ToolCall
from lego_rl.rollout.faults import FAULT_TABLE, Ended
from lego_rl.rollout.outcome import EngineSeconds, Outcome, PhaseSeconds, Reward, TrialRecord
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.sandbox.verdict import Change, Patch, Verdict

RECIPE = '[run]\ndir = "runs/demo"\nseed = 7\n\n[harness]\nname = "claude-code"\n'


def spec(label: str, task: str, attempt: int, family: str, split: str, attempts: int = 4) -> TrialSpec:
    return TrialSpec(
        task=Path("pool") / task,
        label=label,
        attempt=attempt,
        attempts=attempts,
        seed=attempt,
        temperature=1.0,
        budget=Budget(turns=8),
        harness=HarnessChoice("claude-code", {"bare": True}),
        family=family,
        split=split,
    )


def conversation(task: str, reward: Reward | None, text: str) -> tuple[Message, ...]:
    read = ToolCall("call_1", "Read", {"file_path": f"/app/{task}.py"})
    edit = ToolCall(
        "call_2", "Edit", {"file_path": f"/app/{task}.py", "old_string": "a - b", "new_string": "a + b", "n": 1}
    )
    messages = [
        Message("system", "You are an agent."),
        Message("user", f"Mend {task}."),
        Message("assistant", text, (read,)),
        Message("tool", "1\tdef total(a, b):\n2\t    return a - b\n", tool_call_id="call_1"),
    ]
    if reward == 1:
        messages += [Message("assistant", "", (edit,)), Message("tool", "The file was edited.", tool_call_id="call_2")]
    return (*messages, Message("assistant", "Done." if reward == 1 else "I am not sure."))


def _call(index: int, tokens: int) -> Generation:
    """A delivered answer of so many tokens, after the one before it."""
    return Generation(
        call_id=f"call-{index}",
        parent=index - 1 if index else None,
        context_ids=np.ones(3, np.int32),
        token_ids=np.ones(tokens, np.int32),
        logprobs=np.zeros(tokens, np.float32),
        finish_reason="stop",
        weight_versions=(WeightSpan(0, 0, tokens),),
        timings=Timings(),
        role="main",
        fate="delivered",
    )


@dataclass
class FakeRun:
    """Builds a run directory piece by piece."""

    path: Path
    clock: float = 1_000.0
    trained: set[str] = field(default_factory=set)
    _journal: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory = RunDirectory.make(self.path)
        self.directory.recipe.write_text(RECIPE)

    def trial(self, spec: TrialSpec, reward: Reward | None, text: str = "Let me look.") -> TrialRecord:
        ended = Ended.FINISHED if reward is not None else Ended.SANDBOX_START
        status = "passed" if reward == 1 else "failed"
        verdict = None if reward is None else Verdict(reward, {"tests/test_it.py::test_total": "failed"} | {
            "tests/test_it.py::test_total": status, "tests/test_it.py::test_other": "passed"
        }, log="log", seconds=0.4)  # fmt: skip
        calls = (_call(0, 40), _call(1, 40), _call(2, 20))
        segments = build_segments(calls)
        accounting = account(calls, segments, None, {})
        record = TrialRecord(
            spec=spec,
            outcome=Outcome(reward, ended, verdict, FAULT_TABLE[ended].meaning),
            trajectory=Trajectory(
                segments=segments,
                generations=calls,
                conversations=(conversation(spec.task.name, reward, text),),
                tools=(Tool("Read", "Reads a file.", {"type": "object"}),),
                accounting=accounting,
            ),
            seconds=PhaseSeconds(0.2, 1.5, 0.4, 2.2, EngineSeconds(0.1, 0.2, 0.3)),
            accounting=accounting,
            patch=Patch((Change("shop/price.py", "file", b"def total(a, b):\n    return a + b\n"),)),
            harness_version="2.1.332",
        )
        self.directory.store.save(record)
        if not spec.family.startswith("unseen"):
            self.trained.add(spec.family)
            self.directory.trained_families.write_text(json.dumps(sorted(self.trained)))
        self.log("trial-started", spec)
        self.clock += 2.0
        self.log("trial-scored" if reward is not None else "trial-faulted", spec, ended)
        return record

    def log(self, kind: str, spec: TrialSpec, ended: Ended | None = None) -> None:
        """Append a journal entry at the present time of the fake clock."""
        data = {"id": spec.id} | ({} if ended is None else {"ended": ended.value})
        body = {"n": len(self._journal), "at": self.clock, "kind": kind, "data": data}
        canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
        self._journal.append(body | {"crc": f"{zlib.crc32(canonical.encode()):08x}"})
        self.directory.journal.write_text("".join(json.dumps(entry) + "\n" for entry in self._journal))

    def evaluate(self, label: str, rewards: dict[str, Sequence[Reward | None]], families: dict[str, str]) -> None:
        """Trials of several tasks; a family whose name starts with ``unseen`` is never trained on, and of another
        split."""
        for task, each in rewards.items():
            family = families[task]
            split = "elsewhere" if family.startswith("unseen") else "heldout"
            for attempt, reward in enumerate(each):
                self.trial(spec(label, task, attempt, family, split, len(each)), reward)

    def metrics(self, rows: Sequence[dict[str, float | int | None]], finished: int | None = None) -> None:
        """Write the rows of the steps, and the checkpoint of the last finished one: of all, if not told."""
        steps = len(rows) if finished is None else finished
        if steps:
            (self.directory.checkpoints / f"step-{steps:04d}").mkdir(parents=True)
        lines = [json.dumps({"step": step, **row}) + "\n" for step, row in enumerate(rows)]
        self.directory.metrics.write_text("".join(lines))
