"""An ``__init__.py`` above a test is the task's where it is a part of the test's name, and nowhere else."""

from pathlib import Path

import pytest
from owned import owner

from lego_rl.sandbox.ownership.split import Reason
from lego_rl.sandbox.verdict import Change, ChangeKind

HIDDEN = {"calc/sub/cases/test_a.py": "", "unit/test_b.py": ""}


@pytest.mark.parametrize(
    ("there", "path", "kind"),
    [
        ((), "calc/__init__.py", "file"),
        ((), "calc/sub/__init__.py", "file"),
        ((), "__init__.py", "file"),
        (("calc/__init__.py",), "calc/__init__.py", "deleted"),
        (("calc/sub/cases/__init__.py",), "calc/__init__.py", "file"),
        (("calc/sub/cases/__init__.py", "calc/sub/__init__.py"), "calc/sub/__init__.py", "file"),
        (("calc/conftest.py",), "__init__.py", "file"),
    ],
)
def test_what_makes_a_package_of_the_product_is_the_agents(
    tmp_path: Path, there: tuple[str, ...], path: str, kind: ChangeKind
) -> None:
    own = owner(tmp_path, dict.fromkeys(there, ""), hidden=HIDDEN)
    assert own.owns(Change(path, kind)) is None


@pytest.mark.parametrize(
    ("there", "path", "kind"),
    [
        ((), "calc/sub/cases/__init__.py", "file"),
        ((), "unit/__init__.py", "symlink"),
        (("calc/sub/cases/__init__.py",), "calc/sub/cases/__init__.py", "deleted"),
        (("calc/sub/cases/__init__.py",), "calc/sub/__init__.py", "file"),
        (("calc/sub/cases/__init__.py", "calc/sub/__init__.py"), "calc/sub/__init__.py", "deleted"),
        (("calc/sub/cases/__init__.py", "calc/sub/__init__.py"), "calc/__init__.py", "file"),
        (("calc/conftest.py",), "calc/__init__.py", "file"),
        (("conftest.py",), "__init__.py", "file"),
    ],
)
def test_what_changes_the_name_of_a_test_is_the_tasks(
    tmp_path: Path, there: tuple[str, ...], path: str, kind: ChangeKind
) -> None:
    own = owner(tmp_path, dict.fromkeys(there, ""), hidden=HIDDEN)
    assert own.owns(Change(path, kind)) == Reason.TEST_PACKAGE
