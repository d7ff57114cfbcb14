"""A task is judged as trials would judge it: the same run, the same variables, the same time."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lego_rl.errors import TaskError
from lego_rl.sandbox import task_grader
from lego_rl.sandbox.bubblewrap.provider import BubblewrapProvider
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import State
from lego_rl.sandbox.task_grader import SandboxedGrader
from lego_rl.tasks.build import write_task
from lego_rl.tasks.generate import generate
from lego_rl.tasks.task import Task

SOURCE = 'source = { format = "mined", instance_id = "one" }\n'


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    return State(tmp_path_factory.mktemp("state"))


@pytest.fixture
def grader(state: State) -> SandboxedGrader:
    return SandboxedGrader(BubblewrapProvider(state), SandboxSettings(state=state.root))


def task(folder: Path, env: str = "", dockerfile: str = "") -> Task:
    """A task of somebody's data, whose command leaves to a variable what runs its tests."""
    path = write_task(generate(0, "comparison", 0), folder)
    for name, old, new in (
        ("task.toml", "[metadata]\n", f"[metadata]\n{SOURCE}"),
        ("task.toml", "[verifier]\n", f"[verifier]\n{env}"),
    ):
        text = (path / name).read_text()
        assert old in text
        (path / name).write_text(text.replace(old, new))
    spec = json.loads((path / "tests" / "spec.json").read_text())
    spec["command"] = '$RUN --junitxml="$LEGO_REPORT"'
    (path / "tests" / "spec.json").write_text(json.dumps(spec))
    with (path / "environment" / "Dockerfile").open("a") as stream:
        stream.write(dockerfile)
    return Task.load(path)


RUN = "python3 -P -B -m pytest -q -c /dev/null --noconftest --rootdir=/app -o pythonpath=/app tests"


@pytest.mark.parametrize(("env", "dockerfile"), [(f'env = {{ RUN = "{RUN}" }}\n', ""), ("", f'ENV RUN="{RUN}"\n')])
async def test_a_runner_that_only_a_variable_names_is_known(
    grader: SandboxedGrader, tmp_path: Path, env: str, dockerfile: str
) -> None:
    one = task(tmp_path, env, dockerfile)
    await grader.look(one)
    graded = await grader.grade(one, "gold")
    assert (graded.reward, graded.ended) == (1, "completed")


async def test_a_runner_that_no_variable_names_is_not(grader: SandboxedGrader, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="is not known, nor what configures it"):
        await grader.look(task(tmp_path))


async def test_tests_have_the_time_that_a_trial_gives_them(
    grader: SandboxedGrader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    async def grade(*_: Any, timeout_sec: float, **__: Any) -> None:
        given.append(timeout_sec)
        raise TaskError("enough")

    monkeypatch.setattr(task_grader, "grade", grade)
    one = task(tmp_path)
    said = re.search(r"\[verifier\]\ntimeout_sec = ([0-9.]+)", (one.path / "task.toml").read_text())
    assert said is not None
    for capped in (None, 5.0):
        settings = grader.settings.model_copy(update={"grading_sec": capped})
        with pytest.raises(TaskError, match="enough"):
            await SandboxedGrader(grader.provider, settings).grade(one, "empty")
    assert given == [float(said[1]), 5.0]
