"""Claude Code ``--bare`` in the real sandbox, through the real gateway, by a policy that plays parts."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rollout_kit import FIX, POLICY, fail, playing, runtime, spec, write_task

from lego_rl.engine.protocol import Engine, EngineError
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.harness.base import DEFAULT_PATH, BundleSpec, Endpoint, HarnessBundle, Launch
from lego_rl.rollout.agent import AROUND_THE_SESSION_SECONDS
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.runner import run_trials
from lego_rl.rollout.spec import Grading, TrialSpec
from lego_rl.rollout.trial import Runtime
from lego_rl.sandbox import grading
from lego_rl.sandbox.limits import LimitHits

ENDS = {
    "the fixer": (Ended.FINISHED, 1),
    "the bungler": (Ended.FINISHED, 0),
    "the mumbler": (Ended.MALFORMED_CALL, 0),
    "the idler": (Ended.FINISHED, 0),
    "the vandal": (Ended.FINISHED, 0),
    "the sleeper": (Ended.AGENT_TIMEOUT, 1),
    "the looper": (Ended.TURN_BUDGET, 0),
    "the dawdler": (Ended.WALL_CLOCK_BUDGET, 1),
    "the wrecker": (Ended.HARNESS_KILLED, 1),
    "the escapist": (Ended.FINISHED, 1),
    "the digger": (Ended.FINISHED, 1),
    "the hog": (Ended.OUT_OF_DISK, 1),
}
"""How each part ends. Whoever mended the function before it went wrong is graded for it."""

type Records = dict[str, TrialRecord]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rollout")


@pytest.fixture(scope="module")
def played(workplace: Path) -> Records:
    """Every part, played once, two at a time."""
    limits = {
        "the sleeper": {"wall_clock_sec": 12.0},
        "the looper": {"turns": 4},
        "the dawdler": {"wall_clock_sec": 12.0},
    }
    specs = [spec(write_task(workplace / "tasks", part), **limits.get(part, {})) for part in ENDS]
    trials = runtime(workplace / "run")

    async def batch() -> list[TrialRecord]:
        with Journal(trials.directory.journal) as journal:
            return await run_trials(specs, trials, journal, concurrency=2)

    return {record.spec.task.name: record for record in asyncio.run(batch())}


@pytest.mark.parametrize("part", ENDS)
def test_each_part_ends_in_its_row_with_its_reward(played: Records, part: str) -> None:
    outcome = played[part].outcome
    assert (outcome.ended, outcome.reward) == ENDS[part], outcome.detail
    assert outcome.verdict is not None
    assert outcome.verdict.reward == outcome.reward


def test_what_held_the_limits_is_recorded(played: Records) -> None:
    for record in played.values():
        assert record.limits is not None
        assert record.limit_hits is not None
    assert played["the hog"].limit_hits == LimitHits(disk=True)


def test_the_patch_is_the_change_and_nothing_else(played: Records) -> None:
    patch = played["the fixer"].patch
    assert patch is not None
    assert [(change.path, b"a + b" in change.content) for change in patch.changes] == [("calc.py", True)]
    assert played["the idler"].patch is not None
    assert played["the idler"].patch.changes == ()


def test_every_sampled_token_is_captured(played: Records) -> None:
    for record in played.values():
        assert record.trajectory is not None
        accounting = record.trajectory.accounting
        assert accounting == record.accounting
        assert accounting.sampled_tokens == sum(len(call.token_ids) for call in record.trajectory.generations) > 0
        assert accounting.trainable_tokens + sum(accounting.excluded.values()) == accounting.sampled_tokens
        assert all(segment.route_coverage == 1.0 for segment in record.trajectory.segments)


def test_a_malformed_call_ends_the_run_and_is_counted(played: Records) -> None:
    assert played["the mumbler"].accounting.tool_parse_faults == 1
    assert played["the mumbler"].accounting.calls == 1


def test_the_turn_budget_is_the_gateways(played: Records) -> None:
    assert played["the looper"].accounting.calls == 4
    assert played["the looper"].accounting.budget_hit == "turns"
    # Its time was up while a command ran: the next request got a last answer, and the harness ended by itself.
    assert played["the dawdler"].accounting.budget_hit == "wall_clock"
    assert played["the dawdler"].seconds.agent < 12.0 + AROUND_THE_SESSION_SECONDS
    assert "turns" in played["the looper"].outcome.detail


def test_the_limit_of_disk_is_named(played: Records) -> None:
    assert "limit of disk" in played["the hog"].outcome.detail


def test_phases_add_up_and_what_the_harness_printed_is_kept(played: Records) -> None:
    for record in played.values():
        seconds = record.seconds
        phases = (seconds.setup, seconds.agent, seconds.grading)
        assert all(phase > 0 for phase in phases)
        assert sum(phases) <= seconds.total + 0.01
        assert record.harness_version.startswith("2.")
    assert "Mended." in played["the fixer"].logs["harness.stdout"]


def test_records_come_back_from_the_disk_and_nothing_else_is_left(played: Records, workplace: Path) -> None:
    trials = runtime(workplace / "run")
    for record in played.values():
        loaded = trials.store.load(record.spec.id)
        assert (loaded.spec, loaded.outcome, loaded.seconds) == (record.spec, record.outcome, record.seconds)
        assert (loaded.patch, loaded.logs, loaded.accounting) == (record.patch, record.logs, record.accounting)
        assert record.trajectory is not None
        assert loaded.trajectory is not None
        assert loaded.trajectory.conversations == record.trajectory.conversations
        assert len(loaded.trajectory.segments) == len(record.trajectory.segments)
    assert list(trials.directory.scratch.iterdir()) == []


async def test_an_engine_that_is_down_is_not_the_policys_fault(tmp_path: Path) -> None:
    def ask_once(endpoint: Endpoint) -> Launch:
        # A harness that gives up at once: Claude Code would try again for three minutes.
        body = json.dumps({"model": "policy", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]})
        url = f"{endpoint.base_url}/v1/messages"
        return Launch(("python3", "-c", f"import urllib.request as r; r.urlopen({url!r}, {body.encode()!r})"), {})

    trials, one = impostor(tmp_path, ask_once)
    template = ChatTemplate.load(POLICY)
    down = Gateway(playing(template, fail), template, tool_call_parser("qwen3_coder"))
    record = await replace(trials, gateway=down).run(one)
    assert (record.outcome.ended, record.outcome.reward) == (Ended.ENGINE_FAILED, None), record.logs
    assert record.accounting.refused == {"engine_error": 1}


async def test_an_engine_that_recovers_leaves_the_trial_to_the_policy(tmp_path: Path) -> None:
    failures = iter([True])

    def once(part: str, turn: int) -> None:
        if next(failures, False):
            raise EngineError("a moment of weakness")

    trials = runtime(tmp_path / "run", playing(ChatTemplate.load(POLICY), once))
    record = await trials.run(spec(write_task(tmp_path, "the bungler")))
    assert (record.outcome.ended, record.outcome.reward) == (Ended.FINISHED, 0)
    assert record.accounting.refused == {"engine_error": 1}


async def test_a_demonstration_is_recorded_and_not_graded(tmp_path: Path) -> None:
    trials = runtime(tmp_path / "run")
    record = await trials.run(spec(write_task(tmp_path, "the fixer"), grading=Grading.NONE))
    assert (record.outcome.ended, record.outcome.reward, record.outcome.verdict) == (Ended.FINISHED, None, None)
    assert record.trajectory is not None
    assert record.accounting.calls == 2
    assert record.seconds.grading == 0.0
    assert FIX.splitlines()[3] in str(record.trajectory.conversations[0])


class Impostor:
    """A harness that is started as it is told, to see what becomes of one that does not work."""

    spec = BundleSpec("impostor", "1", "none", "1")

    def __init__(self, launch: Callable[[Endpoint], Launch]) -> None:
        self._launch = launch

    def install(self, root: Path) -> HarnessBundle:
        root.mkdir()
        return HarnessBundle("impostor", "1", "", root, 0, "none")

    def launch(
        self, instruction: str, endpoint: Endpoint, *, mount: str, home: str, workdir: str, path: str = DEFAULT_PATH
    ) -> Launch:
        return self._launch(endpoint)


def impostor(folder: Path, launch: Callable[[Endpoint], Launch]) -> tuple[Runtime, TrialSpec]:
    harness = Impostor(launch)
    trials = replace(runtime(folder / "run"), harness=harness, bundle=harness.install(folder / "bundle"))
    one = spec(write_task(folder, "the fixer"))
    return trials, replace(one, harness=replace(one.harness, name="impostor"))


async def test_a_harness_that_never_calls_the_model_is_not_the_policys_fault(tmp_path: Path) -> None:
    trials, one = impostor(tmp_path, lambda _: Launch(("/bin/sh", "-c", "echo I am broken >&2; exit 3"), {}))
    record = await trials.run(one)
    assert (record.outcome.ended, record.outcome.reward) == (Ended.HARNESS_SILENT, None)
    assert "exit code 3" in record.outcome.detail
    assert record.logs["harness.stderr"] == "I am broken\n"


async def test_a_harness_that_cannot_be_set_up_is_not_the_policys_fault(tmp_path: Path) -> None:
    trials, one = impostor(tmp_path, lambda _: Launch(("/bin/true",), {}, files={"/proc/nowhere": "text"}))
    record = await trials.run(one)
    assert (record.outcome.ended, record.outcome.reward) == (Ended.SETUP_FAILED, None)
    assert "put / failed" in record.outcome.detail


async def test_a_sandbox_that_cannot_be_built_is_not_the_policys_fault(tmp_path: Path) -> None:
    (tmp_path / "no-root").mkdir()
    record = await runtime(tmp_path / "run", rootfs=tmp_path / "no-root").run(spec(write_task(tmp_path, "the fixer")))
    assert (record.outcome.ended, record.outcome.reward) == (Ended.SANDBOX_START, None)
    assert "no root file system" in record.outcome.detail


async def test_a_grading_sandbox_that_cannot_be_built_is_not_the_policys_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grading, "START_PAUSES", (0.0,))
    state = tmp_path / "state"

    def lose_the_work_trees(part: str, turn: int) -> None:
        if turn == 1:
            (state / "pristine").rename(tmp_path / "lost")

    engine: Engine = playing(ChatTemplate.load(POLICY), lose_the_work_trees)
    record = await runtime(tmp_path / "run", engine, state=state).run(spec(write_task(tmp_path, "the fixer")))
    assert (record.outcome.ended, record.outcome.reward) == (Ended.GRADING_START, None)


async def test_a_cancelled_trial_leaves_no_process_no_file_and_no_open_session(tmp_path: Path) -> None:
    reached = asyncio.Event()

    def tell(part: str, turn: int) -> None:
        if turn == 1:
            reached.set()

    trials = runtime(tmp_path / "run", playing(ChatTemplate.load(POLICY), tell), state=tmp_path / "state")
    trial = asyncio.create_task(trials.run(spec(write_task(tmp_path, "the sleeper"))))
    await asyncio.wait_for(reached.wait(), 30)
    await asyncio.sleep(0.3)
    trial.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trial
    assert list((tmp_path / "state" / "runs").iterdir()) == []
    assert list(trials.directory.scratch.iterdir()) == []
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert others == set()
