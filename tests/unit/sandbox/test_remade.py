"""What make would make a file of the run from is the task's own, as that file is."""

from pathlib import Path

import pytest
from owned import owner

from lego_rl.sandbox.ownership.own_tests.remade import made_from, programs_from
from lego_rl.sandbox.verdict import Change

FILES = {
    "Makefile": "-include config.mk\ntest: tests/t\n\t./ci/run.sh\n\t$(MAKE) -C sub test\n",
    "sub/Makefile": "test:\n\ttrue\n",
    "ci/run.sh": "true\n",
    "tests/unity.c": "int bad;\n",
    "src/parse.c": "int parse;\n",
}
KEPT = [
    "Makefile.sh", "makefile.sh", "config.mk.sh", "sub/Makefile.sh", "Makefile,v", "RCS/Makefile,v", "RCS/Makefile",
    "s.Makefile", "SCCS/s.Makefile", "Makefile.sh,v", "Makefile.c", "Makefile.o", "Makefile.y", "config.mk.o",
    "ci/run.sh,v", "ci/RCS/run.sh,v", "tests/unity.y", "tests/unity.l", "tests/unity.c,v", "tests/SCCS/s.unity.c",
    "tests/test_a.py.sh",
]  # fmt: skip
FREE = ["src/parse.y", "src/parse.c", "src/parse.sh", "src/core.c", "config.sh", "tests/data.txt", "run.c", "a.c,v"]


@pytest.mark.parametrize("path", KEPT)
def test_what_a_file_of_the_run_is_made_from_is_the_tasks(tmp_path: Path, path: str) -> None:
    assert owner(tmp_path, FILES, command="make test").owns(Change(path, "file"))


@pytest.mark.parametrize("path", FREE)
def test_what_the_product_is_made_from_is_the_agents(tmp_path: Path, path: str) -> None:
    assert owner(tmp_path, FILES, command="make test").owns(Change(path, "file")) is None


def test_where_no_make_is_run_nothing_is_made(tmp_path: Path) -> None:
    assert owner(tmp_path, FILES).owns(Change("tests/unity.y", "file")) is None


def test_a_script_of_the_task_leads_to_make_too(tmp_path: Path) -> None:
    assert owner(tmp_path, FILES, script="cd /app && make check").owns(Change("Makefile.sh", "file"))


def test_a_program_that_was_compiled_is_made_from_the_agents_sources(tmp_path: Path) -> None:
    (tmp_path / "tree" / "bin").mkdir(parents=True)
    (tmp_path / "tree" / "bin" / "run").write_bytes(b"\x7fELF\0\0")
    own = owner(tmp_path, FILES, command="make test && ./bin/run")
    assert own.owns(Change("bin/run.c", "file")) is None
    assert own.owns(Change("bin/run.sh", "file"))


def test_names_are_followed_through_chains() -> None:
    assert {"a", "a.c", "a.c.out"} <= made_from("a.c.sh") | programs_from("a.c.sh")
    assert "x/Makefile" in made_from("x/SCCS/s.Makefile.sh")
    assert programs_from("x/a.cpp") >= {"x/a"}


RULES = "include gen.mk\n{}test:\n\ttrue\n"


@pytest.mark.parametrize("rule", ["gen.mk: ci/more.sh\n\tsh ci/more.sh > $@\n", "Makefile: ci/more.sh\n\tcp $< $@\n"])
def test_rules_that_make_a_makefile_are_rules_of_the_run(tmp_path: Path, rule: str) -> None:
    files = {"Makefile": RULES.format("test: x\n" + rule), "ci/more.sh": "", "x": ""}
    own = owner(tmp_path, files, command="make test")
    assert own.owns(Change("ci/more.sh", "file"))
