"""What a command only seems to say of how tests are run leaves the files to the agent, and hides none of the run's."""

from pathlib import Path

import pytest
from owned import PYTEST, owner, write

from lego_rl.sandbox.ownership.run import reader
from lego_rl.sandbox.ownership.run.command_words import pytest_options_in
from lego_rl.sandbox.ownership.texts.task_tree import TaskTree
from lego_rl.sandbox.verdict import Change

PLUGGED = {
    "plug/__init__.py": "", "slow.py": "", "Makefile": f"test:\n\t{PYTEST}\n", "run.sh": f"{PYTEST}\n",
    "pkg/__init__.py": "", "pkg/testing/runner.py": "", "bin/test": "#!/usr/bin/env python3\nimport pkg\n",
    "bin/check": "import pkg\n", "justfile": f"test:\n    {PYTEST}\n",
}  # fmt: skip
PLUG = "plug/__init__.py"


def owns(root: Path, path: str, command: str, files: dict[str, str] = PLUGGED) -> bool:
    return owner(root, files, command=command).owns(Change(path, "file")) is not None


@pytest.mark.parametrize(
    "command",
    [
        f"mkdir -p plug && {PYTEST}",
        f"cp -p plug /tmp; {PYTEST}",
        f"test -p plug || {PYTEST}",
        f"{PYTEST} && tar -p plug",
    ],
)
def test_an_option_of_another_program_names_no_plugin(tmp_path: Path, command: str) -> None:
    assert not owns(tmp_path, PLUG, command)


@pytest.mark.parametrize(
    "command",
    [
        f"{PYTEST} -p plug",
        "pytest -pplug tests",
        "coverage run -m pytest -p plug",
        "X=1 uv run py.test -p plug tests",
        "tox -- -p plug",
        "./run_tests.sh -p plug",
        "python -c \"import pytest; pytest.main(['-p', 'plug'])\"",
        "P='python -m pytest'; $P -p plug tests",
        "PYTEST_ADDOPTS='-p plug' pytest",
        "bash -c 'pytest -p plug'",
    ],
)
def test_an_option_of_the_runner_does(tmp_path: Path, command: str) -> None:
    assert owns(tmp_path, PLUG, command)


def test_a_mark_is_no_module(tmp_path: Path) -> None:
    assert not owns(tmp_path, "slow.py", "python -m pytest -m slow tests")
    assert not owns(tmp_path / "c", "slow.py", "python -m coverage run -m pytest -m slow tests")
    assert owns(tmp_path / "m", "slow.py", "python -m cProfile -m slow && pytest")
    assert owns(tmp_path / "n", "slow.py", "python -mpytest -m x && python -m slow")


@pytest.mark.parametrize("command", ["make test", "just test", PYTEST, "sh run.sh"])
def test_what_runs_a_launcher_has_no_runner_of_its_own(tmp_path: Path, command: str) -> None:
    assert not owns(tmp_path, "pkg/testing/runner.py", command)


@pytest.mark.parametrize("command", ["bin/test", "python bin/check", "make test && bin/test"])
def test_what_runs_a_program_of_the_repository_has(tmp_path: Path, command: str) -> None:
    assert owns(tmp_path, "pkg/testing/runner.py", command)


def test_what_a_loop_matches_is_read_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_FILES_OF_RUN", 12)
    files = {"ci/run.sh": ". ci/common\n", "ci/common": "true\n", "plug.py": "", "deep.py": "",
             "tests/conftest.py": "pytest_plugins = ['plug']\n"}  # fmt: skip
    cases = {f"cases/{number}.sh": "true\n" for number in range(20)}
    command = 'sh ci/run.sh; for t in cases/*.sh; do sh "$t"; done; pytest'
    own = owner(tmp_path, {**files, **cases}, command=command)
    assert {"ci/common", "plug.py", *cases} <= own.run.files


def test_a_file_of_the_task_is_listed_once(tmp_path: Path) -> None:
    write(tmp_path / "tree", {"tests/test_a.py": "", "tests/test_b.py": "", "z.py": ""})
    write(tmp_path / "hidden", {"tests/test_a.py": "", "tests/test_h.py": ""})
    tree = TaskTree(tmp_path / "tree", tmp_path / "hidden")
    assert sorted(tree.files(".", 10)) == ["tests/test_a.py", "tests/test_b.py", "tests/test_h.py", "z.py"]
    assert list(tree.files(".", 2)) == ["tests/test_a.py", "tests/test_h.py"]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"pytest.ini": "", "setup.cfg": "[tool:pytest]\naddopts = -x\n"}, {}),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n", "setup.cfg": "[tool:pytest]\naddopts = -x\n"}, {}),
        ({"tox.ini": "[pytest]\n", "setup.cfg": "[tool:pytest]\naddopts = -x\n"}, {}),
        ({"tox.ini": "[tox]\n", "pyproject.toml": "", "setup.cfg": "[tool:pytest]\naddopts = -x\n"}, {"addopts": "-x"}),
        ({"pyproject.toml": "[tool.ruff]\n", "tox.ini": "[pytest]\naddopts = -y\n"}, {"addopts": "-y"}),
    ],
)
def test_pytest_reads_the_first_file_that_is_its_own(
    tmp_path: Path, files: dict[str, str], found: dict[str, str]
) -> None:
    write(tmp_path, files)
    assert pytest_options_in(TaskTree(tmp_path), ".") == found
