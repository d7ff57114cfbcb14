"""A stock Harbor trial in our environment, graded by our verifier, both by import path."""

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig, VerifierConfig
from harbor.models.trial.result import TrialResult
from harbor.trial.trial import Trial
from history_task import COMMAND, make_task
from sandbox_tools import TASK_TOML, processes_named, write_files

from lego_rl.errors import TaskError
from lego_rl.sandbox.codec import patch_from_json, verdict_from_json
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import State
from lego_rl.sandbox.transfer import LEFT_OUT, LOG_BYTES, LOG_FILE_BYTES

FIX = "sed -i 's/a - b/a + b/' calc/core.py"


def trial_config(task: Path, settings: SandboxSettings, folder: Path, script: str, **options: object) -> TrialConfig:
    return TrialConfig(
        task=TaskConfig(path=task),
        trials_dir=folder,
        trial_name="trial",
        agent=AgentConfig(import_path="harbor_agents:ScriptAgent", kwargs={"script": script}, **options),
        environment=EnvironmentConfig(
            import_path="lego_rl.sandbox.environment:SealedEnvironment",
            kwargs={"sandbox": {**settings.model_dump(mode="json"), "processes": 64, "disk_mb": 64}},
        ),
        verifier=VerifierConfig(import_path="lego_rl.sandbox.verifier:FreshVerifier"),
    )


async def run_trial(task: Path, settings: SandboxSettings, folder: Path, script: str, **options: object) -> TrialResult:
    trial = await Trial.create(trial_config(task, settings, folder, script, **options))
    return await trial.run()


@pytest.mark.parametrize(("script", "reward"), [(FIX, 1), ("true", 0)])
async def test_reward_and_record(
    task_dir: Path, settings: SandboxSettings, state: State, tmp_path: Path, script: str, reward: int
) -> None:
    result = await run_trial(task_dir, settings, tmp_path, f"{script}; echo said > /logs/agent/said.txt")
    assert result.exception_info is None
    assert result.verifier_result.rewards == {"reward": reward}
    folder = tmp_path / "trial" / "verifier"
    verdict = verdict_from_json((folder / "verdict.json").read_text())
    assert verdict.reward == reward
    changes = patch_from_json((folder / "patch.json").read_text()).changes
    assert [change.path for change in changes] == (["calc/core.py"] if reward else [])
    assert json.loads((folder / "limits.json").read_text())["hits"] == {
        "memory": 0,
        "processes": 0,
        "disk": False,
        "unmeasured": False,
    }
    assert (tmp_path / "trial" / "agent" / "said.txt").read_text() == "said\n"
    assert not list(state.runs.iterdir())


async def test_a_task_with_a_history_whose_tests_need_its_tags(settings: SandboxSettings, tmp_path: Path) -> None:
    command = f'test "$(git describe --tags)" = v1 && {COMMAND}'
    task = make_task(tmp_path / "task", 'grading_history = "tags"', command)
    script = f"git log --format=%s > /logs/agent/log.txt; git tag >> /logs/agent/log.txt; {FIX}; git commit -qam mine"
    result = await run_trial(task, settings, tmp_path, script)
    assert result.exception_info is None
    assert result.verifier_result.rewards == {"reward": 1}
    assert (tmp_path / "trial" / "agent" / "log.txt").read_text() == "base\nfirst\n"


LARGE = ("patch.json", "verdict.json")
FILE_EVENTS = {"open", "os.scandir", "os.listdir", "os.chmod", "os.rename", "shutil.copyfile", "shutil.copytree"}


def frames() -> Iterator[FrameType]:
    """The stack, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


async def test_the_event_loop_waits_for_no_file_that_may_be_large(
    task_dir: Path, settings: SandboxSettings, tmp_path: Path
) -> None:
    own = tmp_path / "task"
    shutil.copytree(task_dir, own)
    state = State(tmp_path / "state")
    written = tmp_path / "trial" / "verifier"
    watched = (str(own), str(state.pristine), str(state.toolchains), *(str(written / name) for name in LARGE))
    on_loop: list[str] = []
    elsewhere: list[str] = []

    def record(event: str, arguments: tuple[object, ...]) -> None:
        # Without a way to remove it, the hook outlives this test; then nothing is below the watched folders any more.
        path = arguments[0] if event in FILE_EVENTS and arguments else None
        if not isinstance(path, str | os.PathLike) or not os.fspath(path).startswith(watched):
            return
        if any("/lego_rl/sandbox/" in frame.f_code.co_filename for frame in frames()):
            main = threading.current_thread() is threading.main_thread()
            (on_loop if main else elsewhere).append(f"{event} {path}")

    sys.addaudithook(record)
    own_settings = settings.model_copy(update={"state": state.root})
    result = await run_trial(own, own_settings, tmp_path, FIX)
    assert result.verifier_result.rewards == {"reward": 1}
    assert not on_loop
    for folder in watched:
        assert any(folder in event for event in elsewhere), folder


@pytest.mark.parametrize(("storage", "disk_mb"), [("storage_mb = 300\n", 300), ("", 64)])
async def test_the_disk_limit_of_the_task_comes_before_that_of_the_run(
    task_dir: Path, settings: SandboxSettings, tmp_path: Path, storage: str, disk_mb: int
) -> None:
    own = tmp_path / "task"
    shutil.copytree(task_dir, own)
    write_files(own, {"task.toml": TASK_TOML + storage})
    trial = await Trial.create(trial_config(own, settings, tmp_path, "true"))
    assert trial.agent_environment.limits == Limits(memory_mb=512, processes=64, disk_mb=disk_mb)


MUCH_TO_SAY = """
cd /logs/agent
echo first > a.txt
(head -c 3000000 /dev/zero | tr '\\0' x; echo end) > b.txt
truncate -s 1G c.txt
mkdir d && for i in $(seq 3000); do ln b.txt d/$i; done
echo last > e.txt
"""


async def test_logs_are_kept_as_far_as_somebody_would_read_them(
    task_dir: Path, settings: SandboxSettings, tmp_path: Path
) -> None:
    result = await run_trial(task_dir, settings, tmp_path, f"{MUCH_TO_SAY}\ncd /app; {FIX}")
    assert result.verifier_result.rewards == {"reward": 1}
    logs = tmp_path / "trial" / "agent"
    assert (logs / "a.txt").read_text() == "first\n"
    mark, end = (logs / "b.txt").read_text().split("\n", 1)
    assert mark == f"[... {3_000_004 - LOG_FILE_BYTES} bytes left out ...]"
    assert (len(end), end[-5:]) == (LOG_FILE_BYTES, "xend\n")
    assert (logs / "c.txt").stat().st_size < LOG_FILE_BYTES + 100
    assert sum(path.stat().st_size for path in logs.rglob("*") if path.is_file()) <= LOG_BYTES + 1000
    assert "the last one here, by name, is d/" in (logs / LEFT_OUT).read_text()
    assert not (logs / "e.txt").exists()


ESCAPES = {
    "trajectory that Harbor cannot read": "printf '\\xff\\xfe' > /logs/agent/trajectory.json",
    "logs replaced": "rm -rf /logs/agent /logs/artifacts; ln -s / /logs/agent; ln -s / /logs/artifacts",
    "endless logs": "head -c 1000000000 /dev/zero > /logs/agent/big || true",
    "work tree is a link": "rm -rf calc tests; ln -s / tests",
    "all processes killed": "kill -9 -1",
    "first process signalled": "kill -TERM 1; kill -INT 1; kill -9 1; true",
    "processes left": "for i in $(seq 40); do (setsid sleep 4444.8 >/dev/null 2>&1 &); done; true",
    "planted rewards": "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt",
}


@pytest.mark.parametrize("script", ESCAPES.values(), ids=ESCAPES.keys())
async def test_no_escape_from_a_verdict(task_dir: Path, settings: SandboxSettings, tmp_path: Path, script: str) -> None:
    result = await run_trial(task_dir, settings, tmp_path, script)
    assert result.exception_info is None
    assert result.verifier_result.rewards == {"reward": 0}
    assert not processes_named("4444.8")


async def test_an_agent_out_of_time_is_graded_on_what_it_did(
    task_dir: Path, settings: SandboxSettings, tmp_path: Path
) -> None:
    result = await run_trial(task_dir, settings, tmp_path, f"{FIX}; sleep 4444.9", override_timeout_sec=1.5)
    assert result.exception_info.exception_type == "AgentTimeoutError"
    assert result.verifier_result.rewards == {"reward": 1}
    assert not processes_named("4444.9")


async def test_a_task_with_a_network_is_refused(task_dir: Path, settings: SandboxSettings, tmp_path: Path) -> None:
    public = tmp_path / "public"
    shutil.copytree(task_dir, public)
    write_files(public, {"task.toml": TASK_TOML.replace("no-network", "public")})
    with pytest.raises(TaskError, match="network mode 'public'"):
        await run_trial(public, settings, tmp_path, "true")


async def test_a_task_that_shows_its_hidden_test_never_starts(
    task_dir: Path, settings: SandboxSettings, state: State, tmp_path: Path
) -> None:
    shown = tmp_path / "shown"
    shutil.copytree(task_dir, shown)
    shutil.copy(shown / "tests" / "files" / "tests" / "test_hidden.py", shown / "environment" / "repo" / "notes.txt")
    result = await run_trial(shown, settings, tmp_path, "true")
    assert result.exception_info.exception_type == "SealError"
    assert not list(state.runs.iterdir())
