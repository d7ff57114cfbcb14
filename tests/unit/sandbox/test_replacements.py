"""What takes the place of something of another kind is applied whole or not at all."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from owned import owner

from lego_rl.sandbox.comparison import is_folder
from lego_rl.sandbox.ownership.replacements import rolled_back_together
from lego_rl.sandbox.ownership.split import Reason
from lego_rl.sandbox.verdict import Change, Patch

RUN = "bash dev/run.sh && python -m pytest --junitxml=$LEGO_REPORT tests"
FILES = {"dev/run.sh": "echo\n", "dev/other.py": "", "tests/helper.txt": "", "pkg/a.py": "", "pkg/b/c.py": ""}
LINK = Change("dev", "symlink", b"mine")


def test_a_link_in_place_of_a_folder_with_what_runs_the_tests_leaves_the_folder(tmp_path: Path) -> None:
    own = owner(tmp_path, FILES, command=RUN)
    split = own.split(Patch((LINK, Change("dev/other.py", "deleted"), Change("dev/run.sh", "deleted"))))
    assert split.applied == ()
    assert split.rolled_back["dev"] == split.rolled_back["dev/other.py"] == Reason.REPLACES_OWN
    assert split.rolled_back["dev/run.sh"] != Reason.REPLACES_OWN


def test_a_link_in_place_of_a_package_is_applied_with_its_deletions(tmp_path: Path) -> None:
    changes = (Change("pkg", "symlink", b"impl"), Change("pkg/a.py", "deleted"), Change("pkg/b/c.py", "deleted"))
    split = owner(tmp_path, {**FILES, "setup.py": "setup(packages=['pkg'])\n"}).split(Patch(changes))
    assert split.applied == changes
    assert split.rolled_back == {}


def test_a_folder_in_place_of_a_file_that_is_kept_is_not_written(tmp_path: Path) -> None:
    changes = (Change("tests/helper.txt", "deleted"), Change("tests/helper.txt/data.json", "file"))
    split = owner(tmp_path, FILES).split(Patch(changes))
    assert split.applied == ()
    assert split.rolled_back["tests/helper.txt/data.json"]


NAMES = ("a", "b", "a.x")


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("tree")
    for folder in ("a", "a/a", "a.x"):
        (tree / folder).mkdir()
    for name in ("a/b", "a/a/a", "a/a/b", "a.x/a", "b"):
        (tree / name).touch()
    return tree


TREES = st.recursive(st.sampled_from(["file", "symlink"]), lambda inner: st.dictionaries(st.sampled_from(NAMES), inner))


def changes_to(tree: object, pristine: Path, path: str = "") -> list[Change]:
    """What makes an agent's `tree` of the pristine one, as the comparison of trees has it."""
    here = pristine / path
    if isinstance(tree, str):
        gone = [str(each.relative_to(pristine)) for each in here.rglob("*") if each.is_file()]
        return [Change(path, "file"), *(Change(each, "deleted") for each in gone)]
    assert isinstance(tree, dict)
    found = [Change(path, "deleted")] if here.is_file() else []
    inner = {each.name for each in here.iterdir()} if is_folder(here) else set[str]()
    for name in sorted(inner | set(tree)):
        place = f"{path}/{name}".lstrip("/")
        found += changes_to(tree.get(name, {}), pristine, place)
    return found


@given(st.dictionaries(st.sampled_from(NAMES), TREES), st.data())
def test_whatever_is_kept_every_path_has_a_place(pristine: Path, tree: dict[str, object], data: st.DataObject) -> None:
    """Law: of what is applied nothing lies below a file, of the task's or the agent's, that stays."""
    changes = changes_to(tree, pristine)
    alone = {change.path: data.draw(st.sampled_from([None, "own"])) for change in changes}
    reasons = rolled_back_together(changes, alone, pristine)
    kept = {str(path.relative_to(pristine)) for path in pristine.rglob("*") if path.is_file()}
    kept -= {change.path for change in changes if change.kind == "deleted" and reasons[change.path] is None}
    written = {change.path for change in changes if change.kind != "deleted" and reasons[change.path] is None}
    everything = kept | written
    for path in everything:
        assert not any(path.startswith(f"{other}/") for other in everything), path
    assert all(reasons[path] is not None for path, reason in alone.items() if reason is not None)
