"""Trials of a chat backend: a real harness in a real sandbox, a local endpoint, and the rows that they end in."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from rollout_kit import HARNESS, spec, write_task

from lego_rl.engine.chat import OpenAIChatBackend
from lego_rl.engine.chat_settings import ChatSettings
from lego_rl.errors import RunError
from lego_rl.gateway.server import ChatGateway
from lego_rl.harness import registry
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.spec import TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.rollout.trial import Runtime, run_trial
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.train.loop import as_graded
from tests.chat_endpoint import KEY, TOO_LONG, VARIABLE, Endpoint, Says, by_turn, calling, endpoint, failing

FIX = calling("Bash", command="sed -i 's/a - b/a + b/' calc.py && env && cat calc.py", call_id="toolu_1")


async def tried(says: Says, folder: Path, made: TrialSpec, **changes: object) -> tuple[TrialRecord, Endpoint]:
    os.environ[VARIABLE] = KEY
    async with endpoint(says, **changes) as served:
        settings = ChatSettings(url=served.url, model="hosted", key_env=VARIABLE, retries=1, retry_pause_sec=0)
        async with OpenAIChatBackend(settings) as backend:
            runtime = Runtime(
                gateway=ChatGateway(backend),
                harness=registry.make(HARNESS.name, HARNESS.options),
                bundle=registry.load(HARNESS.name),
                directory=RunDirectory.make(folder / "run"),
                sandbox=SandboxSettings(grading_sec=30.0),
            )
            record = await run_trial(made, runtime)
            runtime.store.save(record)
            assert runtime.store.load(made.id) == record
    return record, served


async def test_a_hosted_model_solves_a_task_and_leaves_a_transcript(tmp_path: Path) -> None:
    task = write_task(tmp_path, "the fixer")
    record, served = await tried(by_turn(FIX, "Mended."), tmp_path, spec(task))
    assert (record.outcome.reward, record.outcome.ended) == (1, Ended.FINISHED)
    assert record.trajectory is None
    assert record.transcript is not None
    assert [call.fate for call in record.transcript.calls] == ["delivered", "delivered"]
    assert record.accounting.calls == 2
    assert record.accounting.trainable_tokens == 0
    assert record.accounting.excluded == {"chat_backend": 14}
    said = [message.role for message in record.transcript.conversations[0]]
    assert said[-3:] == ["assistant", "tool", "assistant"]
    assert served.keys == {KEY}
    kept = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert KEY.encode() not in kept
    assert KEY not in str(record), "the sandbox's environment was printed, and the key was in it"
    with pytest.raises(RunError, match="chat backend, which gives no tokens"):
        as_graded([record], 0)


@pytest.mark.parametrize(
    ("says", "probe", "ended", "reward"),
    [
        (lambda body: failing(500), lambda body: failing(500), Ended.ENGINE_FAILED, None),
        (lambda body: failing(401), lambda body: failing(401), Ended.ENGINE_FAILED, None),
        (lambda body: failing(400, TOO_LONG), lambda body: "OK", Ended.CONTEXT_BUDGET, 0),
        (lambda body: failing(500), lambda body: "OK", Ended.HARNESS_ERROR, 0),
    ],
    ids=["down", "key withdrawn", "context", "only this conversation fails"],
)
async def test_how_a_trial_ends_that_is_not_answered(
    tmp_path: Path, says: Says, probe: Says, ended: Ended, reward: int | None
) -> None:
    made = spec(write_task(tmp_path, "the fixer"), turns=2)
    record, _ = await tried(says, tmp_path, made, probe=probe)
    assert (record.outcome.ended, record.outcome.reward) == (ended, reward), record.outcome.detail


async def test_a_batch_of_a_hosted_policy_is_run_by_the_rollout_command(tmp_path: Path) -> None:
    task = write_task(tmp_path / "tasks", "the fixer")
    async with endpoint(by_turn(FIX, "Mended.")) as served:
        recipe = tmp_path / "hosted.toml"
        recipe.write_text(
            f'run.dir = "x"\n[harness]\nname = "claude-code"\noptions = {{ bare = true }}\n'
            f'[engine]\nkind = "chat"\nurl = "{served.url}"\nmodel = "org/hosted"\nkey_env = "{VARIABLE}"\n'
            "[budget]\nturns = 10\ncontext_tokens = 60000\noutput_tokens = 1000\nwall_clock_sec = 60\n"
        )
        command = [sys.executable, "-c", "from lego_rl.cli import main; main()"]
        rollout = ["rollout", str(recipe), str(task), "--out", str(tmp_path / "out"), "-n", "1"]
        done = await ended(command + rollout)
        assert done == (0, ""), done
        trained = await ended([*command, "train", str(recipe), "--set", f"run.dir={tmp_path / 'other'}"])
        assert trained[0] == 1
        assert "gives no tokens to train on" in trained[1]
        (trial,) = (tmp_path / "out" / "trials").iterdir()
        assert await ended([*command, "inspect", str(trial)]) == (0, "")
        assert await ended([*command, "report", str(tmp_path / "out")]) == (0, "")
    assert (tmp_path / "out" / "outcomes.parquet").is_file()
    assert not any(KEY.encode() in path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())


async def ended(command: list[str]) -> tuple[int | None, str]:
    """Exit code, and what was said of errors."""
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, VARIABLE: KEY}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, err = await process.communicate()
    said = err.decode()
    return process.returncode, said if process.returncode else ""
