"""A name alone makes no program of a test run and no environment of it."""

from pathlib import Path

import pytest
from owned import owner

from lego_rl.sandbox.ownership.split import Reason
from lego_rl.sandbox.verdict import Change, ChangeKind

FILES = {"pkg/tools/make": "#!/bin/sh\n", "pkg/defaults/.env": "A=1\n", "pkg/tools/git": "", "sub/x/y": ""}
TESTS = "python -m pytest tests"


def reason(
    root: Path, path: str, command: str = TESTS, files: dict[str, str] | None = None, kind: ChangeKind = "file"
) -> str | None:
    return owner(root, {**FILES, **(files or {})}, command=command).owns(Change(path, kind, b"", executable=True))


@pytest.mark.parametrize(
    "path", ["pkg/tools/make", "pkg/tools/env", "pkg/defaults/.env", "pkg/new/.env", "pkg/new/.python-version/x"]
)
def test_the_products_own(tmp_path: Path, path: str) -> None:
    assert reason(tmp_path, path, f"cd sub/x && {TESTS}") is None


@pytest.mark.parametrize("path", ["bin/python", "make", "deep/er/Scripts/pip3"])
def test_a_new_program_in_a_folder_of_programs(tmp_path: Path, path: str) -> None:
    assert reason(tmp_path, path) == Reason.PROGRAM


def test_a_link_called_like_a_program(tmp_path: Path) -> None:
    assert reason(tmp_path, "pkg/tools/python", kind="symlink") == Reason.PROGRAM


@pytest.mark.parametrize(
    ("command", "files"),
    [
        (f"PATH=pkg/tools:$PATH {TESTS}", {}),
        (f"export PATH=$PWD/pkg/tools:$PATH; {TESTS}", {}),
        (TESTS, {"tests/conftest.py": "import os\nos.environ['PATH'] = f'{ROOT}/pkg/tools:' + os.environ['PATH']\n"}),
        (f"pkg/tools/make all; {TESTS}", {}),
        (f"make all; {TESTS}", {"Makefile": "export PATH := $(CURDIR)/pkg/tools:$(PATH)\nall:\n\ttrue\n"}),
        (f"sh ci/run && {TESTS}", {"ci/run": "HERE=$(dirname $0)/..\nPATH=$HERE/pkg/tools:$PATH\n"}),
    ],
)
def test_where_something_leads_to_it(tmp_path: Path, command: str, files: dict[str, str]) -> None:
    assert reason(tmp_path, "pkg/tools/make", command, files)


@pytest.mark.parametrize("name", ["cmp", "cc", "node", "sort", "jest"])
def test_a_new_program_on_the_path_that_is_called_like_a_machines_own(tmp_path: Path, name: str) -> None:
    command = f'PATH="$PWD/bin:$PATH" {TESTS}'
    assert reason(tmp_path, f"bin/{name}", command, {"bin/calc": ""}) == Reason.PROGRAM
    assert reason(tmp_path / "there", f"bin/{name}", command, {f"bin/{name}": ""}) is None
    assert reason(tmp_path / "off", f"bin/{name}") is None
    assert reason(tmp_path / "asked", "bin/triple", command, {"bin/calc": ""}) is None


@pytest.mark.parametrize("path", [".env", "tests/.env", "sub/.envrc", "sub/x/.flaskenv", "tests/data/.env/x"])
def test_variables_are_read_where_programs_start_and_around_tests(tmp_path: Path, path: str) -> None:
    assert reason(tmp_path, path, f"cd sub/x && {TESTS}") == (Reason.VARIABLES if "data" not in path else None)


def test_an_environment_file_that_a_command_names(tmp_path: Path) -> None:
    assert reason(tmp_path, "pkg/defaults/.env", f". pkg/defaults/.env && {TESTS}")
