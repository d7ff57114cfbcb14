"""Of a configuration file that was changed, the task's sections stay and the rest is the agent's, for every reader."""

import configparser
import tomllib

import iniconfig
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.sandbox.ownership.merge.configuration import MAX_BYTES, merge, pytest_options
from lego_rl.sandbox.ownership.split import Reason
from lego_rl.sandbox.verdict import Change

INI = b"[tool:pytest]\naddopts = -q\n  -x\n\n[metadata]\nname = calc\nlicense = MIT\n\n[coverage:run]\nbranch = true\n"
TOML = b'[project]\nname = "calc"\nversion = "1"\n\n[tool.pytest.ini_options]\naddopts = "-q"\n'

type Sections = dict[str, dict[str, str]]


def merged(name: str, content: bytes, pristine: bytes | None) -> bytes | None:
    """What the grading sandbox has in the file; ``None`` for nothing."""
    kept, _ = merge(Change(name, "file", content), pristine)
    return pristine if kept is None else kept.content


def standard(content: bytes) -> Sections:
    parser = configparser.RawConfigParser(default_section="none")
    parser.read_string(content.decode())
    return {name: dict(parser.items(name)) for name in parser.sections()}


def test_an_honest_edit_is_applied_as_it_is() -> None:
    change = Change("setup.cfg", "file", INI.replace(b"MIT", b"BSD") + b"[flake8]\nmax = 1\n", executable=True)
    assert merge(change, INI) == (change, None)
    change = Change("pyproject.toml", "file", TOML.replace(b'"1"', b'"2"') + b"[tool.ruff]\nline-length = 1\n")
    assert merge(change, TOML) == (change, None)


def test_of_a_mixed_edit_the_honest_part_is_applied() -> None:
    content = b"[tool:pytest]\naddopts = --collect-only\n[metadata]\nname = calc\nlicense = BSD\n[tox]\nx = 1\n"
    kept, reason = merge(Change("a/setup.cfg", "file", content), INI)
    assert kept is not None and reason is not None
    assert kept.path == "a/setup.cfg"
    assert standard(kept.content) == standard(INI.replace(b"MIT", b"BSD"))
    assert "the rest of it is applied" in reason
    content = (
        b'[project]\nname = "calc"\nversion = "2"\n[project.entry-points.pytest11]\nx = "calc.hook"\n'
        b'[tool.pytest]\naddopts = ["-k", "no"]\n[tool.pytest_env]\nA = "1"\n[tool.hatch.build]\nx = 1\n'
    )
    assert tomllib.loads((merged("pyproject.toml", content, TOML) or b"").decode()) == {
        "project": {"name": "calc", "version": "2", "entry-points": {}},
        "tool": {"pytest": {"ini_options": {"addopts": "-q"}}, "hatch": {"build": {"x": 1}}},
    }


def test_a_file_that_was_removed_keeps_what_decides() -> None:
    kept, _ = merge(Change("setup.cfg", "deleted"), INI)
    assert kept is not None
    assert standard(kept.content).keys() == {"tool:pytest", "coverage:run"}
    deleted = Change("pyproject.toml", "deleted")
    assert merge(deleted, b'[project]\nname = "calc"\n') == (deleted, None)


def test_nothing_is_applied_where_only_the_run_was_changed() -> None:
    kept, reason = merge(Change("pyproject.toml", "file", TOML.replace(b"-q", b"-v")), TOML)
    assert kept is None or tomllib.loads(kept.content.decode()) == tomllib.loads(TOML.decode())
    assert reason is not None
    assert merge(Change("tox.ini", "symlink", b"setup.cfg"), None)[0] is None


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"no section = 1\n",
        b"[metadata]\nx = 1\n[metadata]\ny = 2\n",
        b"[tool:pytest\n",
        b"[metadata]\n" + b"#" * MAX_BYTES,
        b"[a]\nx\n",
    ],
)
def test_what_cannot_be_read_is_the_pristine_file(content: bytes) -> None:
    assert merge(Change("setup.cfg", "file", content), INI)[0] is None
    assert merge(Change("pyproject.toml", "file", content), TOML)[0] is None


@pytest.mark.parametrize(
    "content",
    [
        "[metadata]\nname = calc\n[ tool:pytest ]\naddopts = --co\n",
        "[metadata]\nname = calc\n[tool:pytest] # x\naddopts = --co\n",
        "[metadata]\nname = calc\n\n [tool:pytest]\naddopts = --co\n",
        "[metadata]\nname = a\n  b\n[tool:pytest]\naddopts = --co\n",
        "[metadata]\nname = calc\r[tool:pytest]\raddopts = --co\r",
        "[metadata]\nname = calc\x0b[tool:pytest]\x0baddopts = --co\x0b",
        "[metadata]\nname = calc\u2028[tool:pytest]\u2028addopts = --co\u2028",
        "[DEFAULT]\naddopts = --co\n[metadata]\nname = calc\n",
        "\ufeff[tool:pytest]\naddopts = --co\n",
    ],
)
def test_no_writing_of_a_section_slips_past_a_reader(content: str) -> None:
    text = (merged("setup.cfg", content.encode(), INI) or b"").decode()
    assert "--co" not in iniconfig.IniConfig("x", data=text).sections.get("tool:pytest", {}).get("addopts", "")
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    assert "--co" not in parser.get("tool:pytest", "addopts")


NAMES = st.sampled_from(["tool:pytest", "pytest", "metadata", "options", "coverage:run", "testenv", "flake8"])
INI_FILES = st.dictionaries(
    NAMES, st.dictionaries(st.sampled_from(["a", "B", "c.d"]), st.sampled_from(["1", "x y", "[z]"]), min_size=1)
)
OWN = {"tool:pytest", "pytest", "coverage:run", "testenv"}


def written(sections: Sections) -> bytes:
    return "".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in options.items())
        for name, options in sections.items()
    ).encode()


def parsed(content: bytes) -> Sections:
    return {name: dict(items) for name, items in iniconfig.IniConfig("x", data=content.decode()).sections.items()}


@given(INI_FILES, INI_FILES)
def test_own_sections_are_pristine_and_all_others_the_agents(pristine: Sections, changed: Sections) -> None:
    result = parsed(merged("setup.cfg", written(changed), written(pristine)) or b"")
    assert {name: result[name] for name in result if name in OWN} == {n: pristine[n] for n in pristine if n in OWN}
    assert {name: result[name] for name in result if name not in OWN} == {
        n: changed[n] for n in changed if n not in OWN
    }


TABLES = st.dictionaries(
    st.sampled_from(["pytest", "pytest_env", "coverage", "ruff", "setuptools"]),
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers() | st.text(max_size=3) | st.booleans(), min_size=1),
)


@given(TABLES, TABLES)
def test_own_tables_are_pristine_and_all_others_the_agents(
    pristine: dict[str, object], changed: dict[str, object]
) -> None:
    content, before = (tomli_w.dumps({"tool": tables}).encode() for tables in (changed, pristine))
    result = tomllib.loads((merged("pyproject.toml", content, before) or b"").decode()).get("tool", {})
    own = {"pytest", "pytest_env", "coverage"}
    assert {name: result[name] for name in result if name in own} == {n: pristine[n] for n in pristine if n in own}
    assert {n: result[n] for n in result if n not in own} == {n: changed[n] for n in changed if n not in own}


@given(st.binary(max_size=300), st.sampled_from(["setup.cfg", "tox.ini", "pyproject.toml"]))
def test_no_content_raises(content: bytes, name: str) -> None:
    merge(Change(name, "file", content), INI if name != "pyproject.toml" else TOML)
    merge(Change(name, "file", b"[x]\n" + content), None)


def test_a_line_that_takes_long_to_read_is_not_read() -> None:
    dotted = b"[tool.pytest]\nx = 1\n" + b"a" + b".a" * 5_000 + b" = 1\n"
    assert merge(Change("pyproject.toml", "file", dotted), b"") == (None, Reason.UNREADABLE)
    spaces = b"[x]\na" + b" " * 5_000 + b"= 1\n"
    assert merge(Change("setup.cfg", "file", spaces), b"") == (None, Reason.UNREADABLE)


def test_a_number_that_is_too_long_is_not_read() -> None:
    assert merge(Change("pyproject.toml", "file", b"x = " + b"9" * 5_000), b"") == (None, Reason.UNREADABLE)


def test_what_the_task_has_is_read_whatever_its_size() -> None:
    long = b"dependencies = [" + b'"calc==1.0",' * 20_000 + b"]\n"
    pristine = b"[project]\n" + long + b"[tool.pytest.ini_options]\npythonpath = 'lib'\n"
    assert pytest_options("pyproject.toml", pristine) == {"pythonpath": "lib"}
    ini = b"[tool:pytest]\npythonpath = lib\naddopts = " + b"-q " * 2_000 + b"\n"
    assert (pytest_options("setup.cfg", ini) or {})["pythonpath"] == "lib"
    kept, _ = merge(Change("pyproject.toml", "file", b"[project]\nname = 'b'\n"), pristine)
    assert kept is not None and b"pythonpath" in kept.content and b"dependencies" not in kept.content


def test_an_honest_line_may_be_long() -> None:
    change = Change("pyproject.toml", "file", b"[project]\ndependencies = [" + b'"calc==1.0",' * 1_000 + b"]\n")
    assert merge(change, TOML)[0] is not None


def test_an_honest_value_may_be_long_too() -> None:
    change = Change("setup.cfg", "file", b"[metadata]\nname = calc\nlong_description = " + b"word " * 1_000 + b"\n")
    assert merge(change, b"[metadata]\nname = b\n") == (change, None)


def test_a_value_of_lines_stays_one() -> None:
    content = b'[tool:pytest]\naddopts = -x\n[options]\ninstall_requires =\n  a ; python_version < "3.9"\n  b # c\n'
    assert standard(merged("setup.cfg", content, INI) or b"")["options"] == {
        "install_requires": '\na ; python_version < "3.9"\nb # c'
    }


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b""])
def test_another_encoding_hides_nothing_and_wrongs_nobody(mark: bytes) -> None:
    changed = mark + b"[metadata]\nauthor = caf\xe9\n"
    assert merge(Change("sub/setup.cfg", "file", changed), b"[metadata]\n") == (
        Change("sub/setup.cfg", "file", changed), None,
    )  # fmt: skip
    content = merged("setup.cfg", mark + b"[tool:pytest]\naddopts = -k \xe9\n[metadata]\nauthor = caf\xe9\n", INI)
    assert content is not None and b"addopts = -q" in content and b"-k" not in content
    assert b"author = caf\xe9" in content and not content.startswith(b"\xef")
