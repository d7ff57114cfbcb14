"""``tests/test.patch``: hidden tests that are a change of what the task's image has."""

import hashlib
import json
from pathlib import Path

import pytest
from test_unified_diff import CHANGE, GONE, NEW

from lego_rl.errors import TaskError
from lego_rl.sandbox.grading import task_files
from lego_rl.sandbox.ownership.rules import Ownership
from lego_rl.sandbox.records import Record
from lego_rl.sandbox.seal import hidden_tests
from lego_rl.sandbox.verdict import Change, Patch
from lego_rl.tasks.directory import EnvironmentPart, TaskDirectory, TestsPart
from lego_rl.tasks.hidden_content import hidden_files
from lego_rl.tasks.task import Task, TestSpec
from lego_rl.tasks.test_patch import deciding_files
from lego_rl.tasks.withheld import blob_id

PATCH = (CHANGE + NEW).replace(b"x.py", b"tests/test_x.py").replace(b"t/new.sh", b"tests/test_new.py") + GONE
FILES = ("old.txt", "tests/test_new.py", "tests/test_x.py")
CONTENT = b"#!/bin/sh\necho"


def task(folder: Path, patch: bytes = PATCH, files: tuple[str, ...] = FILES, test: str = "tests/test_x.py::t") -> Path:
    tests = TestsPart((test,), (), "true", "pytest-log", "#!/bin/sh\n", patch=patch, patched=files)
    return TaskDirectory("t-1", "me/t-1", "", "Do.", EnvironmentPart("/testbed"), tests).write(folder)


@pytest.fixture
def pristine(tmp_path: Path) -> Path:
    tree = tmp_path / "pristine"
    (tree / "tests").mkdir(parents=True)
    (tree / "tests" / "test_x.py").write_bytes(b"one\ntwo\nthree\n")
    (tree / "old.txt").write_bytes(b"old\n")
    return tree


def test_grading_writes_the_pristine_files_with_the_patch(tmp_path: Path, pristine: Path) -> None:
    loaded = Task.load(task(tmp_path))
    assert isinstance(loaded.tests, TestSpec)
    assert task_files(loaded, loaded.tests, pristine) == [
        Record("old.txt", "deleted"),
        Record("tests/test_x.py", "file", b"one\nzwei\nthree\n", 0o644),
        Record("tests/test_new.py", "file", CONTENT, 0o755),
    ]


def test_what_the_patch_touches_is_the_tasks_own(tmp_path: Path, pristine: Path) -> None:
    own = Ownership.of(Task.load(task(tmp_path)), pristine, {})
    changes = tuple(Change(path, "file", b"PASS") for path in (*FILES, "src.py"))
    split = own.split(Patch(changes))
    assert [change.path for change in split.applied] == ["src.py"]


def test_new_files_must_not_be_there_while_the_agent_works(tmp_path: Path, pristine: Path) -> None:
    assert hidden_tests(Task.load(task(tmp_path)), pristine) == ("tests/test_new.py",)


@pytest.mark.parametrize("content", [CONTENT, b"one\nzwei\nthree\n"])
def test_what_the_patch_makes_must_not_be_seen_under_another_name(
    tmp_path: Path, pristine: Path, content: bytes
) -> None:
    hidden = hidden_files(Task.load(task(tmp_path, test="a test that no path is in")), pristine)
    assert (len(content), hashlib.sha256(content).hexdigest()) in [(file.size, file.sha256) for file in hidden]
    assert hashlib.sha256((pristine / "tests" / "test_x.py").read_bytes()).hexdigest() not in [
        file.sha256 for file in hidden
    ]


def test_a_history_must_not_hold_a_test_that_the_patch_makes(tmp_path: Path) -> None:
    held = Task.load(task(tmp_path, test="tests/test_new.py::t")).history.withheld
    assert (blob_id(CONTENT), "tests/test.patch") in held


def test_a_patch_for_another_image_is_an_error_of_the_task(tmp_path: Path, pristine: Path) -> None:
    loaded = Task.load(task(tmp_path))
    assert isinstance(loaded.tests, TestSpec)
    (pristine / "tests" / "test_x.py").write_bytes(b"one\n")
    with pytest.raises(TaskError, match=r"cannot be made: test.patch does not fit tests/test_x\.py"):
        task_files(loaded, loaded.tests, pristine)


@pytest.mark.parametrize("link", ["tests", "tests/test_x.py"])
def test_no_link_of_the_image_is_followed(tmp_path: Path, pristine: Path, link: str) -> None:
    loaded = Task.load(task(tmp_path))
    assert isinstance(loaded.tests, TestSpec)
    outside = tmp_path / "outside"
    (pristine / link).rename(outside)
    (pristine / link).symlink_to(outside)
    with pytest.raises(TaskError, match="link"):
        task_files(loaded, loaded.tests, pristine)


def test_a_specification_names_what_the_patch_touches(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"differ on old\.txt"):
        Task.load(task(tmp_path, files=FILES[1:]))


def test_hidden_tests_come_one_way(tmp_path: Path) -> None:
    folder = task(tmp_path)
    (folder / "tests" / "files").mkdir()
    with pytest.raises(TaskError, match="leave one of them"):
        Task.load(folder)


def test_a_patch_that_leads_out_of_the_tree_is_refused_when_the_task_is_read(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="leads out of the tree"):
        Task.load(task(tmp_path, CHANGE.replace(b"x.py", b"../x.py")))


def test_a_task_whose_lists_are_unknown_is_read_for_validation_alone(tmp_path: Path) -> None:
    folder = task(tmp_path)
    spec = folder / "tests" / "spec.json"
    spec.write_text(json.dumps(json.loads(spec.read_text()) | {"FAIL_TO_PASS": []}))
    with pytest.raises(TaskError, match="names no FAIL_TO_PASS test"):
        Task.load(folder)
    unlisted = Task.load_unlisted(folder)
    assert isinstance(unlisted.tests, TestSpec) and not unlisted.tests.fail_to_pass


def test_which_files_decide() -> None:
    files = ("tests/test_a.py", "tests/data.json", "app/tests.py")
    assert deciding_files(files, ["tests/test_a.py::t"]) == {"tests/test_a.py"}
    assert deciding_files(files, ["test_a (app.tests.T)"]) == {"tests/test_a.py", "app/tests.py"}


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("spec/fpm/package_spec.rb", "FPM::Package is nice"),
        ("spec/support/shared.rb", "FPM::Package is nice"),
        ("src/Button.spec.ts", "Button > renders"),
        ("src/__tests__/button.js", "renders"),
        ("tests/ui.rs", "ui::renders"),
        ("src/test/java/org/me/Button.java", "org.me.Button#renders"),
        ("button_test.go", "TestRenders"),
        ("tests/Unit/Button.php", "Button::renders"),
        ("nc_test/tst_small.c", "tst_small"),
        ("src/lib.rs", "tests::renders"),
        ("cases/renders.json", "renders"),
    ],
)
def test_a_deciding_file_is_found_in_every_language(path: str, test: str) -> None:
    assert path in deciding_files([path], [test])
    beside = deciding_files([path, "tests/a_test.py", "tests/fixtures/data.json"], [test])
    assert "tests/a_test.py" in beside and "tests/fixtures/data.json" not in beside
    assert path in beside or path in ("src/lib.rs", "cases/renders.json")
