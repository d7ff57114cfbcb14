"""What a run reads as Python, or takes words and commands from, and what of a script's data is the task's own."""

from pathlib import Path

import pytest
from owned import owner

from lego_rl.sandbox.ownership.run.python_in_shell import python_texts
from lego_rl.sandbox.verdict import Change

MAIN = "def main(): pass\n"
RUN = "from dev.suite import main\nmain()\n"
KEPT = {
    "an interpreter in the first line": ("bin/go", "bin/helper.py", {
        "bin/go": "#!/usr/bin/env python3\nfrom helper import main\n", "bin/helper.py": MAIN}),
    "a program that is Python": ("python dev/go", "dev/helper.py", {
        "dev/go": "from helper import main\n", "dev/helper.py": MAIN}),
    "one that Python runs": ("python dev/go.py", "two/opts.py", {
        "dev/go.py": "import runpy\nrunpy.run_path('dev/inner')\n", "dev/inner": "from two import opts\n",
        "two/opts.py": MAIN}),
    "a text": ('python -c "from dev.suite import main; main()"', "dev/suite.py", {"dev/suite.py": MAIN}),
    "a text of more lines": ("python -u -c '\nimport dev.suite\ndev.suite.main()\n'", "dev/suite.py", {
        "dev/suite.py": MAIN}),
    "a text with options before": ("python -Bc 'import dev.suite'", "dev/suite.py", {"dev/suite.py": MAIN}),
    "a text in a variable": ('CODE="import dev.suite"\n"$PY" -c "$CODE"', "dev/suite.py", {"dev/suite.py": MAIN}),
    "a text in a text": ("bash -c 'python -c \"import dev.suite\"'", "dev/suite.py", {"dev/suite.py": MAIN}),
    "a text that is piped": ("echo 'import dev.suite' | python -", "dev/suite.py", {"dev/suite.py": MAIN}),
    "a recipe": ("make test", "dev/suite.py", {
        "Makefile": 'test:\n\t$(PYTHON) -c "import dev.suite"\n', "dev/suite.py": MAIN}),
    "a document": (f"python - <<'EOF'\n{RUN}EOF\n", "dev/suite.py", {"dev/suite.py": MAIN}),
    "an indented document": ("python3 <<-X\n\timport dev.suite\n\tX\n", "dev/suite.py", {"dev/suite.py": MAIN}),
    "what a text starts": ("python -c \"import os; os.system('sh dev/x.sh')\"", "dev/x.sh", {"dev/x.sh": ""}),
    "a module by its name": ("python dev/go.py", "two/suite.py", {
        "dev/go.py": "import importlib\nimportlib.import_module('two.suite').main()\n", "two/suite.py": MAIN}),
    "a relative one": ("python dev/go.py", "two/suite.py", {
        "dev/go.py": "from importlib import *\nimport_module('.suite', 'two')\n", "two/suite.py": MAIN}),
    "a loop": ('for f in ci/*; do sh "$f"; done', "ci/10-run", {"ci/10-run": ""}),
    "a new file of a loop": ('for f in ci/*; do sh "$f"; done', "ci/05-run", {"ci/10-run": ""}),
    "a loop that starts": ('for f in ci/*; do "$f"; done', "ci/10-run", {"ci/10-run": ""}),
    "a loop of Python": ("for f in ci/*; do python $f; done", "ci/10-run", {"ci/10-run": ""}),
    "a loop in a recipe": ("make test", "ci/10-run", {
        "Makefile": 'test:\n\tfor f in ci/*; do sh "$$f"; done\n', "ci/10-run": ""}),
    "a loop of names": ("for f in one two; do sh ci/$f.txt; done", "ci/two.txt", {"ci/two.txt": ""}),
    "arguments of xargs": ("xargs -a ci/tests.txt python -m pytest", "ci/tests.txt", {"ci/tests.txt": ""}),
    "xargs and a redirection": ("xargs python -m pytest < ci/tests.txt", "ci/tests.txt", {"ci/tests.txt": ""}),
    "a redirection first": ("< ci/tests.txt xargs pytest", "ci/tests.txt", {"ci/tests.txt": ""}),
    "a loop that reads": ("while read f; do pytest $f; done < ci/tests.txt", "ci/tests.txt", {"ci/tests.txt": ""}),
    "a shell that reads": ("bash -s < ci/go.txt", "ci/go.txt", {"ci/go.txt": ""}),
    "what cat prints": ("pytest $(cat ci/tests.txt)", "ci/tests.txt", {"ci/tests.txt": ""}),
    "what a shell prints": ("pytest $(<ci/tests.txt)", "ci/tests.txt", {"ci/tests.txt": ""}),
    "what grep leaves": ("grep -v '#' ci/tests.txt | xargs pytest", "ci/tests.txt", {"ci/tests.txt": ""}),
    "arguments of pytest": ("python -m pytest @ci/x.args tests", "ci/x.args", {"ci/x.args": "-q\n"}),
    "arguments of pytest's options": ("pytest tests", "ci/x.args", {
        "pytest.ini": "[pytest]\naddopts = @ci/x.args\n", "ci/x.args": "-q\n"}),
    "what arguments name": ("pytest @ci/x.args", "plug.py", {"ci/x.args": "-p\nplug\n", "plug.py": ""}),
    "what is compared with": ("./prog | diff - expected/out.txt", "expected/out.txt", {"expected/out.txt": ""}),
    "cases": ("for t in cases/*.in; do ./prog < $t | cmp - ${t%.in}.out; done", "cases/a.out", {
        "cases/a.in": "", "cases/a.out": ""}),
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT)
def test_what_a_run_reads_is_the_tasks(tmp_path: Path, case: str) -> None:
    command, path, files = KEPT[case]
    own = owner(tmp_path, files, command=command)
    assert own.owns(Change(path, "file"))
    assert own.owns(Change("app/__init__.py", "file")) is None


FREE = {
    "a package that tests import": ('python -c "import app; app.check()" && pytest', "app/__init__.py", {}),
    "one that tests import from within": ("bin/go", "app/core.py", {
        "bin/go": "#!/usr/bin/env python\nimport app.core\n", "app/core.py": "",
        "app/tests/__init__.py": "", "app/tests/test_b.py": "from ..core import f\n"}),
    "sources of a loop": ("for f in src/*.c; do cc -c $f; done; ./prog", "src/a.c", {"src/a.c": ""}),
    "all files of a loop": ('for f in *; do sh "$f"; done', "notes", {"notes": ""}),
    "data of the package": ("cat app/VERSION.txt; pytest", "app/VERSION.txt", {"app/VERSION.txt": ""}),
    "what a program reads": ("./prog < data/in.json; pytest", "data/in.json", {"data/in.json": ""}),
    "what a search reads": ("grep -q x src/main.c; pytest", "src/main.c", {"src/main.c": ""}),
    "what is only shown": ("cat README.md; pytest", "start.sh", {"README.md": "    bash start.sh\n", "start.sh": ""}),
    "code with such a name": ("node use_cases/pay.js; pytest", "use_cases/pay.js", {"use_cases/pay.js": ""}),
    "data of the package by such a name": ("pytest app/cases/*.json", "app/cases/a.json", {"app/cases/a.json": ""}),
    "what nothing is expected to be": ("diff expected/out.txt expected/new.txt", "expected/new.txt", {}),
}  # fmt: skip


@pytest.mark.parametrize("case", FREE)
def test_what_is_tested_or_only_named_is_the_agents(tmp_path: Path, case: str) -> None:
    command, path, files = FREE[case]
    hidden = {"tests/test_a.py": "import app\n"}
    if "app/tests/test_b.py" in files:
        hidden = {"app/tests/test_b.py": files["app/tests/test_b.py"]}
    assert owner(tmp_path, files, hidden=hidden, command=command).owns(Change(path, "file")) is None


SCRIPTS = {
    "asked for": ("bash /app/verify.sh 2 3", "verify.sh", {}),
    "asked for in a folder": ("cd /app/ci && ./check.sh && sh run.sh", "ci/run.sh", {}),
    "data of the answer": ("diff /app/out.txt /tests/expected.txt", "out.txt", {"out.txt": ""}),
    "a module that is tested": ("python3 -c 'from solve import f; assert f(2) == 4'", "solve.py", {"solve.py": ""}),
    "what a script of the repository tests": (
        "cd /app && python3 run_tests.py",
        "main.py",
        {"run_tests.py": "import main\nassert main.f() == 3\n", "main.py": ""},
    ),
    "a package that it tests": (
        "cd /app && python3 ci/run.py",
        "calc/__init__.py",
        {"ci/run.py": "from calc import add\n", "calc/__init__.py": ""},
    ),
    "a module in a document": ("python3 <<'E'\nimport solve\nE\n", "solve.py", {"solve.py": ""}),
}


@pytest.mark.parametrize("case", SCRIPTS)
def test_what_a_script_asks_for_is_the_agents(tmp_path: Path, case: str) -> None:
    script, path, files = SCRIPTS[case]
    assert owner(tmp_path, files, script=script).owns(Change(path, "file")) is None


SCRIPTS_KEEP = {
    "what it compares with": ("diff /app/expected/out.txt <(python3 /app/main.py)", "expected/out.txt"),
    "a part of itself that is lacking": ("[ -f /app/ci/local ] && . /app/ci/local", "ci/local"),
    "a suite by its name": ("python3 -c 'from dev.runtests import main; main()'", "dev/runtests.py"),
    "tests of a folder": ("cd /app && python3 -m pytest qa", "qa/test_sum.py"),
    "a module beside its script": ("python3 /app/ci/run.py", "ci/more.py"),
    "a package of such a name": ("python3 /app/ci/run.py", "test_kit/__init__.py"),
    "a module of a package of tests": ("python3 -m qa.check", "qa/check.py"),
    "a script of its own": ("bash /app/run_tests.sh", "run_tests.sh"),
}


@pytest.mark.parametrize("case", SCRIPTS_KEEP)
def test_what_a_script_has_of_tests_is_the_tasks(tmp_path: Path, case: str) -> None:
    script, path = SCRIPTS_KEEP[case]
    files = {
        "expected/out.txt": "5",
        "dev/runtests.py": MAIN,
        "qa/test_sum.py": "",
        "run_tests.sh": "",
        "qa/check.py": "",
        "ci/run.py": "import more\nfrom test_kit import x\n",
        "ci/more.py": "",
        "test_kit/__init__.py": "",
    }
    assert owner(tmp_path, files, script=script).owns(Change(path, "file"))


def test_a_link_over_a_folder_of_tests_is_not_applied(tmp_path: Path) -> None:
    own = owner(tmp_path, {"qa/test_sum.py": ""}, script="cd /app && python3 -m pytest qa")
    assert own.owns(Change("qa", "symlink", b"evil"))


@pytest.mark.parametrize(("puts", "is_own"), [("sys.path.insert(0, '/app')", True), ("sys.path.append('/app')", False)])
def test_modules_beside_a_script_are_not_given_by_the_work_tree(tmp_path: Path, puts: str, is_own: bool) -> None:
    script = {"run.py": f"import sys\n{puts}\nimport lib\nimport common\n", "common.py": ""}
    for name, text in script.items():
        (tmp_path / "task" / "tests").mkdir(parents=True, exist_ok=True)
        (tmp_path / "task" / "tests" / name).write_text(text)
    own = owner(tmp_path, {"lib.py": ""}, script="python3 /tests/run.py")
    assert (own.owns(Change("common.py", "file")) is not None) is is_own
    assert own.owns(Change("lib.py", "file")) is None


def test_texts_are_found_in_texts_up_to_a_depth() -> None:
    assert list(python_texts('python -c "import a" && echo "b \\"c\\""')) == [b"import a", b'b "c"']
    assert len(list(python_texts("cat << E\n" * 20_000))) == 0
    assert list(python_texts("cat <<E > x\nimport a\nE\n")) == [b"import a"]
    assert len(list(python_texts('-c "' * 2_000))) < 100
