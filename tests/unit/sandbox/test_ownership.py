"""What a patch may not change, and that everything else it may."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.errors import TaskError
from lego_rl.sandbox.ownership.known.deciding_files import CONFIGURATION, ENVIRONMENT, MERGED
from lego_rl.sandbox.ownership.rules import Ownership
from lego_rl.sandbox.verdict import Change, ChangeKind, Patch
from lego_rl.tasks.task import Task, TestScript, TestSpec

TESTS = frozenset({
    "tests/test_a.py", "pkg/tests/test_b.py", "hidden/test_c.py", "core/test_d.py", "test_old/test_e.py",
})  # fmt: skip
PRISTINE = {
    "tests/test_a.py": "import pkg\n", "tests/helper.py": "", "tests/data/golden.json": "{}", "tests/conftest.py": "",
    "conftest.py": "pytest_plugins = ['pkg.fixtures']\n", "pkg/__init__.py": "", "pkg/core.py": "",
    "pkg/fixtures.py": "", "pkg/tests/__init__.py": "", "pkg/tests/test_b.py": "",
    "setup.cfg": "[tool:pytest]\naddopts = -p pkg.report\npythonpath = lib\n\n[metadata]\nlicense = MIT\n",
    "pkg/report.py": "", "lib/__init__.py": "", "types.py": "", "docs/guide.md": "", "core.py": "", "test_old.py": "",
    "profile/data.txt": "", "ci/run.sh": "", "tools/suite.py": "", "Makefile": "", "bin/tool": "", "testing.py": "",
}  # fmt: skip
COMMAND = "PATH=$PWD/bin:$PATH make prepare && ci/run.sh && python tools/suite.py && python -m pytest tests"


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


def task_with(tests: TestSpec | TestScript, *editable: str) -> Task:
    return Task("t", Path("/nowhere"), "", "", "/app", tests, 1.0, 1, editable=editable)


SPEC = TestSpec(tuple(f"{name}::TestIt::test_it" for name in sorted(TESTS)), (), COMMAND, "pytest-junit", ())


@pytest.fixture(scope="session")
def ownership(tmp_path_factory: pytest.TempPathFactory) -> Ownership:
    root = tmp_path_factory.mktemp("pristine")
    write(root, PRISTINE)
    (root / "tests" / "link").symlink_to("../docs")
    return Ownership.of(task_with(SPEC), root, {})


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("tests/test_a.py", "file"),
        ("tests/test_a.py", "deleted"),
        ("tests/test_a.py/x", "file"),
        ("hidden/test_c.py", "symlink"),
        ("setup.cfg/x", "file"),
        ("pkg/conftest.py", "file"),
        ("tests/conftest.py", "deleted"),
        ("deep/er/pytest.ini", "symlink"),
        ("tests", "symlink"),
        ("pkg", "file"),
        ("hidden", "symlink"),
        ("pytest.py", "file"),
        ("_pytest/__init__.py", "file"),
        ("json.py", "file"),
        ("xml/__init__.py", "file"),
        ("nt/_path_normpath.py", "file"),
        ("tests/_winapi/WAIT_OBJECT_0.py", "file"),
        ("msvcrt/deep/er/data.txt", "file"),
        ("tests/readline/x", "file"),
        ("profile/__init__.py", "file"),
        ("profile/__init__.pyc", "file"),
        ("pluggy.cpython-312-x86_64-linux-gnu.so", "file"),
        ("packaging", "symlink"),
        ("tests/json.py", "file"),
        ("hidden/random.py", "file"),
        ("lib", "symlink"),
        ("pkg/fixtures/__init__.py", "file"),
        ("pkg/report.abi3.so", "file"),
        ("conftest/__init__.py", "symlink"),
        ("tools/os.py", "file"),
        ("tests/conftest/__init__.py", "file"),
        ("tests/test_a/__init__.py", "file"),
        ("pkg/tests/test_b.abi3.so", "file"),
        ("hidden/test_c", "symlink"),
        ("tests/__init__.py", "file"),
        ("pkg/tests/__init__.py", "deleted"),
        ("pkg/__init__.py", "deleted"),
        ("__init__.py", "file"),
        ("usercustomize.py", "file"),
        ("tests.test_a.py", "file"),
        ("tests.test_a.TestIt.py", "symlink"),
        ("tests.py", "file"),
        ("pkg/tests.test_b.py", "file"),
        ("pkg.tests/test_b.py", "file"),
        ("pkg/tests.py", "file"),
        ("hidden/test_c.TestIt.py", "file"),
        ("test_old.py", "file"),
        ("tests/helper.py", "file"),
        ("tests/helper.py", "deleted"),
        ("tests/data/golden.json", "file"),
        ("tests/helper/__init__.py", "file"),
        ("tests/helper.py/in_its_place", "file"),
        ("tests/data", "symlink"),
        ("tests/data", "file"),
        ("tests/link", "symlink"),
        ("tests/link", "deleted"),
        ("tests/link/guide.md", "file"),
        ("docs/guide.md", "file"),
        ("docs", "symlink"),
        ("tests/helper.cpython-312-x86_64-linux-gnu.so", "file"),
        ("tests/test_mine.py", "file"),
        ("pkg/tests/deep/mine_test.py", "file"),
        ("pkg/tests/__init__.py", "file"),
        ("tests/pyproject.toml", "file"),
        ("pkg/tests/setup.py", "file"),
        ("lib/json.py", "file"),
        ("pkg/fixtures.py", "file"),
        ("pkg/report.py", "deleted"),
        ("ci/run.sh", "file"),
        ("tools/suite.py", "file"),
        ("Makefile", "file"),
        (".env", "file"),
        ("pkg/.envrc", "symlink"),
        (".coveragerc", "file"),
        ("noxfile.py", "file"),
        ("bin/make", "file"),
        ("bin/python", "symlink"),
        ("anywhere/sh", "symlink"),
        ("env/bin/python3.12", "symlink"),
    ],
)
def test_owned(ownership: Ownership, path: str, kind: ChangeKind) -> None:
    assert ownership.owns(Change(path, kind))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("pkg/core.py", "file"),
        ("pkg/__init__.py", "file"),
        ("pkg/types.py", "file"),
        ("pkg/json/__init__.py", "file"),
        ("new/types.py", "file"),
        ("docs/os.py", "file"),
        ("xml/etree/ElementTree.py", "file"),
        ("email/reset.html", "file"),
        ("packaging/rpm/pkg.spec", "file"),
        ("docs/nt/x.py", "file"),
        ("pkg/nt/x.py", "file"),
        ("code", "file"),
        ("types/__init__.py", "file"),
        ("json.test.py", "file"),
        ("tests/json/new.json", "file"),
        ("src/token.py", "file"),
        ("model.pth", "file"),
        ("new/__init__.py", "file"),
        ("types.py", "file"),
        ("tests/mine.py", "file"),
        ("tests/data/new.json", "file"),
        ("more/test_mine.py", "file"),
        ("pkg/guide.md", "deleted"),
        ("notes/guide.md", "symlink"),
        ("core.py", "file"),
        ("tests.test_a.py", "deleted"),
        ("tests.test_b.py", "file"),
        ("test.py", "file"),
        ("pkg/test_b.py", "file"),
        ("data/blob.bin", "file"),
        ("json.md", "file"),
        ("MANIFEST.in", "file"),
        ("setup.py", "file"),
        ("pyproject.toml", "file"),
        ("pkg/pyproject.toml.in", "file"),
        ("tools/other.py", "file"),
        ("ci/other.sh", "file"),
        ("bin/tool", "file"),
        ("bin/helper", "file"),
        ("completions/bash", "file"),
        ("env/settings.py", "file"),
        ("testing.py", "file"),
        (".env.example", "file"),
    ],
)
def test_free(ownership: Ownership, path: str, kind: ChangeKind) -> None:
    assert not ownership.owns(Change(path, kind))


PATHS = [*PRISTINE, *TESTS, *CONFIGURATION, *ENVIRONMENT, *MERGED, "pkg/new.py", "json.py", "x/y", "tests/new.py"]


@given(st.lists(st.sampled_from(PATHS), unique=True), st.sampled_from(["file", "symlink", "deleted"]))
def test_a_patch_loses_what_is_owned_and_nothing_else(ownership: Ownership, paths: list[str], kind: ChangeKind) -> None:
    patch = Patch(tuple(Change(path, kind, b"" if kind == "deleted" else b"[x]\ny = 1\n") for path in sorted(paths)))
    split = ownership.split(patch)
    kept = {change.path: change for change in split.applied}
    assert kept.keys() | split.rolled_back.keys() == set(paths)
    assert all(split.rolled_back.values()), "there is a reason for each"
    for change in patch.changes:
        if Path(change.path).name not in MERGED:
            assert (change.path in split.rolled_back) == (ownership.owns(change) is not None)
            assert kept.get(change.path, change) is change, "what is not a configuration is applied as it is"
            assert (change.path in kept) != (change.path in split.rolled_back)


@given(st.sampled_from(PATHS))
def test_what_the_task_leaves_to_the_agent_is_the_agents(ownership: Ownership, path: str) -> None:
    change = Change(path, "file", b"anything")
    own = Ownership.of(task_with(SPEC, path), ownership.pristine, {})
    assert own.split(Patch((change,))).applied == (change,)
    folder = Ownership.of(task_with(SPEC, path.partition("/")[0]), ownership.pristine, {})
    assert folder.split(Patch((change,))).rolled_back == {}


def test_a_script_task_keeps_configuration_and_runner_but_no_tests(ownership: Ownership) -> None:
    own = Ownership.of(task_with(TestScript()), ownership.pristine, {})
    assert own.owns(Change("conftest.py", "file"))
    assert own.owns(Change("pytest.py", "file"))
    assert not own.owns(Change("tests/test_a.py", "file"))
    assert not own.owns(Change("Makefile", "file"))


def test_a_test_file_cannot_be_left_to_the_agent(tmp_path: Path) -> None:
    write(tmp_path, {
        "task.toml": '[metadata]\neditable = ["tests"]\n', "instruction.md": "", "environment/repo/x": "",
        "tests/files/tests/test_a.py": "",
        "tests/spec.json": '{"FAIL_TO_PASS": ["tests/test_a.py::t"], "PASS_TO_PASS": [], "command": "pytest",'
        ' "parser": "pytest-junit", "test_files": ["tests/test_a.py"]}',
    })  # fmt: skip
    with pytest.raises(TaskError, match=r"leaves its test file tests/test_a\.py to the agent"):
        Task.load(tmp_path)
