"""What an installation before the tests would put in the place of what runs them is the task's own."""

import configparser
import tomllib
from pathlib import Path

import pytest
from owned import owner

from lego_rl.sandbox.ownership.merge.configuration import merge
from lego_rl.sandbox.verdict import Change

PROJECT = """\
[project]
name = "calc"
dependencies = ["a"]
[project.scripts]
calc = "calc:main"
[build-system]
requires = ["setuptools"]
"""
SETUP = "[options]\ninstall_requires = a\n[options.entry_points]\nconsole_scripts =\n    calc = calc:main\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('calc = "calc:main"', 'calc = "calc:main"\npytest = "calc:evil"'),
        ('calc = "calc:main"', 'calc = "calc:main"\npython3 = "calc:evil"\n[project.gui-scripts]\ntox = "calc:evil"'),
        ('"setuptools"]', '"setuptools"]\nbackend-path = ["."]'),
        ('"setuptools"]', '"setuptools"]\n[tool.uv.sources]\npytest = {path = "x"}'),
        ('"setuptools"]', '"setuptools"]\n[tool.hatch.build.hooks.custom]\npath = "x.py"'),
        ('"setuptools"]', '"setuptools"]\n[tool.setuptools.cmdclass]\nbuild_py = "calc.Evil"'),
        ('"setuptools"]', '"setuptools"]\n[project.optional-dependencies]\ntest = ["pytest @ file:///app/x"]'),
    ],
)
def test_of_a_pyproject_it_goes_and_the_rest_stays(old: str, new: str) -> None:
    changed = PROJECT.replace(old, new).replace('"calc"\n', '"calc"\nversion = "2"\n')
    applied, reason = merge(Change("pyproject.toml", "file", changed.encode()), PROJECT.encode())
    assert applied is not None
    assert reason is not None
    document = tomllib.loads(applied.content.decode())
    assert document["project"]["version"] == "2"
    assert document["project"]["scripts"] == {"calc": "calc:main"}
    assert document["build-system"] == {"requires": ["setuptools"]}
    assert not any(word in applied.content.decode() for word in ("evil", "Evil", "pytest", "x.py"))


def test_a_requirement_with_an_address_goes_with_its_list() -> None:
    changed = PROJECT.replace('["a"]', '["a", "pytest @ file:///app/x"]')
    applied, _ = merge(Change("pyproject.toml", "file", changed.encode()), PROJECT.encode())
    assert applied is not None
    assert b"file:" not in applied.content


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("calc = calc:main", "calc = calc:main\n    pytest = calc:evil"),
        ("= a\n", "= a\n    pytest @ file:///app/evil\n"),
        ("[options]\n", "[options]\ncmdclass =\n    build_py = calc.evil\n"),
        ("[options]\n", "[options.data_files]\nlib = evil.pth\n[options]\n"),
        ("[options]\n", "[easy_install]\nfind_links = evil\n[options]\n"),
    ],
)
def test_of_a_setup_cfg_it_goes_and_the_rest_stays(old: str, new: str) -> None:
    changed = SETUP.replace(old, new) + "[metadata]\nversion = 2\n"
    applied, reason = merge(Change("setup.cfg", "file", changed.encode()), SETUP.encode())
    assert applied is not None
    assert reason is not None
    parser = configparser.ConfigParser()
    parser.read_string(applied.content.decode())
    assert parser["metadata"]["version"] == "2"
    assert b"evil" not in applied.content


@pytest.mark.parametrize(
    ("old", "new"),
    [('["a"]', '["a", "b>1"]'), ('calc = "calc:main"', 'more = "calc:more"'), ('"setuptools"', '"hatchling"')],
)
def test_the_rest_is_the_agents_as_it_is(old: str, new: str) -> None:
    change = Change("pyproject.toml", "file", PROJECT.replace(old, new).encode())
    assert merge(change, PROJECT.encode()) == (change, None)


def test_what_is_required_is_the_runs_where_it_is_installed(tmp_path: Path) -> None:
    own = owner(tmp_path, {"requirements.txt": "a\n"}, command="pip install -r requirements.txt && pytest tests")
    assert own.owns(Change("requirements.txt", "file"))
    assert own.owns(Change("requirements-dev.txt", "file")) is None
