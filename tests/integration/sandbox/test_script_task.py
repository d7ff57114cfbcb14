"""Any other Harbor task: its own script decides, in the fresh sandbox, and only a 0 or a 1 is a reward."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from sandbox_tools import DOCKERFILE, FIXED, REPOSITORY, TASK_TOML, write_files

from lego_rl.errors import TaskError
from lego_rl.sandbox.grading import grade
from lego_rl.sandbox.provider import Provider, TaskImage
from lego_rl.sandbox.state import State
from lego_rl.sandbox.verdict import Change, GradingEnd, Patch
from lego_rl.tasks.task import Task, TestScript

TEST_SH = """#!/bin/bash
python3 /tests/check.py && reward=1 || reward=0
echo "checked $SHOP"
mkdir -p /logs/verifier
echo $reward > /logs/verifier/reward.txt
"""
CHECK = "import sys\nsys.path.insert(0, '/app')\nfrom calc import add\nassert add(2, 3) == 5\n"
FIX = Change("calc/core.py", "file", FIXED.encode())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("scripts") / "shop-0"
    write_files(root / "environment" / "repo", REPOSITORY)
    verifier = TASK_TOML.replace("[verifier]", '[verifier]\nenv = { SHOP = "corner" }').replace('grader = "tests"', "")
    write_files(root, {"task.toml": verifier, "instruction.md": "add() subtracts.\n"})
    write_files(root, {"environment/Dockerfile": DOCKERFILE, "tests/test.sh": TEST_SH, "tests/check.py": CHECK})
    return root


@pytest.fixture(scope="module")
def shop(folder: Path) -> Task:
    return Task.load(folder)


@pytest.fixture(scope="module")
def image(folder: Path, provider: Provider) -> TaskImage:
    return provider.prepare(folder / "environment", workdir="/app")


async def test_the_script_decides(shop: Task, image: TaskImage, state: State) -> None:
    assert shop.tests == TestScript()
    fixed, empty = [await grade(shop, patch, image) for patch in (Patch((FIX,)), Patch())]
    assert (fixed.reward, fixed.ended, fixed.tests, fixed.report) == (1, "completed", {}, b"1\n")
    assert (empty.reward, empty.ended, empty.report) == (0, "completed", b"0\n")
    assert "checked corner" in fixed.log
    assert not list(state.runs.iterdir())


REPORTS: dict[str, tuple[str, int, GradingEnd]] = {
    "a whole number": ('{"reward": 1}', 1, "completed"),
    "one point nought": ('{"reward": 1.0}', 1, "completed"),
    "among other figures": ('{"reward": 1, "lines": 7.5}', 1, "completed"),
    "alone by another name": ('{"accuracy": 0}', 0, "completed"),
    "two": ('{"reward": 2.0}', 0, "invalid_reward"),
    "not a number": ('{"reward": NaN}', 0, "invalid_reward"),
    "huge": ('{"reward": 1e308}', 0, "invalid_reward"),
    "text": ('{"reward": "1"}', 0, "invalid_reward"),
    "truth": ('{"reward": true}', 0, "invalid_reward"),
    "half": ('{"reward": 0.5}', 0, "invalid_reward"),
    "two figures and no reward": ('{"a": 1, "b": 1}', 0, "invalid_reward"),
    "no json": ("reward", 0, "invalid_reward"),
    "nested": ("[" * 20000, 0, "invalid_reward"),
}


@pytest.mark.parametrize(("said", "reward", "ended"), REPORTS.values(), ids=REPORTS.keys())
async def test_only_0_and_1_are_rewards(
    folder: Path, shop: Task, image: TaskImage, tmp_path: Path, said: str, reward: int, ended: GradingEnd
) -> None:
    own = tmp_path / "task"
    shutil.copytree(folder, own)
    write_files(
        own, {"tests/test.sh": "echo 0 > /logs/verifier/reward.txt; cat /tests/said > /logs/verifier/reward.json"}
    )
    write_files(own, {"tests/said": said})
    verdict = await grade(replace(shop, path=own), Patch(), image)
    assert (verdict.reward, verdict.ended) == (reward, ended)
    assert ("a reward is 0 or 1" in verdict.log) == (ended == "invalid_reward")


HOSTILE = {
    "planted rewards": [Change("logs/verifier/reward.txt", "file", b"1"), Change("reward.txt", "file", b"1")],
    "reward and tests rewritten": [
        Change(
            "calc/core.py",
            "file",
            b"import os\nos.makedirs('/logs/verifier', exist_ok=True)\n"
            b"open('/logs/verifier/reward.txt', 'w').write('1')\n"
            b"for name in ('/tests/test.sh', '/tests/check.py'):\n"
            b"    try:\n        open(name, 'w').write('')\n    except OSError as error:\n        print(error)\n"
            b"def add(a, b): return a - b\n",
        )
    ],
    "log folder elsewhere": [
        Change(
            "calc/core.py",
            "file",
            b"import os\nos.remove('/logs/verifier')\nos.mkdir('/logs/verifier')\n"
            b"open('/logs/verifier/reward.json', 'w').write('{\"reward\": 1}')\ndef add(a, b): return a - b\n",
        )
    ],
    "writer that outlives the script": [
        Change(
            "calc/core.py",
            "file",
            b"import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(0.6)\n"
            b"    open('/run/report/reward.txt', 'w').write('1')\n    os._exit(0)\ndef add(a, b): return a - b\n",
        )
    ],
    "module of the interpreter's": [Change("sitecustomize.py", "file", b"import os\nos._exit(0)\n")],
}


@pytest.mark.parametrize("changes", HOSTILE.values(), ids=HOSTILE.keys())
async def test_what_is_hostile_earns_nothing(shop: Task, image: TaskImage, changes: list[Change]) -> None:
    assert (await grade(shop, Patch(tuple(changes)), image)).reward == 0


async def test_a_script_that_reports_nothing_is_told_from_a_0(shop: Task, image: TaskImage) -> None:
    kill = Change("calc/core.py", "file", b"import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n")
    verdict = await grade(shop, Patch((kill,)), image)
    assert (verdict.reward, verdict.ended) == (0, "no_report")
    slow = Change("calc/core.py", "file", b"import time\ntime.sleep(99)\n")
    verdict = await grade(shop, Patch((slow,)), image, timeout_sec=1)
    assert (verdict.reward, verdict.ended) == (0, "timed_out")


def test_a_task_without_any_tests_is_refused(folder: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(folder, bare, ignore=shutil.ignore_patterns("test.sh"))
    with pytest.raises(TaskError, match=r"tests/spec\.json or tests/test\.sh"):
        Task.load(bare)


def test_a_value_of_this_machine_is_not_given_to_tests(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(folder, own)
    write_files(own, {"task.toml": (own / "task.toml").read_text().replace('"corner"', '"${HOME}"')})
    with pytest.raises(TaskError, match="takes a value from this machine"):
        Task.load(own)
