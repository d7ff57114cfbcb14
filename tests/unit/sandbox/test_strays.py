"""New tests of an agent's that pytest would collect are left out, and product code of such a name is not."""

from pathlib import Path

import pytest
from owned import owner

from lego_rl.sandbox.ownership.split import Reason
from lego_rl.sandbox.verdict import Change, ChangeKind, Patch

FILES = {
    "pkg/__init__.py": "", "pkg/core.py": "try:\n    from pkg import test_speed\nexcept ImportError:\n    pass\n",
    "pkg/test_old.py": "", "tests/test_visible.py": "", "tools/broken.py": "from pkg import test_broken and\n",
}  # fmt: skip
ALL = "python -m pytest -q -c /dev/null --junitxml=$LEGO_REPORT -k core"
NAMED = "python -m pytest --junitxml=$LEGO_REPORT tests/test_a.py"


def split(root: Path, *changes: Change, command: str = ALL, files: dict[str, str] = FILES) -> dict[str, str]:
    return owner(root, files, command=command).split(Patch(changes)).rolled_back


def new(path: str, text: str = "", kind: ChangeKind = "file") -> Change:
    return Change(path, kind, text.encode())


@pytest.mark.parametrize(
    "path", ["test_repro.py", "pkg/test_core.py", "pkg/tests/core_test.py", "more/deep/test_a.py", "test_a.py"]
)
def test_a_scratch_test_is_left_out_where_the_runner_looks_for_tests(tmp_path: Path, path: str) -> None:
    text = "# pkg/core.py runs test_repro, test_core, core_test, test_a\n'test_core.py'\n"
    changes = new(path, "import nothing\n"), new("pkg/other.py", text), new("notes.md", path)
    assert split(tmp_path, *changes).keys() == {path}
    assert split(tmp_path, new(path, "../other.py", "symlink")).keys() == {path}


@pytest.mark.parametrize(
    "command",
    [ALL, "pytest", "python -m unittest discover", "tox", "cd pkg && pytest", "pytest pkg", "sh run.sh", "pytest $X"],
)
def test_however_a_command_leaves_it_to_the_runner(tmp_path: Path, command: str) -> None:
    files = {**FILES, "run.sh": "set -e\npytest -x\n"}
    assert split(tmp_path, new("pkg/test_mine.py"), command=command, files=files) == {"pkg/test_mine.py": Reason.STRAY}


@pytest.mark.parametrize("command", [NAMED, "pytest tests", "pytest tests/test_a.py::test_it", "sh run.sh"])
def test_where_it_names_what_to_run_nothing_else_is_left_out(tmp_path: Path, command: str) -> None:
    files = {**FILES, "run.sh": "pytest tests/test_a.py\n"}
    assert split(tmp_path, new("pkg/test_mine.py"), new("test_mine.py"), command=command, files=files) == {}


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("pkg/test_client.py", "from pkg.test_client import Client\n"),
        ("pkg/test_client.py", "from .test_client import Client\n"),
        ("pkg/test_client.py", "from . import test_client\n"),
        ("pkg/test_client.py", "import_module('pkg.test_client')\n"),
        ("pkg/test_client.py", "run([sys.executable, ROOT / 'test_client.py'])\n"),
        ("pkg/load_test.py", "from pkg.load_test import run as _\n"),
        ("test_client.py", "import test_client\n"),
    ],
)
def test_what_a_changed_module_of_the_product_names_is_its_own(tmp_path: Path, path: str, says: str) -> None:
    assert split(tmp_path, new(path), new("pkg/core.py", says)) == {}


def test_what_the_task_names_is_its_own(tmp_path: Path) -> None:
    assert split(tmp_path, new("pkg/test_speed.py")) == {}
    hidden = owner(tmp_path / "h", FILES, hidden={"tests/test_a.py": "from pkg import test_wanted\n"}, command=ALL)
    assert hidden.split(Patch((new("pkg/test_wanted.py"),))).rolled_back == {}


def test_what_is_named_by_a_test_alone_is_a_test(tmp_path: Path) -> None:
    changes = new("test_one.py", "import test_two\n"), new("test_two.py", "import test_one\n")
    assert set(split(tmp_path, *changes)) == {"test_one.py", "test_two.py"}
    assert split(tmp_path / "x", *changes, new("pkg/core.py", "import test_one\n")) == {}


def test_what_the_task_has_is_not_new(tmp_path: Path) -> None:
    assert split(tmp_path, new("pkg/test_old.py", "broken"), new("pkg/test_gone.py", kind="deleted")) == {}


def test_the_patterns_of_the_configuration_count(tmp_path: Path) -> None:
    files = {**FILES, "pytest.ini": "[pytest]\npython_files = check_*.py\n"}
    changes = new("check_it.py"), new("test_doc.txt", ">>> 1\n2\n"), new("test_data.txt", "1\n")
    assert split(tmp_path, *changes, files=files) == {"check_it.py": Reason.STRAY, "test_doc.txt": Reason.STRAY}


TESTPATHS = {**FILES, "pytest.ini": "[pytest]\ntestpaths = tests\naddopts = -ra -p no:cacheprovider\n"}


def test_what_lies_outside_of_testpaths_is_never_collected(tmp_path: Path) -> None:
    changes = new("pkg/load_test.py"), new("tests/test_mine.py"), new("test_mine.py")
    env = {"PYTEST_ADDOPTS": "-p no:cacheprovider"}
    own = owner(tmp_path, TESTPATHS, command="python -m pytest -q", env=env)
    assert own.split(Patch(changes)).rolled_back == {"tests/test_mine.py": Reason.OWN_TEST}


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("pytest .", {}),
        ("pytest pkg", {}),
        ("cd pkg && pytest", {}),
        ("pytest -c other.ini", {}),
        ("pytest -o testpaths=pkg", {}),
        ("pytest --rootdir pkg", {}),
        ("python -m unittest", {}),
        ("PYTEST_ADDOPTS=pkg pytest", {}),
        ("pytest", {"pytest.ini": "[pytest]\ntestpaths = tests\naddopts = -q pkg\n"}),
        ("pytest", {"pytest.ini": "[pytest]\ntestpaths = nowhere\n"}),
        ("pytest", {"pytest.ini": "[pytest]\ntestpaths = p*\n"}),
        ("pytest", {"setup.cfg": "[tool:pytest]\ntestpaths = tests\n", "pytest.ini": ""}),
    ],
)
def test_testpaths_say_nothing_where_something_else_may(tmp_path: Path, command: str, more: dict[str, str]) -> None:
    found = split(tmp_path, new("pkg/load_test.py"), command=command, files={**TESTPATHS, **more})
    assert found == {"pkg/load_test.py": Reason.STRAY}


def test_a_step_numbered_as_its_neighbours_and_a_module_of_a_package_that_loads_all_are_the_products(
    tmp_path: Path,
) -> None:
    files = {
        **FILES,
        "pkg/migrations/0001_initial.py": "",
        "pkg/plugins/__init__.py": "for each in pkgutil.iter_modules(__path__):\n    import_module(each.name)\n",
        "pkg/tests/plugins/__init__.py": "pkgutil.iter_modules(__path__)\n",
    }
    product = [new("pkg/migrations/0002_is_test.py"), new("pkg/plugins/speed_test.py")]
    scratch = ["pkg/migrations/is_test.py", "pkg/0002_is_test.py", "pkg/plugins/deep/speed_test.py", "pkg/more_test.py"]
    found = split(tmp_path, *product, *map(new, [*scratch, "pkg/tests/plugins/a_test.py"]), files=files)
    assert found.keys() == {*scratch, "pkg/tests/plugins/a_test.py"}


def test_no_init_of_a_change_makes_products_of_tests(tmp_path: Path) -> None:
    loads = new("pkg/more/__init__.py", "pkgutil.iter_modules(__path__)\n")
    assert split(tmp_path, loads, new("pkg/more/a_test.py")) == {"pkg/more/a_test.py": Reason.STRAY}


def test_settings_name_a_module_with_its_package_and_what_others_say_is_nothing(tmp_path: Path) -> None:
    settings = new("pkg/plugins.toml", "plugins = ['pkg.speed_test:run']\n# a_test\n")
    report = new("report.json", '["pkg.more_test", "pkg/a_test.py"]')
    tests = map(new, ["pkg/speed_test.py", "pkg/a_test.py", "pkg/more_test.py"])
    assert split(tmp_path, settings, report, *tests).keys() == {"pkg/a_test.py", "pkg/more_test.py"}
