"""Of a ``setup.py`` that is run before the tests, a change of what it says of the package is the agent's."""

from pathlib import Path

import pytest
from owned import owner

from lego_rl.sandbox.ownership.merge.setup_py import is_description
from lego_rl.sandbox.verdict import Change

SETUP = """\
from setuptools import Extension, setup

setup(
    name="my-calc",
    version="1.0",
    packages=["calc"],
    install_requires=["a"],
    ext_modules=[Extension("calc.fast", ["calc/fast.c"])],
)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"1.0"', '"1.1"'),
        ('    version="1.0",\n', ""),
        ('["a"]', '["a", "b>1"], python_requires=">=3.9", extras_require={"x": ["y"]}'),
        ('["calc"]', '["calc", "calc.more"], package_data={"calc": ["data/*.json"]}'),
        ('"calc/fast.c"]', '"calc/fast.c", "calc/more.c"], include_dirs=["calc"]'),
        ('[Extension("calc.fast"', '[Extension("calc.slow", ["calc/slow.c"]), Extension("calc.fast"'),
        ("setup(\n", "setup(  # as before\n"),
    ],
)
def test_a_description_is_the_agents(old: str, new: str) -> None:
    assert old in SETUP
    assert is_description(SETUP.encode(), SETUP.replace(old, new).encode())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"1.0"', '"1.0", entry_points={"pytest11": ["x = calc.plug"]}'),
        ('["a"]', '["a", "pytest @ file:///app/evil"]'),
        ('"1.0"', 'open("conftest.py", "w").write("x")'),
        ('"1.0"', '"1.0", cmdclass={"build_ext": Evil}'),
        ('"1.0"', '"1.0", scripts=["pytest"], data_files=[("bin", ["pytest"])]'),
        ('["calc"]', '["calc", "pytest"]'),
        ('["calc"]', '["calc"], package_dir={"pytest": "calc"}'),
        ('["calc"]', '["calc"], package_data={"calc": ["../x"]}'),
        ('["calc"]', "find()"),
        ('"calc.fast"', '"_wmi"'),
        ('["calc/fast.c"]', "evil()"),
        ("setup(\n", "import evil\n\nsetup(\n"),
        ("setup(\n", "setup()\nsetup(\n"),
        ('"my-calc"', '"pytest"'),
        ("setup(\n", "setup(**evil,\n"),
        ("setup(", "setup(("),
    ],
)
def test_anything_else_is_the_tasks(old: str, new: str) -> None:
    assert old in SETUP
    assert not is_description(SETUP.encode(), SETUP.replace(old, new).encode())


EVIL = SETUP.replace('"1.0"', '"1.0", entry_points={"pytest11": ["x = calc.plug"]}')


@pytest.mark.parametrize(
    "command",
    [
        "pip install -e . && pytest",
        "python -m pip install .[test] --no-deps; pytest",
        "python setup.py develop && pytest",
        "uv pip install --editable=.",
        "sh build.sh && pytest",
    ],
)
def test_where_it_is_run(tmp_path: Path, command: str) -> None:
    own = owner(tmp_path, {"setup.py": SETUP, "build.sh": "cd /app\npip install /app\n"}, command=command)
    assert own.owns(Change("setup.py", "file", EVIL.encode()))
    assert own.owns(Change("setup.py", "deleted"))
    assert own.owns(Change("setup.py", "file", SETUP.replace("1.0", "2.0").encode())) is None


@pytest.mark.parametrize(
    "command", ["pytest tests", "pip install -r requirements.txt && pytest", "pip install x; pytest"]
)
def test_where_it_is_not(tmp_path: Path, command: str) -> None:
    assert owner(tmp_path, {"setup.py": SETUP}, command=command).owns(Change("setup.py", "file", EVIL.encode())) is None
