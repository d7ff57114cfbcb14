"""Helpers beside tests are the task's however a command names the tests; product code called like tests is not."""

from pathlib import Path

import pytest
from owned import owner

from lego_rl.sandbox.ownership.split import Reason
from lego_rl.sandbox.verdict import Change

FILES = {
    "pkg/__init__.py": "from pkg.calc import add\nfrom pkg.ab_test import rate\n",
    "pkg/calc.py": "",
    "pkg/ab_test.py": "def rate(): pass\n",
    "pkg/test_base.py": "from pkg.test_deeper import deep\nfrom pkg.calc import add\n",
    "pkg/test_deeper.py": "",
    "pkg/testutil.py": "",
    "pkg/test_alone.py": "",
    "pkg/test_rates.py": "def rates(): pass\n",
    "pkg/base.py": "",
    "lib/add.js": "",
    "lib/testutil.js": "",
}
HIDDEN = {
    "pkg/test_add.py": "from pkg.ab_test import rate\nfrom .testutil import same\nfrom pkg.test_base import Base\n"
    "from pkg.base import x\n",
    "pkg/test_rates_test.py": "from pkg.test_rates import rates\nfrom pkg import calc\n",
    "lib/add.test.js": "const a = require('./add'), {same} = require('./testutil');\n",
}
COMMANDS = ["python -m pytest", "python -m pytest pkg", "python -m pytest tests pkg/test_add.py"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "path", ["pkg/test_base.py", "pkg/test_deeper.py", "pkg/testutil.py", "lib/testutil.js", "lib/add.test.js"]
)
def test_what_tests_use_beside_them_is_the_tasks(tmp_path: Path, command: str, path: str) -> None:
    own = owner(tmp_path, FILES, hidden=HIDDEN, command=command)
    assert own.owns(Change(path, "file")) is not None
    assert own.owns(Change(path, "deleted")) is not None


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "path", ["pkg/ab_test.py", "pkg/test_rates.py", "pkg/test_alone.py", "pkg/base.py", "pkg/calc.py", "lib/add.js"]
)
def test_product_code_and_what_nobody_uses_are_the_agents(tmp_path: Path, command: str, path: str) -> None:
    assert owner(tmp_path, FILES, hidden=HIDDEN, command=command).owns(Change(path, "file")) is None


def test_a_module_that_is_all_that_tests_import_is_tested(tmp_path: Path) -> None:
    own = owner(tmp_path, {"testlib.py": "", "test_kit.py": ""}, hidden={"test_a.py": "import testlib, test_kit\n"})
    assert own.owns(Change("testlib.py", "file")) is None
    assert own.owns(Change("test_kit.py", "file")) is None


def test_no_import_of_a_change_makes_product_code_of_a_helper(tmp_path: Path) -> None:
    own = owner(tmp_path, FILES, hidden=HIDDEN)
    (own.pristine / "pkg" / "__init__.py").write_text("")
    assert own.owns(Change("pkg/ab_test.py", "file")) == Reason.SUPPORT
