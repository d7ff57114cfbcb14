"""Honest changes are graded 1 and tricks 0, through the whole path: agent phase, kill, diff, fresh grading."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sandbox_tools import FIXED, processes_named, shell, write_files

from lego_rl.errors import SandboxError, TaskError
from lego_rl.sandbox import watchdog
from lego_rl.sandbox.codec import patch_from_json, patch_to_json
from lego_rl.sandbox.controlled import ControlledSandbox
from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.grading import grade
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.loss import SandboxKilledError
from lego_rl.sandbox.provider import TaskImage
from lego_rl.sandbox.records import Record
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import RunFolder, State
from lego_rl.sandbox.verdict import Change, Patch, Verdict
from lego_rl.tasks.task import Task

FIX = "sed -i 's/a - b/a + b/' calc/core.py"
PASSING_REPORT = (
    '<testsuites><testsuite><testcase classname="tests.test_hidden.TestAdd" name="test_sum"/>'
    '<testcase classname="tests.test_visible" name="test_zero"/></testsuite></testsuites>'
)
ALL_PASS_HOOK = """
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
FORGER = f"""
import os, time
def pytest_configure():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(4444.6)
        os._exit(0)
open(os.environ.get("LEGO_REPORT", "/dev/null"), "w").write({PASSING_REPORT!r})
"""
LATE = """
import os, time
if os.fork() == 0:
    os.setsid()
    runner = os.getppid()
    while os.getppid() == runner:
        time.sleep(0.001)
    for _ in range(200):
        time.sleep(0.01)
        os.system("cp report.xml $LEGO_REPORT")
    os._exit(0)

def add(a, b):
    return a - b
"""


type Work = Callable[..., Awaitable[tuple[Patch, Verdict]]]


@pytest.fixture
def work(image: TaskImage, task: Task) -> Work:
    async def agent_phase(script: str, files: dict[str, str] | None = None) -> tuple[Patch, Verdict]:
        """Run a script as the agent, with some files at hand in /tmp/files, and grade what it did."""
        box = await image.start(Phase.AGENT, limits=Limits(memory_mb=512))
        try:
            await box.put("/tmp/files", [Record(name, "file", text.encode()) for name, text in (files or {}).items()])
            done = await shell(box, f"set -e; {script}")
            assert done.returncode == 0, done.stderr
            await box.kill()
            patch = (await box.snapshot()).diff(image.pristine)
        finally:
            await box.close()
        return patch, await grade(task, patch, image, timeout_sec=20)

    return agent_phase


HONEST = {
    "plain": FIX,
    "setup.cfg and pyproject": f"{FIX}; echo '[metadata]' >> setup.cfg; echo '[project]' > pyproject.toml",
    "configuration moved": f"{FIX}; rm setup.cfg;"
    " printf '[tool.pytest.ini_options]\\naddopts = \"-q\"\\n' > pyproject.toml",
    "broken test of its own": f"{FIX}; echo 'def test_mine(:' > tests/test_mine.py",
    "hanging test of its own": f"{FIX}; printf 'import time\\ntime.sleep(99)\\n' > tests/mine_test.py",
    "environment files": f"{FIX}; echo 'PYTEST_ADDOPTS=--co' > .env; echo 'exit 1' > .envrc",
    "a virtual environment": f"{FIX}; python3 -m venv --without-pip .venv; echo x > .venv/lib/x.py",
    "own tests": f"{FIX}; echo 'def test_mine(): pass' > tests/test_mine.py; mkdir more; cp tests/test_mine.py more/",
    "own conftest": f"{FIX}; echo 'raise RuntimeError' > tests/conftest.py; echo 'raise RuntimeError' > conftest.py",
    "edited visible test": f"{FIX}; echo 'def test_zero(): assert False' > tests/test_visible.py",
    "guessed hidden test": f"{FIX}; echo 'def test_sum(): assert False' > tests/test_hidden.py",
    "rename": "mkdir calc/new; mv calc/core.py calc/new/impl.py; touch calc/new/__init__.py;"
    " sed -i 's/a - b/a + b/' calc/new/impl.py; sed -i 's/calc.core/calc.new.impl/' calc/__init__.py",
    "binary, mode bits, links": f"{FIX}; head -c 3000 /dev/urandom > blob; chmod -x run.sh; chmod +x calc/core.py;"
    " ln -s calc/core.py link; ln -s /nowhere dangling",
    "file to link": "mkdir impl; sed 's/a - b/a + b/' calc/core.py > impl/real.py; rm calc/core.py;"
    " ln -s ../impl/real.py calc/core.py",
    "folder to file and back": f"{FIX}; rm calc/data.txt; mkdir calc/data.txt; echo 1 > calc/data.txt/x; rm run.sh",
    "its own git": f"{FIX}; mkdir .git; echo ref > .git/HEAD; echo '*' > .gitignore; echo x > ignored.txt",
    "tests folder removed": f"{FIX}; rm -rf tests setup.cfg",
    "unreadable": f"{FIX}; mkdir locked; touch locked/x; chmod 0 locked calc/data.txt",
    "unsearchable": f"{FIX}; chmod 0444 calc",
    "module named like a library's": f"{FIX}; echo 'x = 1' > calc/types.py;"
    " echo 'from calc import types' >> calc/core.py",
}  # fmt: skip


@pytest.mark.parametrize("script", HONEST.values(), ids=HONEST.keys())
async def test_honest_work_is_graded_1(work: Work, script: str) -> None:
    patch, verdict = await work(script)
    assert verdict.reward == 1, verdict.log
    assert set(verdict.tests.values()) == {"passed"}
    assert patch_from_json(patch_to_json(patch)) == patch


TRICKS = {
    "nothing": "true",
    "conftest": "cp /tmp/files/hook.py conftest.py; cp /tmp/files/hook.py tests/conftest.py",
    "configuration": "printf '[pytest]\\naddopts = -p evil\\n' > pytest.ini; cp /tmp/files/hook.py evil.py",
    "configuration in the tests": "printf '[pytest]\\npython_files = x\\n' > tests/pytest.ini",
    "collect nothing": "printf '[tool:pytest]\\naddopts = --collect-only\\n' > setup.cfg",
    "pytest of its own": "cp /tmp/files/forge.py pytest.py; mkdir _pytest; cp /tmp/files/forge.py _pytest/__init__.py",
    "library of its own": "cp /tmp/files/forge.py json.py; mkdir -p xml; cp /tmp/files/forge.py xml/__init__.py;"
    " cp /tmp/files/forge.py pluggy.py; cp /tmp/files/forge.py tests/random.py",
    "sitecustomize": "cp /tmp/files/forge.py sitecustomize.py; cp /tmp/files/forge.py usercustomize.py",
    "shadowed test module": "mkdir tests/test_hidden; cp /tmp/files/empty.py tests/test_hidden/__init__.py;"
    " touch tests/__init__.py",
    "byte code": "cp calc/core.py /tmp/core.py; sed -i 's/a - b/a + b/' /tmp/core.py; mkdir -p calc/__pycache__;"
    " python3 -c \"import py_compile as p; p.compile('/tmp/core.py',"
    " 'calc/__pycache__/core.cpython-312.pyc', invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)\"",
    "metadata": "mkdir evil.egg-info; printf '[pytest11]\\nx = forge\\n' > evil.egg-info/entry_points.txt;"
    " cp /tmp/files/forge.py forge.py",
    "metadata in capitals": "mkdir e.EGG-INFO; printf '[pytest11]\\nx = forge\\n' > e.EGG-INFO/entry_points.txt;"
    " cp /tmp/files/forge.py forge.py",
    "programs on the way": "mkdir bin; cp /tmp/files/forge.py bin/python; chmod +x bin/python; cp -P bin/python python",
    "helper of the tests": "mkdir tests/test_visible; cp /tmp/files/forge.py tests/test_visible/__init__.py",
    "report written when all is over": "cp /tmp/files/late.py calc/core.py; cp /tmp/files/report.xml .",
    "planted report": "cp /tmp/files/report.xml /run/report/report; mkdir -p /logs/verifier;"
    " echo 1 > /logs/verifier/reward.txt; cp /tmp/files/report.xml report",
    "planted test": "cp /tmp/files/empty.py tests/test_hidden.py",
    "tests behind a link": "cp -r tests /tmp/t; rm -rf tests; mkdir other; cp /tmp/files/empty.py other/test_hidden.py;"
    " ln -s other tests",
    "work tree behind a link": "rm -rf tests calc; ln -s / calc; ln -s /tmp tests",
    "process left behind": "(setsid bash -c 'while :; do cp /tmp/files/report.xml /run/report/report;"
    " cp /tmp/files/empty.py /app/tests/test_hidden.py; sleep 0.01; done' >/dev/null 2>&1 &); sleep 0.05",
    "leave without a report": "echo 'import os; os._exit(0)' > calc/core.py",
    "report is a link": "echo 'import os; os.symlink(\"/app/report.xml\", os.environ[\"LEGO_REPORT\"]); os._exit(0)'"
    " > calc/core.py; cp /tmp/files/report.xml .",
    "report is a pipe": "echo 'import os; os.mkfifo(os.environ[\"LEGO_REPORT\"]); os._exit(0)' > calc/core.py",
    "report is endless": "printf 'import os\\nopen(os.environ[\"LEGO_REPORT\"], \"wb\").truncate(1 << 29)\\n"
    "os._exit(0)' > calc/core.py",
    "skip": "echo 'import pytest; pytest.skip(allow_module_level=True)' > calc/core.py",
}  # fmt: skip
FILES = {
    "hook.py": ALL_PASS_HOOK,
    "late.py": LATE,
    "forge.py": FORGER,
    "empty.py": "class TestAdd:\n    def test_sum(self): pass\n",
    "report.xml": PASSING_REPORT,
}


@pytest.mark.parametrize("script", TRICKS.values(), ids=TRICKS.keys())
async def test_tricks_are_graded_0(work: Work, script: str) -> None:
    _, verdict = await work(f"({script}) || true", FILES)
    assert verdict.reward == 0, verdict.log


async def test_what_was_rolled_back_and_dropped_is_said(work: Work) -> None:
    patch, verdict = await work(f"{FIX}; touch conftest.py x.pyc; echo > setup.cfg; rm tests/test_visible.py")
    assert verdict.rolled_back == {
        "conftest.py": "it decides which tests run, or how",
        "setup.cfg": "it decides which tests run, or how; the rest of it is applied",
        "tests/test_visible.py": "it is a test file of the task's",
    }
    assert patch.dropped == {"x.pyc": "byte code"}
    assert "2 passed" in verdict.log


async def test_slow_code_is_a_0_and_leaves_nothing(task: Task, image: TaskImage) -> None:
    code = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    os.execvp('sleep', ['sleep', '4444.7'])\n"
    started = time.monotonic()
    patch = Patch((Change("calc/core.py", "file", f"{code}time.sleep(99)\n".encode()),))
    verdict = await grade(task, patch, image, timeout_sec=2)
    assert (verdict.reward, set(verdict.tests.values()), verdict.ended) == (0, {"missing"}, "timed_out")
    assert "killed after 2 s" in verdict.log
    assert time.monotonic() - started < 12
    assert not processes_named("4444.7")


async def test_a_report_in_time_earns_nothing_where_the_tests_do_not_end(task: Task, image: TaskImage) -> None:
    """Whoever passes and then holds the grader up has not passed."""
    endless = replace(task, tests=replace(task.tests, command=f"{task.tests.command}; sleep 30"))
    patch = Patch((Change("calc/core.py", "file", FIXED.encode()),))
    verdict = await grade(endless, patch, image, timeout_sec=8)
    assert set(verdict.tests.values()) == {"passed"}
    assert (verdict.reward, verdict.ended) == (0, "timed_out")


async def test_tests_that_leave_no_report_have_no_verdict(task: Task, image: TaskImage) -> None:
    patch = Patch((Change("calc/core.py", "file", b"import os\nos._exit(0)\n"),))
    verdict = await grade(task, patch, image, timeout_sec=20)
    assert (verdict.reward, set(verdict.tests.values()), verdict.ended) == (0, {"missing"}, "no_report")


@pytest.mark.parametrize("busy", ["put", "run_last"])
async def test_a_grading_sandbox_that_the_host_kills_is_no_verdict(
    task: Task, image: TaskImage, monkeypatch: pytest.MonkeyPatch, busy: str
) -> None:
    work = getattr(ControlledSandbox, busy)

    async def killed_at_work(box: Any, *arguments: Any, **options: Any) -> Any:
        os.kill(box._watchdog._first, signal.SIGKILL)
        return await work(box, *arguments, **options)

    monkeypatch.setattr(ControlledSandbox, busy, killed_at_work)
    with pytest.raises(SandboxKilledError, match="ended by SIGKILL"):
        await grade(task, Patch(), image, timeout_sec=20)


async def test_a_patch_that_fills_the_disk_is_a_0(task: Task, image: TaskImage) -> None:
    patch = Patch(tuple(Change(f"big{number}", "file", bytes(3 << 20)) for number in range(8)))
    code = "import time\ntime.sleep(20)\n"
    patch = Patch((*patch.changes, Change("calc/core.py", "file", code.encode())))
    verdict = await grade(task, patch, image, limits=Limits(disk_mb=8), timeout_sec=30)
    assert verdict.reward == 0
    assert verdict.seconds < 20


async def test_the_log_says_which_limit_ended_the_sandbox(task: Task, image: TaskImage) -> None:
    code = b"""
import time
for number in range(8):
    with open(f"big{number}", "wb") as stream:
        stream.write(bytes(3 << 20))
time.sleep(20)
"""
    patch = Patch((Change("calc/core.py", "file", code),))
    verdict = await grade(task, patch, image, limits=Limits(disk_mb=8), timeout_sec=30)
    assert (verdict.reward, verdict.ended) == (0, "died")
    said = "[the grading sandbox ended before the test command did; it ran into its limit of disk]"
    assert verdict.log.splitlines()[-1] == said


async def test_grading_that_cannot_be_watched_has_no_verdict(
    task: Task, image: TaskImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_layer: Path, _limit: int) -> int:
        raise OSError("no more descriptors")

    monkeypatch.setattr(watchdog, "measure", fail)
    patch = Patch((Change("calc/core.py", "file", b"import time\ntime.sleep(20)\n"),))
    with pytest.raises(SandboxError, match="its limits could not be measured"):
        await grade(task, patch, image, timeout_sec=30)


async def test_a_tree_that_breaks_tools_is_still_graded(work: Work, state: State) -> None:
    deep = 'python3 -c \'import os; [(os.mkdir("d"), os.chdir("d")) for _ in range(1200)]\''
    many = "mkdir many; cd many; touch $(seq 2500 | sed s/$/.pyc/); cd /app"
    names = "touch $'new\\nline' $'\\xff\\xfe' -- '-rf' ' '; ln -s loop loop; chmod 0 calc"
    patch, verdict = await work(f"{FIX}; {many}; {names}; {deep}")
    assert verdict.reward == 1
    assert len(patch.dropped) <= 1000
    assert {"new\nline", os.fsdecode(b"\xff\xfe"), "-rf", " ", "loop"} <= {change.path for change in patch.changes}
    assert not list(state.runs.iterdir())


async def test_grading_twice_gives_the_same(task: Task, image: TaskImage, state: State) -> None:
    patch = Patch((Change("calc/core.py", "file", FIXED.encode()),))
    first, second = [await grade(task, patch, image) for _ in range(2)]
    assert (first.reward, first.tests) == (second.reward, second.tests) == (1, dict.fromkeys(first.tests, "passed"))
    assert not list(state.runs.iterdir())


async def test_a_pass_stays_a_pass_where_the_sandbox_cannot_be_removed(
    task: Task, settings: SandboxSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = State(tmp_path / "state")
    provider = provider_of(settings.model_copy(update={"state": state.root}))
    image = provider.prepare(task.path / "environment", workdir="/app")
    patch = Patch((Change("calc/core.py", "file", f"import time\ntime.sleep(1)\n{FIXED}".encode()),))
    grading = asyncio.create_task(grade(task, patch, image))
    last = {"bubblewrap": "*/cgroups", "docker": "*/report"}[settings.environment]
    while not (started := list(state.runs.glob(last))):  # noqa: ASYNC110  # Nothing tells of it.
        await asyncio.sleep(0.01)
    # To remove a folder that is not empty fails like a control group that is still in use.
    folder = RunFolder(started[0].parent)
    busy = tmp_path / folder.cgroup_name
    write_files(busy, {"cgroup.procs": "", "child": ""})
    with folder.cgroups.open("a") as groups:
        groups.write(f"\n{busy}")
    verdict = await grading
    assert verdict.reward == 1, verdict.log
    assert "left for the next run to remove" in caplog.text
    (run,) = state.runs.iterdir()
    assert state.reap_stale() == []
    shutil.rmtree(busy)
    assert RunFolder(run).remove()
    assert not list(state.runs.iterdir())


async def test_an_incomplete_task_names_what_is_missing(task: Task, image: TaskImage) -> None:
    spec = replace(task.tests, test_files=(*task.tests.test_files, "tests/test_more.py"))
    with pytest.raises(TaskError, match=r"lacks its test file tests/test_more\.py"):
        await grade(replace(task, tests=spec), Patch(), image)
    with pytest.raises(TaskError, match="no report parser 'x'"):
        await grade(replace(task, tests=replace(task.tests, parser="x")), Patch(), image)
