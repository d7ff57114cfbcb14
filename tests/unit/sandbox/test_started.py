"""A program or module that a run starts is the task's, there or not; what the tests start or ask for is the agent's."""

from pathlib import Path

import pytest
from owned import PYTEST, owner

from lego_rl.sandbox.ownership.run.started import started
from lego_rl.sandbox.verdict import Change

LACKING: dict[str, tuple[str, str, dict[str, str]]] = {
    "a program": (f"./prepare.sh; {PYTEST}", "prepare.sh", {}),
    "an optional one": (f"[ -x ci/pre ] && ci/pre; {PYTEST}", "ci/pre", {}),
    "after if": (f"if [ -x ci/pre ]; then ci/pre; fi; {PYTEST}", "ci/pre", {}),
    "in a folder": (f"cd ci && ./pre; {PYTEST}", "ci/pre", {"ci/x": ""}),
    "by its whole path": (f"/app/ci/pre; {PYTEST}", "ci/pre", {}),
    "in a text": (f"bash -c 'test -x ci/pre && ci/pre'; {PYTEST}", "ci/pre", {}),
    "of a shell with options": (f"bash -e pre; {PYTEST}", "pre", {}),
    "passed on": (f"A=1 timeout -k 5 60 env -u X ./pre; {PYTEST}", "pre", {}),
    "of find": (f"find . -name x -exec ci/pre {{}} ';'; {PYTEST}", "ci/pre", {}),
    "of Python": (f"[ -f tools/gen.py ] && python -u tools/gen.py; {PYTEST}", "tools/gen.py", {}),
    "of Python by a launcher": (f"uv run python tools/gen.py; {PYTEST}", "tools/gen.py", {}),
    "measured": (f"python -m coverage run tools/gen.py; {PYTEST}", "tools/gen.py", {}),
    "a folder that Python runs": (f"python tools; {PYTEST}", "tools/__main__.py", {"tools/x": ""}),
    "a module": (f"python -m tools.gen || true; {PYTEST}", "tools/gen.py", {}),
    "a package": (f"python -m tools.gen || true; {PYTEST}", "tools/gen/__init__.py", {}),
    "a package around": (f"python -m tools.gen || true; {PYTEST}", "tools/__init__.py", {}),
    "of Node": (f"test ! -f scripts/pre.js || node scripts/pre.js; {PYTEST}", "scripts/pre.js", {}),
    "of Node without a suffix": (f"node scripts/pre; {PYTEST}", "scripts/pre.js", {}),
    "loaded by Node": (f"node --require ./scripts/pre.js x.js; {PYTEST}", "scripts/pre.js", {"x.js": ""}),
    "of Perl": (f"perl -w dev/pre.pl; {PYTEST}", "dev/pre.pl", {}),
    "of a script": ("sh run.sh", "script/boot", {"run.sh": f"if [ -x script/boot ]; then script/boot; fi\n{PYTEST}\n"}),
    "of a variable": (f"P=ci/pre; $P; {PYTEST}", "ci/pre", {}),
    "of a rule": ("make test", "dev/pre", {"Makefile": f"test:\n\tif [ -x dev/pre ]; then dev/pre; fi\n\t{PYTEST}\n"}),
    "of a variable of make": (
        "make test", "dev/pre.sh",
        {"Makefile": f"PRE = $(wildcard dev/pre.sh)\ntest:\n\t$(if $(PRE),sh $(PRE))\n\t{PYTEST}\n"},
    ),
    "of npm": ("npm test", "dev/pre.js", {"package.json": '{"scripts": {"pretest": "node dev/pre.js", "test": "x"}}'}),
    "of a program of Python": (
        "python run_all.py", "tools/pre.py",
        {"run_all.py": "import subprocess, sys\nsubprocess.run([sys.executable, 'tools/pre.py'])\n"},
    ),
    "a path that Python runs": ("python a.py", "t/pre.py", {"a.py": "import runpy\nrunpy.run_path('t/pre.py')\n"}),
    "an optional module": (
        "python run_all.py", "local_hooks.py",
        {"run_all.py": "try:\n    import local_hooks\nexcept ImportError:\n    pass\nimport pytest\npytest.main()\n"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LACKING)
def test_what_a_run_starts_is_the_tasks(tmp_path: Path, case: str) -> None:
    command, path, files = LACKING[case]
    own = owner(tmp_path, files, command=command)
    assert own.owns(Change(path, "file", executable=True))
    assert own.owns(Change("app/new.py", "file")) is None


def test_a_link_in_place_of_the_folder_of_what_a_run_starts_is_the_tasks(tmp_path: Path) -> None:
    own = owner(tmp_path, command=f"[ -x script/boot ] && script/boot; {PYTEST}")
    assert own.owns(Change("script", "symlink", b"app"))
    assert own.owns(Change("scripts", "symlink", b"app")) is None


CLI = "import subprocess\n\n\ndef test_it():\n    subprocess.run(['bin/triple', '2'])\n"
FREE: dict[str, tuple[str, str, dict[str, str], dict[str, str]]] = {
    "what a test starts": (PYTEST, "bin/triple", {}, {"tests/test_a.py": CLI}),
    "what a conftest starts": (PYTEST, "bin/triple", {"tests/conftest.py": CLI}, {}),
    "what a helper of a conftest starts": (
        PYTEST, "bin/triple", {"tests/conftest.py": "from tests import tools\n", "tests/tools.py": CLI}, {}
    ),
    "a module that a test asks for": (
        f"python -m triples; {PYTEST}", "triples.py", {}, {"tests/test_a.py": "import triples\n"}
    ),
    "a module that a test starts": (
        f"python -m triples; {PYTEST}", "triples.py", {},
        {"tests/test_a.py": "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'triples'])\n"},
    ),
    "a module of what is tested": (
        f"python -m app.more; {PYTEST}", "app/more.py", {}, {"tests/test_a.py": "import app\n"}
    ),
    "an argument": (f"python app/__init__.py out/a.json; {PYTEST}", "out/a.json", {}, {}),
    "what is compared": (f"cmp out/a.json out/b.json; {PYTEST}", "out/a.json", {}, {}),
    "what is looked for": (f"[ -f out/a.json ] && {PYTEST}", "out/a.json", {}, {}),
    "what is written": ("python run_all.py", "out/a.json", {"run_all.py": "open('out/a.json', 'w')\n"}, {}),
    "a module that has to be there": ("python run_all.py", "wanted.py", {"run_all.py": "import wanted\n"}, {}),
    "an argument of pytest": ("python -m pytest tests out/a.py", "out/a.py", {}, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", FREE)
def test_what_is_only_named_or_tested_is_the_agents(tmp_path: Path, case: str) -> None:
    command, path, files, hidden = FREE[case]
    own = owner(tmp_path, files, command=command, hidden=hidden or None)
    assert own.owns(Change(path, "file", executable=True)) is None


@pytest.mark.parametrize(
    ("path", "is_own"), [("ci/pre", True), ("main.py", False), ("verify.sh", False)], ids=["hook", "main", "asked-for"]
)
def test_of_a_tasks_script_only_the_repositorys_own_scripts_can_have_hooks(
    tmp_path: Path, path: str, is_own: bool
) -> None:
    files = {"run_tests.sh": "[ -x ci/pre ] && ci/pre\npython main.py\npython -m pytest tests/test_a.py\n"}
    own = owner(tmp_path, files, script="cd /app && bash run_tests.sh && bash verify.sh && ./ci/check.sh")
    assert (own.owns(Change(path, "file", executable=True)) is not None) is is_own


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("./x a/b", {0}),
        ("A=1 exec ./x", {2}),
        ("python -W ignore -u x.py y.py", {4}),
        ("python -Ec text a/b", set()),
        ("python -m pytest a/b.py", set()),
        ("node -e text a/b", set()),
        ("bash -o pipefail x", {3}),
        ("perl -E text", set()),
        ("timeout 60 mytool a/b", set()),
        ("coverage run --branch x.py a/b", {3}),
        ("cat a/b", set()),
        ("", set()),
        ("find . -exec python a/b ;", {4}),
    ],
)
def test_programs_among_words(command: str, found: set[int]) -> None:
    assert started(tuple(command.split())) == found
