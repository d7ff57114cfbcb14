"""Claude Code ``--bare`` in containers: each part ends as it does in bubblewrap."""

import asyncio

import pytest
from rollout_kit import runtime, spec, write_task

from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.runner import run_trials

ENDS = {
    "the fixer": (Ended.FINISHED, 1),
    "the bungler": (Ended.FINISHED, 0),
    "the escapist": (Ended.FINISHED, 1),
    "the wrecker": (Ended.HARNESS_KILLED, 1),
    "the hog": (Ended.OUT_OF_DISK, 1),
}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, docker_host: str) -> dict[str, TrialRecord]:
    """Every part, played once, two at a time."""
    folder = tmp_path_factory.mktemp("docker")
    trials = runtime(folder / "run", environment="docker", docker={"host": docker_host}, state=folder / "state")
    trials.prepare()

    async def batch() -> list[TrialRecord]:
        specs = [spec(write_task(folder / "tasks", part)) for part in ENDS]
        with Journal(trials.directory.journal) as journal:
            return await run_trials(specs, trials, journal, concurrency=2)

    records = asyncio.run(batch())
    assert not list((folder / "state" / "runs").iterdir())
    return {record.spec.task.name: record for record in records}


@pytest.mark.parametrize("part", ENDS)
def test_each_part_ends_in_its_row_with_its_reward(played: dict[str, TrialRecord], part: str) -> None:
    outcome = played[part].outcome
    assert (outcome.ended, outcome.reward) == ENDS[part], outcome.detail


def test_what_held_the_limits_is_in_the_record(played: dict[str, TrialRecord]) -> None:
    limits = played["the fixer"].limits
    assert limits is not None
    assert limits.memory in ("cgroup-v1", "cgroup-v2")
    hits = played["the hog"].limit_hits
    assert hits is not None
    assert hits.disk
