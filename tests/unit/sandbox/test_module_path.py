"""Which folders count as being on the module path, by the task's own words; all others hold what the agent likes."""

from pathlib import Path

import pytest
from owned import PYTEST, owner

from lego_rl.sandbox.verdict import Change

HONEST = (
    "app/templates/email/reset.html", "app/templates/calendar/month.html", "app/static/code/a.js", "app/static/html",
    "locale/de/LC_MESSAGES/a.po", "docs/profile/x.rst", "tests/json/new.json", "ns/sub/queue.py",
    "plugins/modules/pip.py", "src/token.py", "src/packaging/__init__.py", "select/x.txt", "weights.pth",
)  # fmt: skip


@pytest.mark.parametrize("path", HONEST)
def test_honest_files_with_names_of_modules_are_kept(tmp_path: Path, path: str) -> None:
    assert owner(tmp_path).owns(Change(path, "file")) is None


SETUP = "from setuptools import setup, find_packages\nsetup(package_dir={'': 'lib'}, packages=find_packages('lib'))\n"
SPEAKS = "import sys\nfrom pathlib import Path\nsys.path.insert(0, str(Path(__file__).parents[1] / 'ns' / 'sub'))\n"
ON_PATH: dict[str, tuple[str, dict[str, object]]] = {
    "the work tree": ("token.py", {}),
    "a package in it": ("token/__init__.py", {}),
    "a test folder": ("tests/token.py", {}),
    "above test packages": ("ns/token.py", {"hidden": {"ns/t/test_b.py": "", "ns/t/__init__.py": ""}}),
    "beside another test": ("docs/token.py", {"files": {"docs/test_examples.py": ""}, "command": "pytest docs tests"}),
    "beside a test that is found": ("docs/token.py", {"files": {"docs/test_examples.py": ""}, "command": "pytest"}),
    "beside a conftest": ("docs/token.py", {"files": {"docs/deep/conftest.py": "", "docs/deep/__init__.py": ""}}),
    "pythonpath": ("src/token.py", {"files": {"pytest.ini": "[pytest]\npythonpath = src\n"}}),
    "pythonpath where the command goes": (
        "ns/sub/token.py",
        {"command": f"cd /app/ns && {PYTEST}", "files": {"ns/pytest.ini": "[pytest]\npythonpath = sub\n"}},
    ),
    "pythonpath, not there yet": ("new/token.py", {"files": {"pytest.ini": "[pytest]\npythonpath = new\n"}}),
    "pythonpath of the command": ("src/token.py", {"command": f"{PYTEST} -o pythonpath=src"}),
    "pythonpath of the command, one of several": (
        "ns/sub/token.py", {"command": f'{PYTEST} -o pythonpath="$PWD ns/sub"'}
    ),
    "PYTHONPATH of the command": ("src/token.py", {"command": f"PYTHONPATH=$PWD/src:x {PYTEST}"}),
    "PYTHONPATH of the image": ("src/token.py", {"env": {"PYTHONPATH": "/opt:/app/src"}}),
    "a relative PYTHONPATH": ("src/token.py", {"env": {"PYTHONPATH": "src"}}),
    "the command's folder": ("ns/sub/token.py", {"command": f"cd ns/sub && {PYTEST}"}),
    "a script's folder": ("ns/sub/token.py", {"command": "python ns/sub/mod.py"}),
    "a script's folder, from another": ("ns/sub/token.py", {"command": "cd ns; python sub/mod.py"}),
    "what a Makefile names": (
        "src/token.py", {"command": "make test", "files": {"Makefile": "test:\n\tPYTHONPATH=src pytest\n"}}
    ),
    "what a conftest names": ("src/token.py", {"files": {"conftest.py": "import sys\nsys.path.append('src')\n"}}),
    "what a hidden test names": ("ns/sub/token.py", {"hidden": {"tests/test_a.py": SPEAKS}}),
    "what a helper names": ("src/token.py", {"files": {"tests/context.py": "sys.path.insert(0, '../src')\n"}}),
    "what a script of the task names": ("src/token.py", {"script": "cd /app/src && python -m pytest /tests\n"}),
    "an installed src": ("src/token.py", {"files": {"pyproject.toml": "[project]\nname = 'x'\n"}}),
    "an installed src, setup.cfg": ("src/token.py", {"files": {"setup.cfg": "[metadata]\nname = x\n"}}),
    "package_dir of setup.py": ("lib/token.py", {"files": {"setup.py": SETUP, "lib/app/__init__.py": ""}}),
    "package_dir of setup.cfg": (
        "lib/token.py", {"files": {"setup.cfg": "[options]\npackage_dir =\n  = lib\n", "lib/app/__init__.py": ""}}
    ),
    "packages of pyproject.toml": (
        "lib/token.py",
        {"files": {
            "pyproject.toml": "[tool.hatch.build.targets.wheel]\npackages = ['lib/app']\n", "lib/app/__init__.py": ""
        }},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ON_PATH)
def test_a_module_in_a_folder_that_is_on_the_path_is_the_tasks(tmp_path: Path, case: str) -> None:
    path, given = ON_PATH[case]
    own = owner(tmp_path, **given)  # type: ignore[arg-type]
    assert own.owns(Change(path, "file")), case
    assert own.owns(Change(path, "symlink")), case
    assert own.owns(Change(path.replace("token", "fine"), "file")) is None
    folder = path.rpartition("/")[0]
    if folder and (tmp_path / "tree" / folder).is_dir() and case not in MOVED_BY_WORD:
        assert own.owns(Change(folder, "symlink")), "a link would put another folder on the path"


def test_a_folder_with_a_test_that_nobody_collects_is_not_on_the_path(tmp_path: Path) -> None:
    own = owner(tmp_path, {"app/stats/ab_test.py": ""})
    assert own.owns(Change("app/stats/statistics.py", "file")) is None


PACKAGED = {
    "setup.py": ("setup.py", "setup(name='ns', packages=['ns'])\n"),
    "setup.py, found": ("setup.py", "from setuptools import *\nsetup(name='ns', packages=find_packages())\n"),
    "setup.py, computed": ("setup.py", "NAME = 'ns'\nsetup(name=NAME, packages=[NAME, f'{NAME}.sub'])\n"),
    "setup.py of old": ("setup.py", "print 'ns'\nsetup(packages=['ns'])\n"),
    "setup.py, by package": ("setup.py", "setup(package_dir={'ns': 'ns'}, packages=['ns'])\n"),
    "setup.cfg": ("setup.cfg", "[metadata]\nname = ns\n\n[options]\npackages =\n    ns\n"),
    "setuptools": ("pyproject.toml", "[project]\nname = 'ns'\n\n[tool.setuptools]\npackages = ['ns']\n"),
    "setuptools, attributes": ("pyproject.toml", "[tool.setuptools.dynamic]\nversion = {attr = 'ns.version'}\n"),
    "hatch": ("pyproject.toml", "[tool.hatch.build.targets.wheel]\npackages = ['ns']\n"),
    "poetry": ("pyproject.toml", "[tool.poetry]\nname = 'ns'\npackages = [{include = 'ns'}]\n"),
    "flit": ("pyproject.toml", "[project]\nname = 'ns'\n\n[tool.flit.module]\nname = 'ns'\n"),
    "uv": ("pyproject.toml", "[project]\nname = 'ns'\n\n[tool.uv.sources]\nns = {workspace = true}\n"),
}


@pytest.mark.parametrize("case", PACKAGED)
def test_a_package_that_is_named_as_one_is_not_on_the_path_itself(tmp_path: Path, case: str) -> None:
    name, text = PACKAGED[case]
    own = owner(tmp_path, {name: text, "ns/__init__.py": ""})
    assert own.owns(Change("ns/types.py", "file")) is None
    assert own.owns(Change("types.py", "file"))


def test_a_package_without_a_file_of_its_own_is_one_where_it_is_named_plainly(tmp_path: Path) -> None:
    own = owner(tmp_path, {"setup.py": "setup(name='ns', packages=['ns'])\n", "ns/core.py": ""})
    assert own.owns(Change("ns/types.py", "file")) is None


HOLDING = {
    "where": ("setup.py", "setup(packages=find_packages(where='lib'))\n"),
    "table": ("setup.py", "OPTIONS = {'package_dir': {'': 'lib'}}\nsetup(**OPTIONS)\n"),
    "dict": ("setup.py", "options = dict(package_dir={'': 'lib'})\nsetup(**options)\n"),
    "computed": ("setup.py", "FOLDER = 'lib'\nsetup(package_dir={'': FOLDER})\n"),
    "joined": ("setup.py", "import os\nsetup(package_dir={'': os.path.join('.', 'lib')})\n"),
    "python 2": ("setup.py", "print 'x'\nsetup(package_dir={'': 'lib'})\n"),
    "setup.cfg": ("setup.cfg", "[options]\npackages = find:\n\n[options.packages.find]\nwhere = lib\n"),
    "setuptools": ("pyproject.toml", "[tool.setuptools]\npackage-dir = {'' = 'lib'}\n"),
    "setuptools where": ("pyproject.toml", "[tool.setuptools.packages.find]\nwhere = ['lib']\n"),
    "poetry": ("pyproject.toml", "[tool.poetry]\npackages = [{include = 'app', from = 'lib'}]\n"),
    "hatch sources": ("pyproject.toml", "[tool.hatch.build]\nsources = ['lib']\n"),
    "pdm": ("pyproject.toml", "[tool.pdm.build]\npackage-dir = 'lib'\n"),
    "maturin": ("pyproject.toml", "[tool.maturin]\npython-source = 'lib'\n"),
    "scikit-build": ("pyproject.toml", "[tool.scikit-build]\nwheel.packages = ['lib/app']\n"),
    "uv": ("pyproject.toml", "[tool.uv.build-backend]\nmodule-root = 'lib'\n"),
}


@pytest.mark.parametrize("case", HOLDING)
def test_a_folder_that_packaging_says_holds_packages_is_on_the_path(tmp_path: Path, case: str) -> None:
    name, text = HOLDING[case]
    own = owner(tmp_path, {name: text, "lib/app/__init__.py": ""})
    assert own.owns(Change("lib/types.py", "file"))
    assert own.owns(Change("lib/app/types.py", "file")) is None


MOVED_BY_WORD = {
    "beside another test", "beside a test that is found", "beside a conftest", "the command's folder",
    "what a Makefile names", "what a conftest names", "what a hidden test names", "what a helper names",
    "what a script of the task names",
}  # fmt: skip
"""Nothing says for certain that the folder is on the path."""


@pytest.mark.parametrize("way", ["pythonpath", "conftest"])
def test_a_link_of_the_task_leads_to_another_folder_that_is_on_the_path(tmp_path: Path, way: str) -> None:
    files = {
        "pythonpath": {"pytest.ini": "[pytest]\npythonpath = link/sub\n"},
        "conftest": {"conftest.py": "import sys\nsys.path.append('link/sub')\n"},
    }[way]
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to("ns")
    (tmp_path / "tree" / "out").symlink_to("/usr/lib")
    own = owner(tmp_path, files, env={"PYTHONPATH": "out"})
    assert own.owns(Change("ns/sub/token.py", "file"))
    assert own.owns(Change("docs/token.py", "file")) is None


def test_words_that_are_no_names_are_none(tmp_path: Path) -> None:
    word = "a" * 5_000
    files = {"setup.py": f"setup('{word}')\n", "conftest.py": f"import sys\nsys.path.append('{word}/x')\n"}
    own = owner(tmp_path, files, command=f"python -c {word} && {word}.sh && cd {word} && {PYTEST}")
    assert own.owns(Change("docs/token.py", "file")) is None


def test_only_where_the_tests_ask_for_them_are_path_files_read(tmp_path: Path) -> None:
    asks = "import site\nsite.addsitedir('src')\n"
    assert owner(tmp_path, {"conftest.py": asks}).owns(Change("src/evil.pth", "file"))
    assert owner(tmp_path).owns(Change("docs/evil.pth", "file")) is None
    (tmp_path / "tree" / "conftest.py").write_text("")
    assert owner(tmp_path).owns(Change("src/evil.pth", "file")) is None


def test_a_program_on_the_path_of_the_image_is_the_tasks(tmp_path: Path) -> None:
    own = owner(tmp_path, command="prepare && python -m pytest tests", env={"PATH": "/app/tools:/usr/bin"})
    assert own.owns(Change("tools/prepare", "file", executable=True))
    assert own.owns(Change("ns/prepare", "file", executable=True)) is None
