"""Product code in a folder called like one of tests is the agent's; what only tests use stays the task's."""

from pathlib import Path

import pytest

from lego_rl.sandbox.ownership.known.test_names import is_tests_folder, support_folders
from lego_rl.sandbox.ownership.own_tests.shipped_helpers import shipped
from lego_rl.sandbox.ownership.rules import Ownership
from lego_rl.sandbox.ownership.split import Reason
from lego_rl.sandbox.verdict import Change
from lego_rl.tasks.task import Task, TestSpec

TREE = {
    "pkg/__init__.py": "def __getattr__(name):\n    if name == 'testing':\n        import pkg.testing\n",
    "pkg/core.py": "from .test import suite\n",
    "pkg/testing/__init__.py": "from pkg.testing._compare import same\n",
    "pkg/testing/_compare.py": "from . import deeper\ndef same(a, b): return a == b\n",
    "pkg/testing/deeper.py": "",
    "pkg/testing/only_tests_use.py": "",
    "pkg/testing/conftest.py": "",
    "pkg/testing/test_compare.py": "from pkg.testing import only_tests_use\n",
    "pkg/testing/golden.json": "{}",
    "pkg/test/__init__.py": "",
    "pkg/test/suite.py": "import pkg.test.test_suite\n",
    "pkg/test/helper.py": "",
    "pkg/test/test_suite.py": "",
    "tests/helper.py": "import pkg.testing.only_tests_use\n",
    "tests/test_core.py": "",
    "scripts/check.py": "from tests import helper\nimport pkg.testing.only_tests_use\n",
    "setup.py": "import tests.helper\n",
    "pkg/tests/test_more.py": "import pkg.testing.only_tests_use\n",
}
TESTS = ("pkg/testing/test_compare.py", "pkg/test/test_suite.py", "tests/test_core.py")


@pytest.fixture
def own(tmp_path: Path) -> Ownership:
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    spec = TestSpec(tuple(f"{name}::test_it" for name in TESTS), (), "pytest", "pytest-junit", TESTS)
    return Ownership.of(Task("t", tmp_path / "task", "", "", "/app", spec, 1.0, 1), tmp_path, {})


def test_what_the_package_imports_is_product_code(own: Ownership) -> None:
    assert shipped(own.pristine, "pkg/testing") == {
        "pkg/testing/__init__.py", "pkg/testing/_compare.py", "pkg/testing/deeper.py",
    }  # fmt: skip
    assert shipped(own.pristine, "pkg/test") == {"pkg/test/__init__.py", "pkg/test/suite.py"}
    assert shipped(own.pristine, "tests") == frozenset()


@pytest.mark.parametrize(
    "change",
    [
        Change("pkg/testing/_compare.py", "file"),
        Change("pkg/testing/deeper.py", "deleted"),
        Change("pkg/testing/deeper/__init__.py", "file"),
        Change("pkg/testing/__init__.py", "file"),
        Change("pkg/testing/new.py", "file"),
        Change("pkg/test/suite.py", "file"),
    ],
)
def test_an_honest_fix_of_it_counts(own: Ownership, change: Change) -> None:
    assert own.owns(change) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Change("pkg/testing/only_tests_use.py", "file"), Reason.SUPPORT),
        (Change("pkg/testing/golden.json", "file"), Reason.SUPPORT),
        (Change("pkg/testing/test_compare.py", "file"), Reason.TEST_FILE),
        (Change("pkg/testing/test_mine.py", "file"), Reason.OWN_TEST),
        (Change("pkg/testing/__init__.py", "deleted"), Reason.TEST_PACKAGE),
        (Change("pkg/test/helper.py", "file"), Reason.SUPPORT),
        (Change("pkg/test/test_suite.py", "deleted"), Reason.TEST_FILE),
        (Change("tests/helper.py", "file"), Reason.SUPPORT),
    ],
)
def test_what_only_tests_use_does_not(own: Ownership, change: Change, reason: str) -> None:
    assert own.owns(change) == reason


def test_no_import_that_a_change_adds_makes_product_code_of_a_helper(own: Ownership) -> None:
    (own.pristine / "pkg" / "core.py").unlink()  # as if the import were only in the change
    assert own.owns(Change("pkg/test/suite.py", "file")) == Reason.SUPPORT


@pytest.mark.parametrize("text", ["import (", "\0", "from ......... import x\n", "from . import *\n"])
def test_what_cannot_be_read_imports_nothing(tmp_path: Path, text: str) -> None:
    for name in ("pkg/__init__.py", "pkg/testing/__init__.py", "pkg/testing/a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "pkg" / "broken.py").write_text(f"# testing\n{text}")
    assert shipped(tmp_path, "pkg/testing") == frozenset()


FOLDERS = {
    "Tests/test_a.py": "Tests",
    "unit_tests/deep/test_a.py": "unit_tests",
    "pkg/UnitTests/test_a.py": "pkg/UnitTests",
    "test/deep/tests/test_a.py": "test",
    "numpy/testing/tests/test_a.py": "numpy/testing/tests",
    "pkg/testing/test_a.py": "pkg/testing",
    "test_plus/tests/test_a.py": "test_plus/tests",
    "latest/contest/test_a.py": "",
    "test_a.py": "",
}


@pytest.mark.parametrize("file", FOLDERS)
def test_the_folder_of_tests_around_a_file_goes_by_words_in_any_case(file: str) -> None:
    assert support_folders([file]) == frozenset(filter(None, [FOLDERS[file]]))
    assert is_tests_folder(FOLDERS[file].rpartition("/")[2]) == bool(FOLDERS[file])
