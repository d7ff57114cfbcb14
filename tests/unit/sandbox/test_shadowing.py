"""New modules that would come before what the tests' side of a run imports, and modules that the tests ask for."""

import sysconfig
from pathlib import Path

import pytest
from owned import owner

from lego_rl.sandbox.ownership.known.asked_modules import ASKED_FOR
from lego_rl.sandbox.ownership.known.known_modules import is_asked_for
from lego_rl.sandbox.ownership.split import Reason
from lego_rl.sandbox.verdict import Change, Patch
from scripts.asked_modules import absent, asked_in

USES = "from helper import same\n"
SHADOWING: dict[str, tuple[list[str], dict[str, object]]] = {
    "a nearer folder": (
        ["tests/unit/helper.py", "tests/unit/helper/__init__.py"],
        {"files": {"tests/conftest.py": "", "tests/helper.py": ""}, "hidden": {"tests/unit/test_a.py": USES}},
    ),
    "an earlier folder of pythonpath": (
        ["helper.py", "helper.so", "helper/__init__.py"],
        {"files": {"tests/helper.py": "", "pytest.ini": "[pytest]\npythonpath = . tests\n"},
         "hidden": {"tests/test_a.py": USES}},
    ),
    "a package of tests": (
        ["src/tests/__init__.py", "src/tests/helper.py", "src/tests.py", "src/tests/helper/__init__.py"],
        {"files": {"tests/helper.py": "", "pytest.ini": "[pytest]\npythonpath = src .\n"},
         "hidden": {"tests/test_a.py": "from tests.helper import same\n"}},
    ),
    "what a package of tests is by a relative name": (
        ["src/tests/__init__.py", "src/tests/helper.py"],
        {"files": {"tests/helper.py": "", "tests/__init__.py": "", "pytest.ini": "[pytest]\npythonpath = src\n"},
         "hidden": {"tests/test_a.py": "from .helper import same\n"}},
    ),
    "a test, where pytest appends": (
        ["test_a.py"], {"hidden": {"tests/test_a.py": ""}},
    ),
    "what a helper imports": (
        ["numbers_of_tests.py"],
        {"files": {"tests/helper.py": "import numbers_of_tests\n", "tests/numbers_of_tests.py": ""},
         "hidden": {"tests/test_a.py": USES}},
    ),
    "a hidden helper that no list has": (
        ["tests/helper/__init__.py", "helper.py", "tests/helper.py"],
        {"hidden": {"tests/test_a.py": USES}, "unlisted": {"tests/helper.py": ""}},
    ),
    "a hidden conftest that no list has": (
        ["tests/conftest/__init__.py"],
        {"files": {"tests/__init__.py": ""}, "hidden": {"tests/test_a.py": ""}, "unlisted": {"tests/conftest.py": ""}},
    ),
    "a folder that a package of tests puts on the path": (
        ["helper.py"],
        {"files": {"tests/__init__.py": "", "tests/helper.py": ""},
         "hidden": {"tests/test_a.py": "import os, sys\nsys.path.insert(0, os.path.dirname(__file__))\n" + USES}},
    ),
    "a plugin of the command": (
        ["plug.py", "plug/__init__.py"],
        {"files": {"vendor/plug.py": ""}, "command": "PYTHONPATH=.:vendor python -m pytest -p plug tests"},
    ),
    "a module that the command runs": (
        ["kit/suite.py", "kit/__init__.py"],
        {"files": {"vendor/kit/suite.py": ""}, "command": "PYTHONPATH=.:vendor python -m kit.suite"},
    ),
    "what a program of the command imports": (
        ["early/steps.py"],
        {"files": {"vendor/steps.py": "", "dev/run.py": "from steps import go\n"},
         "command": "PYTHONPATH=early:vendor python dev/run.py"},
    ),
    "what Python asks for everywhere": (
        ["_wmi.py", "_wmi/__init__.py", "_wmi/data.txt", "tests/_winreg.py", "org/python/core.py", "java/__init__.py",
         "_sysconfigdata__linux_x86_64-linux-gnu.py", "annotationlib.py"], {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SHADOWING)
def test_a_new_module_of_a_name_that_the_tests_side_imports_is_rolled_back(tmp_path: Path, case: str) -> None:
    paths, given = SHADOWING[case]
    own = owner(tmp_path, **given)  # type: ignore[arg-type]
    assert {path: own.owns(Change(path, "file")) for path in paths if not own.owns(Change(path, "file"))} == {}


ASKED_OF_THE_AGENT: dict[str, tuple[list[str], dict[str, object]]] = {
    "a module that nobody has yet": (
        ["helper.py", "helper/__init__.py", "app/helper.py"], {"hidden": {"tests/test_a.py": USES}},
    ),
    "a name that only a package of tests has in it": (
        ["helper.py", "src/helper.py"],
        {"files": {"tests/__init__.py": "", "tests/helper.py": "", "pytest.ini": "[pytest]\npythonpath = src .\n"},
         "hidden": {"tests/test_a.py": "from tests.helper import same\n"}},
    ),
    "a name of a helper that no test imports": (
        ["helper.py"], {"files": {"tests/helper.py": "", "tests/conftest.py": ""}},
    ),
    "a move below src": (
        ["src/app/__init__.py", "src/app/tests/data.py"],
        {"files": {"app/tests/helper.py": "", "pytest.ini": "[pytest]\npythonpath = src .\n"},
         "hidden": {"app/tests/test_a.py": "import app\nfrom app.tests.helper import same\n"}},
    ),
    "names in other languages": (["java/lang/X.java", "org/x.txt", "org/python/x.c"], {}),
}  # fmt: skip


@pytest.mark.parametrize("case", ASKED_OF_THE_AGENT)
def test_a_module_that_the_tests_ask_for_is_the_agents(tmp_path: Path, case: str) -> None:
    paths, given = ASKED_OF_THE_AGENT[case]
    own = owner(tmp_path, **given)  # type: ignore[arg-type]
    assert {path: why for path in paths if (why := own.owns(Change(path, "file")))} == {}


def test_whatever_this_python_asks_for_is_known() -> None:
    names = absent(asked_in(Path(sysconfig.get_path("stdlib"))))
    assert "_wmi" in names
    assert names <= ASKED_FOR
    assert all(map(is_asked_for, names))


def test_the_image_is_asked_only_for_what_the_tests_or_their_runner_import_and_nobody_has(tmp_path: Path) -> None:
    hidden = {"tests/test_a.py": "import blinker\nimport app\nfrom app import new\nfrom spam.eggs import ham\n"}
    own = owner(tmp_path, {"src/yaml.py": ""}, hidden=hidden)
    new = ["blinker.py", "attr/__init__.py", "app/new.py", "other.py", "docs/blinker.py", "spam/eggs.py", "app/attr.py"]
    patch = Patch(tuple(Change(path, "file") for path in new))
    assert own.asked(patch) == {"blinker", "attr", "spam.eggs"}


def test_a_folder_that_is_no_package_is_no_source_of_what_is_installed(tmp_path: Path) -> None:
    hidden = {"tests/test_a.py": "import docker\nimport redis\nimport yaml\nimport spam\n"}
    files = {"docker/Dockerfile": "", "docker/start.py": "", "redis/__init__.py": "", "yaml.cpython-312.so": "",
             "src/spam/__init__.cpython-312.so": "", "pyproject.toml": "[project]\nname = 'x'\n"}  # fmt: skip
    own = owner(tmp_path, files, hidden=hidden)
    new = ["docker/__init__.py", "docker.py", "redis.py", "yaml/__init__.py", "spam.py"]
    assert own.asked(Patch(tuple(Change(path, "file") for path in new))) == {"docker"}


def test_plugins_and_programs_of_the_command_are_asked_for(tmp_path: Path) -> None:
    own = owner(tmp_path, command="python -m kit.suite; python -m pytest -p plug; python -m app", env=PLUGINS)
    patch = Patch(tuple(Change(f"{name}.py", "file") for name in ("kit", "plug", "third", "fourth", "fifth", "app")))
    assert own.asked(patch) == {"kit", "plug", "third", "fourth"}


PLUGINS = {"PYTEST_PLUGINS": "third", "PYTEST_ADDOPTS": "-p fourth"}


def test_what_the_image_has_cannot_come_from_the_work_tree(tmp_path: Path) -> None:
    own = owner(tmp_path, hidden={"tests/test_a.py": "import blinker\n"})
    change = Change("blinker/__init__.py", "file")
    assert own.owns(change) is None
    assert own.knowing(frozenset({"blinker"})).owns(change) == Reason.SHADOWS
    assert own.knowing(frozenset({"blinker"})).owns(Change("app/blinker.py", "file")) is None
