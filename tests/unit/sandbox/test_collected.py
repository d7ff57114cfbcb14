"""What a runner of Python's tests collects by names of its own is a test, and a new one of an agent's is not run."""

from pathlib import Path

import pytest
from owned import PYTEST, owner

from lego_rl.sandbox.ownership.known.collected import collected_by
from lego_rl.sandbox.verdict import Change, Patch

CASES: dict[str, tuple[str, str, dict[str, str]]] = {
    "unittest": ("python -m unittest -v", "tests/testaaa.py", {}),
    "unittest elsewhere": ("python -m unittest", "testaaa.py", {}),
    "a pattern": ("python -m unittest discover -p '*_tests.py'", "tests/aaa_tests.py", {}),
    "a pattern of a folder": ("python -m unittest discover -s checks -p '*_c.py'", "checks/aaa_c.py", {"checks/x": ""}),
    "a long option": ("python -m unittest discover --pattern=check*.py", "tests/check1.py", {}),
    "one name": ("python -m unittest discover -p suite.py", "tests/suite.py", {}),
    "joined": ("python -m unittest discover -psuite.py", "tests/suite.py", {}),
    "Django": ("python manage.py test", "app/testaaa.py", {"manage.py": ""}),
    "nose": ("nosetests", "app/Test-aaa.py", {}),
    "nose2": ("python -m nose2", "testaaa.py", {}),
    "a loader": (
        "python run_all.py", "checks/aaa_c.py",
        {"run_all.py": "import unittest\nunittest.defaultTestLoader.discover('checks', pattern='*_c.py')\n",
         "checks/x": ""},
    ),
    "of make": ("make test", "tests/aaa_c.py", {"Makefile": "test:\n\tpython -m unittest discover -p '*_c.py'\n"}),
    "of pytest's options": (PYTEST, "tests/check_a.py", {"pytest.ini": "[pytest]\npython_files = check_*.py\n"}),
    "behave": ("behave", "features/steps/aaa.py", {"features/a.feature": ""}),
    "robot": ("robot checks", "checks/a.robot", {"checks/x": ""}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_new_test_by_another_name_is_not_run(tmp_path: Path, case: str) -> None:
    command, path, files = CASES[case]
    own = owner(tmp_path, files, command=command)
    split = own.split(Patch((Change(path, "file"), Change("app/new.py", "file"))))
    assert set(split.rolled_back) == {path}


@pytest.mark.parametrize("path", ["tests/testaaa.py", "tests/helper.py", "app/testing.py"])
def test_pytest_has_no_such_names(tmp_path: Path, path: str) -> None:
    assert owner(tmp_path).owns(Change(path, "file")) is None


def test_a_module_that_the_product_imports_is_no_test(tmp_path: Path) -> None:
    own = owner(tmp_path, command="python -m unittest")
    changes = Change("app/testing.py", "file"), Change("app/__init__.py", "file", b"from app import testing\n")
    assert not own.split(Patch(changes)).rolled_back


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("python -m pytest -p plug.py tests", set()),
        ("python manage.py migrate", set()),
        ("python setup.py test", {"test*.py"}),
        ("trial app", {"test_*.py"}),
        ("ls *.py", set()),
    ],
)
def test_patterns_of_a_command(command: str, found: set[str]) -> None:
    assert set(collected_by(command.split())) == found
