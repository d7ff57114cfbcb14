"""Unmodified harnesses against the gateway: every token they make the policy sample is captured exactly.

They run on the host's loopback in a folder of their own; that a sandbox seals them is tested elsewhere.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from capture_oracle import check_laws, check_round_trip
from gateway_kit import ROUTES, Tape, call_text, spell, spell_oddly
from served import Served, served

from lego_rl.engine.protocol import EngineError, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.trajectory import Trajectory
from lego_rl.harness import registry
from lego_rl.harness.base import Endpoint, OptionValue

OLD, NEW = "    return cost - fee", "    return cost + fee"
PROMPT = "total_fee should add the fee. Fix it."

type Step = Sequence[int] | Exception


def claude_fix(file: Path) -> list[Sequence[int]]:
    path = str(file)
    return [
        spell("I look for it.\n" + call_text("Bash", {"command": "grep -rn 'def total_fee' ."})),
        spell_oddly(call_text("Read", {"file_path": path})),
        spell(call_text("Edit", {"old_string": OLD, "new_string": NEW, "file_path": path})),
        spell(call_text("Bash", {"command": "printf '<|im_start|>'", "timeout": 2000.0})[:-1] + ">"),
        spell("Done: it adds the fee."),
    ]


def openhands_fix(file: Path) -> list[Sequence[int]]:
    view = {"command": "view", "path": str(file), "view_range": [1, 2], "security_risk": "LOW"}
    edit = {"old_str": OLD, "new_str": NEW, "command": "str_replace", "path": str(file), "security_risk": "LOW"}
    return [
        spell("I look for it.\n" + call_text("terminal", {"command": "grep -rn total_fee .", "security_risk": "LOW"})),
        spell_oddly(call_text("file_editor", view)),
        spell("<think>\nAn edit.\n</think>\n\n" + call_text("file_editor", edit)),
        spell(call_text("finish", {"message": "Done."})),
    ]


@dataclass(frozen=True)
class Case:
    harness: str
    options: dict[str, OptionValue]
    fix: Callable[[Path], list[Sequence[int]]]


CASES = {
    "claude-code-bare": Case("claude-code", {"bare": True}, claude_fix),
    "claude-code": Case("claude-code", {"bare": False}, claude_fix),
    "openhands-sdk": Case("openhands-sdk", {}, openhands_fix),
}


@dataclass
class Workplace:
    """A repository with a bug, and a harness to be sent there."""

    folder: Path
    case: Case

    @property
    def file(self) -> Path:
        return self.folder / "app" / "shop" / "price.py"

    def prepare(self, files: Mapping[str, str]) -> None:
        (self.folder / "home").mkdir(parents=True)
        for path, text in {str(self.file): f"def total_fee(cost, fee):\n{OLD}\n", **files}.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text)

    async def run(self, at: Served) -> int:
        bundle = registry.load(self.case.harness)
        launch = registry.make(self.case.harness, self.case.options).launch(
            PROMPT,
            Endpoint(at.url, "policy", context_tokens=200_000, output_tokens=2_000, turns=50),
            mount=str(bundle.path),
            home=str(self.folder / "home"),
            workdir=str(self.folder / "app"),
        )
        self.prepare(launch.files)
        process = await asyncio.create_subprocess_exec(
            *launch.argv,
            env=dict(launch.env),
            cwd=self.folder / "app",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            await asyncio.wait_for(process.communicate(launch.stdin.encode()), 120)
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        assert process.returncode is not None
        return process.returncode


def engine_of(steps: Sequence[Step]) -> Tape:
    """Says or raises each step in turn."""
    left = list(steps)

    def script(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
        step = left.pop(0)
        if isinstance(step, Exception):
            raise step
        return Reply(step)

    return Tape(ScriptedEngine(script, routes=ROUTES, version=7))


async def check_all_trained(at: Served, engine: Tape, segments: int) -> Trajectory:
    trajectory = await at.close()
    check_laws(trajectory, engine.samples, {sample.call_id for sample in engine.samples})
    check_round_trip(trajectory)
    assert len(trajectory.segments) == segments
    assert trajectory.accounting.delivered_fraction == 1.0
    return trajectory


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_plain_fix_is_one_segment_and_loses_nothing(case: Case, tmp_path: Path) -> None:
    place = Workplace(tmp_path, case)
    engine = engine_of(case.fix(place.file))
    async with served(engine) as at:
        assert await place.run(at) == 0
        trajectory = await check_all_trained(at, engine, segments=1)
    assert place.file.read_text() == f"def total_fee(cost, fee):\n{NEW}\n"
    assert trajectory.accounting.refused == {}
    assert {generation.role for generation in trajectory.generations} == {"main"}


async def test_a_malformed_call_reaches_the_harness_as_text(tmp_path: Path) -> None:
    place = Workplace(tmp_path, CASES["claude-code-bare"])
    engine = engine_of([spell("<tool_call>\n<function=Bash>\nls"), spell("Done.")])
    async with served(engine) as at:
        assert await place.run(at) == 0
        trajectory = await check_all_trained(at, engine, segments=1)
    assert trajectory.accounting.tool_parse_faults == 1
    assert trajectory.conversations[0][-1].content == "<tool_call>\n<function=Bash>\nls"


@pytest.mark.parametrize("name", ["claude-code-bare", "openhands-sdk"])
async def test_trouble_and_recovery(name: str, tmp_path: Path) -> None:
    place = Workplace(tmp_path, CASES[name])
    first, *others = place.case.fix(place.file)
    engine = engine_of([first, EngineError("node down"), *others])
    async with served(engine) as at:
        assert await place.run(at) == 0
        trajectory = await check_all_trained(at, engine, segments=1)
    assert trajectory.accounting.refused["engine_error"] == 1


@pytest.mark.parametrize("name", ["claude-code-bare", "openhands-sdk"])
async def test_a_used_up_turn_budget_ends_the_run(name: str, tmp_path: Path) -> None:
    place = Workplace(tmp_path, CASES[name])
    engine = engine_of(place.case.fix(place.file))
    async with served(engine, Budget(turns=2)) as at:
        assert await place.run(at) == 0
        trajectory = await check_all_trained(at, engine, segments=1)
    assert trajectory.accounting.budget_hit == "turns"
    assert trajectory.accounting.calls == 2


async def test_a_full_context_ends_the_run(tmp_path: Path) -> None:
    place = Workplace(tmp_path, CASES["claude-code-bare"])
    steps = place.case.fix(place.file)
    measure = engine_of([spell("Done.")])
    async with served(measure) as at:
        await Workplace(tmp_path / "measure", place.case).run(at)
    room = len(measure.samples[0].prompt_ids) + 150
    engine = engine_of(steps)
    async with served(engine, Budget(context_tokens=room)) as at:
        await place.run(at)
        trajectory = await check_all_trained(at, engine, segments=1)
    assert trajectory.accounting.budget_hit == "context"
    assert len(engine.samples) < len(steps)
