"""A folder whose name merely holds a word for tests is what its tests test where they import nothing else."""

from pathlib import Path

import pytest
from owned import owner

from lego_rl.sandbox.ownership.known.test_names import is_surely_tests_folder
from lego_rl.sandbox.ownership.split import Reason
from lego_rl.sandbox.verdict import Change

type Files = dict[str, str]
TESTED: dict[str, tuple[str, Files, Files, str]] = {
    "called after": ("ab_testing/stats.py", {}, {"ab_testing/stats_test.py": "import app"}, ""),
    "what that imports": (
        "ab_testing/sums.py",
        {"ab_testing/stats.py": "from ab_testing import sums\n", "ab_testing/__init__.py": ""},
        {"ab_testing/stats_test.py": "import app"},
        "",
    ),
    "all that is imported": (
        "load-test/calc.py", {}, {"load-test/spec/test_add.py": "from calc import add\nimport yaml\n"}, "load-test",
    ),
    "with a conftest": (
        "stat_tests/core.py",
        {"stat_tests/__init__.py": ""},
        {"stat_tests/unit/test_a.py": "from stat_tests import core\n", "stat_tests/conftest.py": "import stat_tests\n"},
        "",
    ),
    "in a package that imports it lazily": (
        "lazy/testing/utils.py",
        {"lazy/__init__.py": "", "lazy/testing/__init__.py": "from .utils import add\n"},
        {"lazy/testing/test_add.py": "from lazy.testing import add\n"},
        "",
    ),
    "another language": (
        "packages/test-utils/src/sum.js",
        {"packages/test-utils/src/add.js": "import {sum} from './sum'\n"},
        {"packages/test-utils/src/adding.test.js": "const {add} = require('./add')\n"},
        "",
    ),
    "a language without imports of files": (
        "testing/kit/add.go", {}, {"testing/kit/add_test.go": "package kit\n"}, "",
    ),
}  # fmt: skip
OF_TESTS: dict[str, tuple[str, Files, Files, str]] = {
    "something outside": (
        "qa_testing/steps.py", {}, {"qa_testing/test_a.py": "import app\nfrom steps import step\n"}, "qa_testing",
    ),
    "something outside by a helper": (
        "qa_testing/steps.py",
        {"qa_testing/steps.py": "import app\n"},
        {"qa_testing/test_a.py": "from steps import step\n"},
        "qa_testing",
    ),
    "something outside by a conftest": (
        "qa_testing/steps.py",
        {"qa_testing/conftest.py": "from app import x\n"},
        {"qa_testing/test_a.py": "from steps import step\n"},
        "qa_testing",
    ),
    "programs": (
        "cli-tests/steps.py",
        {"cli-tests/steps.py": "import subprocess\n"},
        {"cli-tests/test_a.py": "from steps import step\n"},
        "",
    ),
    "nothing": ("qa_testing/steps.py", {}, {"qa_testing/test_a.py": "import yaml\n"}, ""),
    "a folder of tests for sure": (
        "unit_tests/steps.py", {}, {"unit_tests/test_steps.py": "from steps import step\n"}, "",
    ),
    "called so": ("tests/steps.py", {}, {"tests/test_steps.py": "from steps import step\n"}, ""),
    "another language, outside": (
        "test-kit/steps.js",
        {"lib/add.js": ""},
        {"test-kit/a.test.js": "require('./steps'); require('../lib/add')\n"},
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("is_by_name", [True, False])
@pytest.mark.parametrize("case", TESTED)
def test_what_tests_test_is_the_agents(tmp_path: Path, case: str, *, is_by_name: bool) -> None:
    path, files, hidden, folder = TESTED[case]
    env = {"PYTHONPATH": f"/app:/app/{folder}"}
    command = f"pytest {next(iter(hidden))}" if is_by_name else "pytest"
    own = owner(tmp_path, {path: "", **files}, hidden=hidden, env=env, command=command)
    assert own.owns(Change(path, "file")) is None


@pytest.mark.parametrize("case", OF_TESTS)
def test_what_tests_use_is_the_tasks(tmp_path: Path, case: str) -> None:
    path, files, hidden, folder = OF_TESTS[case]
    own = owner(tmp_path, {path: "", **files}, hidden=hidden, env={"PYTHONPATH": f"/app:/app/{folder}"})
    assert own.owns(Change(path, "file")) == Reason.SUPPORT


def test_no_import_of_a_change_says_what_is_tested(tmp_path: Path) -> None:
    path, files, hidden, folder = OF_TESTS["something outside by a helper"]
    own = owner(tmp_path, {path: "", **files}, hidden=hidden, env={"PYTHONPATH": f"/app:/app/{folder}"})
    assert own.owns(Change(path, "file", b"")) == Reason.SUPPORT


@pytest.mark.parametrize(
    ("name", "is_sure"),
    [("tests", True), ("UnitTests", True), ("integration-tests", True), ("test_suite", True), ("testing", False),
     ("ab_testing", False), ("test-kit", False), ("unittest_tools", False), ("latest", False)],
)  # fmt: skip
def test_a_name_is_sure_where_it_says_nothing_else(name: str, is_sure: bool) -> None:
    assert is_surely_tests_folder(name) is is_sure
