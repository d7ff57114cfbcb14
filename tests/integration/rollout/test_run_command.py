"""``lego-rl run`` as a person calls it: a real harness in a real sandbox at work on a folder, and what comes of it."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lego_rl.gateway.transcript_store import read_transcript
from tests.chat_endpoint import KEY, VARIABLE, Endpoint, Says, by_turn, calling, endpoint, failing

LEGO_RL = (sys.executable, "-c", "from lego_rl.cli import main; main()")
FIX = "sed -i 's/a - b/a + b/' calc.py; ls -A; env; cat .env ../.env 2>&1"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (root / ".env").write_text("PASSWORD=hunter2\n")
    (root / ".gitignore").write_text("build/\n")
    (root / "build").mkdir()
    (root / "build" / "old").write_text("built")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def state_beside(workspace: Path) -> Path:
    return workspace.parent / "sandboxes"


def left_behind(workspace: Path) -> list[Path]:
    """What of a run is still there: sandboxes, and copies of the workspace."""
    state = state_beside(workspace)
    return [*state.glob("runs/*"), *state.glob("workspace-*"), *state.glob("pristine/*"), *workspace.glob(".lego*")]


class Called:
    """A running command."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def end(self) -> tuple[int, str, str]:
        out, err = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, out.decode(), err.decode()


async def call(served: Endpoint, workspace: Path, *arguments: str, harness: str = "claude-code") -> Called:
    option = ["--option", "bare=true"] if harness == "claude-code" else []
    command = [
        *(*LEGO_RL, "run", "Mend add in calc.py.", "--harness", harness, *option),
        *("--endpoint", served.url, "--model", "hosted", "--key-env", VARIABLE, "--workspace", str(workspace)),
        *("--ask", "retries=0", "--set", f"sandbox.state={state_beside(workspace)}", *arguments),
    ]
    env = {**os.environ, VARIABLE: KEY}
    pipe = asyncio.subprocess.PIPE
    return Called(await asyncio.create_subprocess_exec(*command, env=env, stdout=pipe, stderr=pipe))


async def ran(says: Says, workspace: Path, *arguments: str, **changes: object) -> tuple[int, str, str, Endpoint]:
    async with endpoint(says, **changes) as served:
        code, out, err = await (await call(served, workspace, *arguments)).end()
    return code, out, err, served


def check_applies(patch: str, workspace: Path) -> None:
    subprocess.run(["git", "apply", "--check", "-"], input=patch.encode(), cwd=workspace, check=True)


async def test_the_change_is_printed_and_nothing_is_touched(workspace: Path, tmp_path: Path) -> None:
    says = by_turn(calling("Bash", command=FIX, call_id="t1"), "Mended.")
    kept = tmp_path / "kept"
    code, out, err, served = await ran(says, workspace, "--keep-trajectory", str(kept))
    assert code == 0, err
    assert "-    return a - b\n+    return a + b\n" in out
    assert out.startswith("diff --git a/calc.py b/calc.py\n")
    assert (workspace / "calc.py").read_text() == "def add(a, b):\n    return a - b\n"
    check_applies(out, workspace)
    assert "left out, ignored by git: build/; left out, may hold secrets: .env" in err
    (result,) = [each["content"] for each in served.bodies[-1]["messages"] if each["role"] == "tool"]
    assert "calc.py" in result
    for hidden in ("hunter2", "build", KEY, VARIABLE, str(workspace)):
        assert hidden not in result
    everything = out + err + "".join(path.read_text(errors="replace") for path in kept.iterdir())
    assert KEY not in everything
    assert [call.fate for call in read_transcript(kept).calls] == ["delivered"] * 2
    assert not left_behind(workspace)


async def test_the_change_is_applied_where_nothing_changed_meanwhile(workspace: Path) -> None:
    says = by_turn(calling("Bash", command=FIX, call_id="t1"), "Mended.")
    code, out, err, _ = await ran(says, workspace, "--apply", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert (told["applied"], told["changes"]) == (True, [{"path": "calc.py", "kind": "file", "executable": False}])
    assert told["left_out"] == {".env": "may hold secrets", "build/": "ignored by git"}
    assert (workspace / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"


async def test_what_the_user_did_meanwhile_is_kept(workspace: Path, tmp_path: Path) -> None:
    def says(body: dict[str, object]) -> object:
        (workspace / "calc.py").write_text("mine\n")
        return by_turn(calling("Bash", command=FIX, call_id="t1"), "Mended.")(body)

    file = tmp_path / "x.patch"
    code, out, err, _ = await ran(says, workspace, "--apply", "--output", str(file))  # type: ignore[arg-type]
    assert code == 1
    assert "nothing was applied: calc.py in" in err
    assert (workspace / "calc.py").read_text() == "mine\n"
    assert file.read_text() == out != ""


async def test_a_key_that_is_refused_is_one_line_before_anything_starts(workspace: Path) -> None:
    code, out, err, served = await ran(lambda body: "", workspace, probe=lambda body: failing(401, f"bad {KEY}"))
    assert (code, out) == (1, "")
    assert f"fix: check the key in {VARIABLE}" in err
    assert KEY not in err
    assert "Traceback" not in err
    assert not served.bodies


async def test_an_endpoint_that_goes_down_is_said(workspace: Path) -> None:
    answers = iter(["OK"])
    down = failing(503, "overloaded")
    code, _, err, _ = await ran(
        lambda body: failing(503, "overloaded"), workspace, "--minutes", "0.3", probe=lambda body: next(answers, down)
    )
    assert code == 1
    assert "the policy did not answer: the endpoint fails: HTTP 503: overloaded" in err


async def test_ctrl_c_leaves_nothing(workspace: Path) -> None:
    async with endpoint(lambda body: "never") as served:
        served.gate.clear()
        called = await call(served, workspace, "--apply")
        await served.arrived.acquire()
        called.process.send_signal(signal.SIGINT)
        code, out, err = await called.end()
    assert (code, out) == (130, ""), err
    assert "Traceback" not in err
    assert not left_behind(workspace)


@contextlib.asynccontextmanager
async def mended(harness: str, workspace: Path) -> AsyncIterator[str]:
    tool = {"opencode": ("bash", {"description": "mend"}), "openhands-sdk": ("terminal", {})}[harness]
    says = by_turn(calling(tool[0], command=FIX, call_id="t1", **tool[1]), "Mended.")
    async with endpoint(says) as served:
        code, out, err = await (await call(served, workspace, harness=harness)).end()
        assert code == 0, err
        yield out


@pytest.mark.parametrize("harness", ["opencode", "openhands-sdk"])
async def test_harnesses_of_other_wire_formats_work_alike(harness: str, workspace: Path) -> None:
    async with mended(harness, workspace) as out:
        assert "+    return a + b\n" in out


def test_a_local_policy_needs_no_endpoint(workspace: Path) -> None:
    command = [
        *(*LEGO_RL, "run", "Mend add in calc.py.", "--policy", "builtin:demo"),
        *("--option", "bare=true", "--workspace", str(workspace), "--turns", "2", "--output-tokens", "40", "--json"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["calls"] in (1, 2)
