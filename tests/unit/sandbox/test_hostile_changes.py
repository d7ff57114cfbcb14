"""Whatever an agent calls its files, and whatever is in them, ownership decides; nothing of it is a fault.

A name is bytes that need be no text, and what looks like Python, JSON, TOML or INI need be none.
"""

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from owned import owner

from lego_rl.sandbox.ownership.rules import Ownership
from lego_rl.sandbox.ownership.run.python_words import PythonWords
from lego_rl.sandbox.verdict import Change, ChangeKind, Patch

FILES = {
    "pkg/__init__.py": "", "pkg/core.py": "import os\n", "pkg/testing/__init__.py": "", "setup.cfg": "[tool:pytest]\n",
    "setup.py": "from setuptools import setup\nsetup(name='pkg', packages=['pkg'])\n",
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-q'\n", "package.json": '{"scripts": {"test": "jest"}}',
    "tests/conftest.py": "import sys\nsys.path.insert(0, 'lib')\nimport helper\n",
}  # fmt: skip
COMMAND = "pip install -e . && npx jest && python -m pytest"
LONE = os.fsdecode(b"caf\xe9")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Ownership:
    hidden = {"tests/test_a.py": "import pkg, wanted\nfrom pkg import test_wanted\n"}
    return owner(tmp_path_factory.mktemp("task"), FILES, hidden=hidden, command=COMMAND)


def decided(own: Ownership, *changes: Change) -> dict[str, str]:
    patch = Patch(changes)
    own.asked(patch)
    split = own.split(patch)
    assert {each.path for each in (*split.applied, *changes)} == {each.path for each in changes}
    assert {each.path for each in split.applied} | split.rolled_back.keys() == {each.path for each in changes}
    return split.rolled_back


@pytest.mark.parametrize("name", [f"{LONE}.py", f"pkg/{LONE}.py", f"{LONE}/__init__.py", f"{LONE}.so", f"a\n{LONE}.py"])
@pytest.mark.parametrize("kind", ["file", "symlink"])
def test_a_name_that_is_no_text_is_a_name(own: Ownership, name: str, kind: ChangeKind) -> None:
    assert decided(own, Change(name, kind, b"x = 1\n")) == {}


def deep(size: int) -> bytes:
    return b"import test_scratch\nopen(" + b"+".join([b"'a'"] * size) + b")\n"


NO_PYTHON = {"null": b"\0", "minus": b"-" * 200_000 + b"1", "brackets": b"(" * 200 + b")" * 200, "open": b"'''"}


@pytest.mark.parametrize("size", [10, 400, 1_500, 5_000])
def test_a_deep_expression_is_read(own: Ownership, size: int) -> None:
    scratch = Change("test_scratch.py", "file", b"def test_x(): pass\n")
    assert decided(own, Change("pkg/table.py", "file", deep(size)), scratch).keys() <= {"test_scratch.py"}
    assert PythonWords.of(deep(size)).imports or size > 1_500, "as deep as the parser itself allows"


@pytest.mark.parametrize("kind", NO_PYTHON)
def test_what_is_no_python_says_nothing(own: Ownership, kind: str) -> None:
    text = b"# test_scratch\n" + NO_PYTHON[kind]
    changed = Change("pkg/table.py", "file", text), Change("setup.py", "file", text)
    assert decided(own, *changed, Change("test_scratch.py", "file")).keys() == {"setup.py", "test_scratch.py"}


VALUES = ["3", "None", "'x'", "[3]", "[0x" + "f" * 6_000 + "]", "0x" + "f" * 6_000, "{1: [2]}", "(" * 90 + ")" * 90]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("key", ["packages", "package_data", "ext_modules", "name"])
def test_an_argument_of_setup_can_be_anything(own: Ownership, key: str, value: str) -> None:
    others = "" if key == "packages" else ", packages=['pkg']"
    text = f"from setuptools import setup\nsetup({key}={value}{others})\n"
    assert decided(own, Change("setup.py", "file", text.encode())).keys() == {"setup.py"}


def test_a_json_text_can_have_half_a_character_in_it(own: Ownership) -> None:
    text = json.dumps({"version": "\ud800", "scripts": {"test": "true"}})
    assert decided(own, Change("package.json", "file", text.encode())).keys() == {"package.json"}


PARTS = st.one_of(
    st.sampled_from(
        ["pkg", "tests", "src", "lib", "setup", "test_a", "test_", "wanted", "nt", "json", "[a", "-p", " "]
    ),
    st.text(max_size=4),
    st.binary(max_size=4).map(os.fsdecode),
).map(lambda part: part.replace("/", "").replace("\0", "") or "x")
SUFFIXES = st.sampled_from(["", ".py", ".so", ".pyc", ".txt", ".pth", ".py.py", ".js", "/__init__.py", "/conftest.py"])
NAMED = st.sampled_from(["setup.py", "setup.cfg", "pyproject.toml", "package.json", "tox.ini", "Cargo.toml", "go.mod"])
PATHS = st.one_of(
    NAMED,
    st.builds(lambda parts, suffix: "/".join(parts) + suffix, st.lists(PARTS, min_size=1, max_size=4), SUFFIXES),
).filter(lambda path: {".", ".."}.isdisjoint(path.split("/")))
WORDS = st.sampled_from([
    b"import ", b"from ", b".", b"test_a", b"wanted", b"(", b")", b"[", b"]", b"{", b"}", b"=", b"\n", b" ", b"'", b'"',
    b"setup(", b"packages=", b"[tool.pytest]", b"[a]\n", b"\xff", b"\0", b"\\ud800", b"9" * 5_000, b"0x" + b"f" * 5_000,
    b"[" * 3_000, b"{a=" * 500, b"-" * 9_000, b"$(" * 100, b"1e400", b'{"version":', b"open(", b"import_module('",
])  # fmt: skip
SAID = st.lists(WORDS, max_size=12).map(b"".join)
CONTENTS = st.one_of(st.binary(max_size=40), SAID, st.integers(1, 4_000).map(deep))
CHANGES = st.builds(Change, PATHS, st.sampled_from(["file", "file", "symlink", "deleted"]), CONTENTS, st.booleans())


@settings(max_examples=150, deadline=None)
@given(st.lists(CHANGES, max_size=6, unique_by=lambda change: change.path))
def test_any_change_is_decided(own: Ownership, changes: list[Change]) -> None:
    decided(own, *changes)
