"""A disk that is full because trials of the run fill it together masks none of them; one that somebody else fills does.

The disk is a small one by what the host is told of it; what lies on it, trials and their sandboxes, is real.
"""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from faulty_trials import FaultyTrials, Injection, faulty_trials
from hostile_commands import appending
from rollout_kit import FIX, bash

from lego_rl.rollout import shortage
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.shortage import Reserves
from lego_rl.sandbox.bubblewrap.box import BubblewrapSandbox

MIB = 1 << 20
DISK = 72 * MIB
"""Not much more than a trial may use, 64 MiB."""
NO_REPORT = appending('__import__("os")._exit(0)')
"""The tests end without a report, for which a full disk is a reason."""
WAIT = "sleep 4577"
HOLDS = Injection([FIX, NO_REPORT, bash(f"head -c 60M /dev/zero > large; {WAIT}"), "Mended."])
HOLDS_NOTHING = Injection([FIX, NO_REPORT, bash(f"touch large; {WAIT}"), "Mended."])
ENDS = Injection([FIX, NO_REPORT, "Mended."])


@dataclass(frozen=True)
class Disk:
    """What lies in some folders is all that is on it."""

    folders: tuple[Path, ...]

    def free(self, _: Path) -> int:
        return max(0, DISK - sum(_size(path) for folder in self.folders for path in folder.rglob("*")))


def _size(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except FileNotFoundError:
        return 0


async def ran(trials: FaultyTrials) -> tuple[TrialRecord, TrialRecord]:
    """One trial from its start to its end while another one holds what it has, and then that one."""
    other = asyncio.create_task(trials.run(trials.specs["other"]))
    while not isinstance(box := trials.boxes.get("other"), BubblewrapSandbox) or WAIT not in await running(box):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    ended = await trials.run(trials.specs["ends"])
    await box.exec(["pkill", "-f", f"^{WAIT}"])
    return ended, await other


async def running(box: BubblewrapSandbox) -> str:
    return (await box.exec(["ps", "-eo", "args"])).stdout


@pytest.mark.parametrize(
    ("other", "foreign", "row"),
    [(HOLDS, 0, Ended.NO_VERDICT), (HOLDS_NOTHING, 0, Ended.NO_VERDICT), (HOLDS_NOTHING, 60, Ended.HOST_DISK_FULL)],
    ids=["filled together", "with room", "filled by somebody else"],
)
async def test_whose_doing_a_full_disk_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Injection, foreign: int, row: Ended
) -> None:
    trials = faulty_trials(tmp_path, {"other": other, "ends": ENDS}, monkeypatch)
    reserves = Reserves(disk_bytes=16 * MIB, files=0, handles=0, memory_bytes=0)
    trials.base = replace(trials.base, reserves=reserves)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "foreign").write_bytes(bytes(foreign * MIB))
    disk = Disk((trials.base.state.runs, trials.base.directory.scratch, elsewhere))
    monkeypatch.setattr(shortage, "free_bytes", disk.free)
    async with asyncio.timeout(120):
        records = await ran(trials)
    for record in records:
        assert record.outcome.ended is row, record.outcome.detail
        assert record.outcome.reward == (None if foreign else 0)
