"""What runs the tests is the task's own however a command names it, and what is tested is not."""

from pathlib import Path

import pytest

from lego_rl.sandbox.ownership.rules import Ownership
from lego_rl.sandbox.verdict import Change, Patch
from lego_rl.tasks.task import Task, TestScript, TestSpec

TREE = {
    "pkg/__init__.py": "", "pkg/core.py": "from pkg import cli\n", "pkg/cli.py": "", "pkg/testing_tools.py": "",
    "other/__init__.py": "", "main.py": "", "app.py": "", "tests/test_a.py": "import pkg\n", "tests/helper.py": "",
    "run_tests.sh": "", "runtests.py": "", "tools/run.py": "", "tools/helper.sh": "", "tools/more.py": "",
    "plug.py": "", "common.mk": "", "Makefile": "", "ci/lib/a.sh": "", "ci/deep.sh": "", "docs/x.md": "",
    "package.json": "{}", "build.sh": "", "pkg/tests/test_b.py": "", "deep/er/still/plug_d.py": "",
}  # fmt: skip
PYTEST = "python -m pytest tests"


def owner(
    folder: Path,
    command: str,
    files: dict[str, str] | None = None,
    *,
    env: dict[str, str] | None = None,
    hidden: dict[str, str] | None = None,
    script: dict[str, str] | None = None,
) -> Ownership:
    """Of a task with a command or, where there are files of it, with a script of its own."""
    write(folder / "tree", {**TREE, **(files or {})})
    write(folder / "task" / "tests" / "files", hidden or {})
    write(folder / "task" / "tests", script or {})
    spec = TestSpec(("tests/test_a.py::test_it",), (), command, "pytest-junit", ("tests/test_a.py",))
    task = Task("t", folder / "task", "", "", "/app", TestScript() if script else spec, 1.0, 1)
    return Ownership.of(task, folder / "tree", env or {})


def is_own(own: Ownership, path: str) -> bool:
    """Whether all of a file, or what it says of how tests run, is the task's."""
    change = Change(path, "file", b'{"scripts": {"test": "true"}}')
    return own.owns(change) is not None or own.split(Patch((change,))).applied != (change,)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


NAMED = {
    "bash run_tests.sh": "run_tests.sh",
    "bash /app/run_tests.sh": "run_tests.sh",
    'bash "$PWD/run_tests.sh"': "run_tests.sh",
    "bash ${PWD}/run_tests.sh": "run_tests.sh",
    "bash $(pwd)/run_tests.sh": "run_tests.sh",
    "bash `pwd`/run_tests.sh": "run_tests.sh",
    'bash "$(dirname "$0")/run_tests.sh"': "run_tests.sh",
    "cd docs && bash ../run_tests.sh": "run_tests.sh",
    "bash -eux -o pipefail run_tests.sh": "run_tests.sh",
    "bash -c 'set -e; ./run_tests.sh'": "run_tests.sh",
    "/app/run_tests.sh": "run_tests.sh",
    "timeout 60 env A=1 ./run_tests.sh > log": "run_tests.sh",
    "python3 -u runtests.py": "runtests.py",
    "python3 -P -B runtests.py": "runtests.py",
    "python -W ignore /app/runtests.py": "runtests.py",
    "coverage run runtests.py": "runtests.py",
    "coverage run --source=pkg -p runtests.py": "runtests.py",
    "python -m coverage run runtests.py": "runtests.py",
    "uv run runtests.py": "runtests.py",
    "python -m tools.run": "tools/run.py",
    "python -Bm tools.run": "tools/run.py",
    "coverage run -m tools.run": "tools/run.py",
    "cd tools && python -m run": "tools/run.py",
    "for each in ci/*.sh; do bash $each; done": "ci/deep.sh",
    "bash ci/lib/*.sh": "ci/lib/new.sh",
    "PYTEST_PLUGINS=plug python -m pytest": "plug.py",
    "export PYTEST_PLUGINS='x, plug'; pytest": "plug.py",
    "PYTEST_ADDOPTS='-p plug' pytest": "plug.py",
    "pytest -pplug": "plug.py",
    "test -f ci/env.sh && . ci/env.sh; pytest": "ci/env.sh",
    "make -f ci/rules test": "ci/rules",
    "make -C ci test": "ci/Makefile",
    "bash it's_not_closed run_tests.sh": "run_tests.sh",
    "hatch run test": "hatch.toml",
    "pixi run test": "pixi.toml",
    "poe test": "poe_tasks.toml",
    "tox": "tox.toml",
    "pytest": "deep/tox.toml",
    "npm test": "package.json",
}


@pytest.mark.parametrize("command", NAMED)
def test_what_a_command_runs_is_the_tasks(tmp_path: Path, command: str) -> None:
    own = owner(tmp_path, command)
    assert is_own(own, NAMED[command])
    assert own.owns(Change("main.py", "file")) is None


ENVIRONMENT = {
    "PYTEST_PLUGINS": "plug", "PYTEST_ADDOPTS": "-q -p plug",
}  # fmt: skip


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_plugins_of_the_environment_are_the_tasks(tmp_path: Path, name: str) -> None:
    assert owner(tmp_path, PYTEST, env={name: ENVIRONMENT[name]}).owns(Change("plug.py", "file"))


LED_TO: dict[str, tuple[str, dict[str, str], str]] = {
    "a script's script": ("bash run_tests.sh", {"run_tests.sh": "bash tools/helper.sh"}, "tools/helper.sh"),
    "beside itself": ("bash ci/deep.sh", {"ci/deep.sh": 'cd "$(dirname "$0")"\n. lib/a.sh'}, "ci/lib/a.sh"),
    "three hops": (
        "bash run_tests.sh",
        {"run_tests.sh": "make check", "Makefile": "check:\n\t@ci/deep.sh\n", "ci/deep.sh": "python tools/more.py"},
        "tools/more.py",
    ),
    "a cycle": (
        "bash run_tests.sh", {"run_tests.sh": "bash ci/deep.sh", "ci/deep.sh": "bash run_tests.sh; ./tools/helper.sh"},
        "tools/helper.sh",
    ),
    "an include": ("make test", {"Makefile": "include common.mk\n"}, "common.mk"),
    "an include that is not there": ("make test", {"Makefile": "-include local.mk rest\n"}, "rest"),
    "a Python script's script": (
        "python runtests.py",
        {"runtests.py": "import subprocess\nsubprocess.run(['bash', 'tools/helper.sh'])\n"}, "tools/helper.sh",
    ),
    "a list that is run later": (
        "python runtests.py",
        {"runtests.py": "import sys\ncommand = [sys.executable, '-m', 'tools.run']\n"}, "tools/run.py",
    ),
    "a Python script's module": ("python runtests.py", {"runtests.py": "from tools import more\n"}, "tools/more.py"),
    "a relative module": ("python -m tools.run", {"tools/run.py": "from . import more\n"}, "tools/more.py"),
    "a package that is none yet": ("python -m tools.run", {}, "tools/__init__.py"),
    "pytest.main": (
        "python runtests.py", {"runtests.py": "import pytest\npytest.main(['-p', 'plug'])\n"}, "plug.py",
    ),
    "an options file": ("pytest -c ci/my.ini", {"ci/my.ini": "[pytest]\naddopts = -p plug\n"}, "plug.py"),
    "a plugin's plugin": (
        PYTEST, {"conftest.py": "pytest_plugins = 'first'\n", "first.py": "pytest_plugins = ['plug']\n"}, "plug.py"
    ),
    "annotated": (PYTEST, {"conftest.py": "pytest_plugins: list[str] = ['plug']\n"}, "plug.py"),
    "added to": (PYTEST, {"conftest.py": "pytest_plugins = []\npytest_plugins += ['plug']\n"}, "plug.py"),
    "under a condition": (PYTEST, {"conftest.py": "if True:\n    pytest_plugins = 'a,plug'\n"}, "plug.py"),
    "deep": (
        PYTEST, {"tests/a/b/conftest.py": "pytest_plugins = ['deep.er.still.plug_d']\n"}, "deep/er/still/plug_d.py"
    ),
    "what a conftest starts": (
        PYTEST, {"tests/conftest.py": "import os\nos.system('sh tools/helper.sh')\n"}, "tools/helper.sh"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LED_TO)
def test_what_that_runs_is_the_tasks_too(tmp_path: Path, case: str) -> None:
    command, files, path = LED_TO[case]
    own = owner(tmp_path, command, files)
    assert is_own(own, path)
    assert own.owns(Change("main.py", "file")) is None


def test_hidden_conftest_files_are_read_in_place_of_the_trees(tmp_path: Path) -> None:
    hidden = {"tests/sub/conftest.py": "pytest_plugins = ['plug']\n"}
    own = owner(tmp_path, PYTEST, {"tests/sub/conftest.py": ""}, hidden=hidden)
    assert own.owns(Change("plug.py", "file"))


MAKE = """\
.PHONY: test docs build
all: build
test: lint
\tpython tools/run.py
lint:
\tbash tools/helper.sh
docs:
\tbash build.sh
release: docs
\tpython setup.py sdist
build:
\tpython tools/more.py
"""


def test_of_a_makefile_the_rules_count_that_are_run(tmp_path: Path) -> None:
    own = owner(tmp_path, "make test", {"Makefile": MAKE, "setup.py": ""})
    kept = [path for path in ("tools/run.py", "tools/helper.sh", "tools/more.py") if own.owns(Change(path, "file"))]
    assert kept == ["tools/run.py", "tools/helper.sh", "tools/more.py"]
    assert own.owns(Change("build.sh", "file")) is None
    assert own.owns(Change("setup.py", "file")) is None


def test_of_a_makefile_that_computes_what_a_rule_needs_every_rule_counts(tmp_path: Path) -> None:
    own = owner(tmp_path, "make test", {"Makefile": f"STEPS = docs\n{MAKE}test: $(STEPS)\n", "setup.py": ""})
    assert own.owns(Change("build.sh", "file"))


TESTED: dict[str, tuple[str, dict[str, str], str]] = {
    "a program of the package": ("python -m pkg.cli selftest", {}, "pkg/cli.py"),
    "by its path": ("python pkg/cli.py selftest", {}, "pkg/cli.py"),
    "the package itself": ("python -m pkg", {"pkg/__main__.py": ""}, "pkg/__main__.py"),
    "imported by a runner": ("python runtests.py", {"runtests.py": "import pkg.core\n"}, "pkg/core.py"),
    "imported by what is tested": (
        "python runtests.py", {"runtests.py": "import other\n", "pkg/cli.py": "import other\n"}, "other/__init__.py"
    ),
    "below src": (
        "python -m lib.cli", {"src/lib/cli.py": "", "tests/test_a.py": "from lib import cli\n"}, "src/lib/cli.py"
    ),
    "handed over by fixtures": (
        PYTEST, {"tests/conftest.py": "from app import make\n", "tests/test_a.py": ""}, "app.py"
    ),
    "started by the tests": (
        "python -m app --check",
        {"tests/test_a.py": "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'app'])\n"}, "app.py",
    ),
    "a comment": ("# bash build.sh\npytest", {}, "build.sh"),
    "a name in a docstring": ("python runtests.py", {"runtests.py": '"""See build.sh."""\n'}, "build.sh"),
    "ignored by a conftest": (PYTEST, {"conftest.py": "collect_ignore = ['setup.py']\n", "setup.py": ""}, "setup.py"),
    "packaging that a script reads": ("cat pyproject.toml; pytest", {"pyproject.toml": ""}, "pyproject.toml"),
    "elsewhere": ("bash /opt/build.sh", {}, "opt/build.sh"),
    "out of the tree": ("bash ../build.sh", {}, "build.sh"),
    "removed by the command": ("rm -f report.xml; pytest", {}, "report.xml"),
}  # fmt: skip


@pytest.mark.parametrize("case", TESTED)
def test_what_is_tested_is_the_agents(tmp_path: Path, case: str) -> None:
    command, files, path = TESTED[case]
    assert owner(tmp_path, command, files).owns(Change(path, "file")) is None


SCRIPTED: dict[str, tuple[str, str]] = {
    "make check": ("make check", "Makefile"),
    "a test file": ("cd /app && pytest tests/test_a.py", "tests/test_a.py"),
    "its helper": ("cd /app && pytest tests/test_a.py", "tests/helper.py"),
    "a script": ("bash /app/run_tests.sh", "run_tests.sh"),
    "a Python script": ("cd /app; python -u runtests.py", "runtests.py"),
    "a folder": ("python -m pytest /app/tests", "tests/test_a.py"),
    "whatever pytest finds": ("cd /app\npytest -q\n", "pkg/tests/test_b.py"),
    "npm": ("cd /app && npm test", "package.json"),
    "a plugin": ("pytest -p plug /tests/test_o.py", "plug.py"),
    "a part of itself": (". /app/build.sh; true", "build.sh"),
}


@pytest.mark.parametrize("case", SCRIPTED)
def test_a_script_keeps_what_it_names_of_tests(tmp_path: Path, case: str) -> None:
    text, path = SCRIPTED[case]
    own = owner(tmp_path, "", script={"test.sh": text})
    assert is_own(own, path)
    assert own.owns(Change("main.py", "file")) is None


def test_a_script_beside_the_script_counts(tmp_path: Path) -> None:
    own = owner(tmp_path, "", script={"test.sh": "bash /tests/more.sh", "more.sh": "bash /app/run_tests.sh"})
    assert own.owns(Change("run_tests.sh", "file"))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("python /app/main.py | diff - /tests/expected", "main.py"),
        ("cd /app && make && ./prog", "Makefile"),
        ("bash /app/build.sh", "build.sh"),
        ("npm run build && pytest /tests/test_o.py", "package.json"),
        ("cd /app && python -m app --serve", "app.py"),
        ("pytest /tests/test_outputs.py -rA", "tests/test_a.py"),
        ("python /tests/check.py /app/main.py", "main.py"),
    ],
)
def test_what_a_script_runs_besides_is_tested(tmp_path: Path, text: str, path: str) -> None:
    assert owner(tmp_path, "", script={"test.sh": text}).owns(Change(path, "file")) is None
