"""What the task's own links lead to is the task's own, and what tests link of the product is not."""

from pathlib import Path

import pytest
from owned import PYTEST, owner

from lego_rl.sandbox.ownership.links import Links
from lego_rl.sandbox.ownership.rules import Ownership
from lego_rl.sandbox.verdict import Change, Patch


def linked(folder: Path, links: dict[str, str], **given: object) -> Ownership:
    """A task of `owner` with links."""
    for link, target in links.items():
        place = folder / "tree" / link
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    return owner(folder, **given)  # type: ignore[arg-type]


LEADS_TO: dict[str, tuple[dict[str, str], dict[str, object], list[str]]] = {
    "a conftest": ({"tests/conftest.py": "../shared/x.inc"}, {"files": {"shared/x.inc": ""}}, ["shared/x.inc"]),
    "a conftest that is not there yet": ({"tests/conftest.py": "../shared/conf.inc"}, {}, ["shared/conf.inc"]),
    "a helper": ({"tests/helper.py": "../shared/helper.py"}, {"files": {"shared/helper.py": ""}}, ["shared/helper.py"]),
    "an absolute one": ({"tests/helper.py": "/app/shared/h.py"}, {"files": {"shared/h.py": ""}}, ["shared/h.py"]),
    "data": ({"tests/data": "../golden"}, {"files": {"golden/a.json": ""}}, ["golden/a.json"]),
    "two links": (
        {"tests/helper.py": "../one/h.py", "one": "two"}, {"files": {"two/h.py": ""}}, ["two/h.py", "one"],
    ),
    "links in what a link leads to": (
        {"tests/kit": "../kit", "kit/helper.py": "../shared/helper.py"}, {"files": {"shared/helper.py": ""}},
        ["shared/helper.py"],
    ),
    "a script": (
        {"ci/run.sh": "../scripts/run"}, {"files": {"scripts/run": ""}, "command": f"sh ci/run.sh; {PYTEST}"},
        ["scripts/run", "scripts"],
    ),
    "tests": (
        {"more/tests": "../pkgtests"}, {"files": {"pkgtests/helper.py": ""}, "hidden": {"more/tests/test_b.py": ""}},
        ["pkgtests/helper.py", "pkgtests/test_b.py", "more/tests", "pkgtests"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LEADS_TO)
def test_what_a_link_at_a_place_of_the_tasks_leads_to_is_the_tasks(tmp_path: Path, case: str) -> None:
    links, given, paths = LEADS_TO[case]
    own = linked(tmp_path, links, **given)
    kinds = {path: "symlink" if path in links or (tmp_path / "tree" / path).is_dir() else "file" for path in paths}
    assert [path for path in paths if not own.owns(Change(path, kinds[path]))] == []  # type: ignore[arg-type]
    assert own.owns(Change("app/core.py", "file")) is None


PRODUCT: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    "a package": ({"tests/app": "../app"}, {}, "app/core.py"),
    "its data": ({"tests/schema.json": "../app/static/schema.json"}, {"app/static/schema.json": ""},
                 "app/static/schema.json"),
    "a module": ({"tests/core.py": "../core.py"}, {"core.py": ""}, "core.py"),
    "the work tree": ({"tests/top": ".."}, {}, "app/core.py"),
    "a new file beside what tests read": ({"tests/data": "../golden"}, {"golden/a.json": ""}, "golden/new.json"),
    "something outside": ({"tests/os": "/usr/lib", "lib/x": "../../app"}, {}, "app/core.py"),
    "a loop": ({"tests/a": "b", "tests/b": "a"}, {}, "app/core.py"),
    "another link": ({"docs/link": "../app"}, {}, "app/core.py"),
}  # fmt: skip


@pytest.mark.parametrize("case", PRODUCT)
def test_what_tests_link_of_the_product_is_the_agents(tmp_path: Path, case: str) -> None:
    links, files, path = PRODUCT[case]
    assert linked(tmp_path, links, files=files).owns(Change(path, "file")) is None


def test_configuration_behind_a_link_is_merged_by_the_name_of_the_link(tmp_path: Path) -> None:
    text = "[tool:pytest]\naddopts = -q\n\n[metadata]\nname = a\n"
    own = linked(tmp_path, {"setup.cfg": "config/base.inc"}, files={"config/base.inc": text})
    honest = Change("config/base.inc", "file", text.replace("= a", "= b").encode())
    assert own.split(Patch((honest,))).applied == (honest,)
    mixed = Change("config/base.inc", "file", text.replace("-q", "-p app.plug").replace("= a", "= b").encode())
    split = own.split(Patch((mixed,)))
    assert list(split.rolled_back) == ["config/base.inc"]
    assert [(each.path, b"-q" in each.content, b"name = b" in each.content) for each in split.applied] == [
        ("config/base.inc", True, True)
    ]


def test_hidden_files_are_written_behind_links_that_stay_in_the_work_tree(tmp_path: Path) -> None:
    (tmp_path / "pkgtests").mkdir()
    for link, target in {
        "tests": "pkgtests",
        "abs": "/app/pkgtests",
        "out": "/usr/lib",
        "up": "../..",
        "l": "l",
    }.items():
        (tmp_path / link).symlink_to(target)
    (tmp_path / "pkgtests" / "test_a.py").symlink_to("elsewhere.py")
    found = Links(tmp_path, "/app")
    assert found.behind("tests/deep/test_b.py") == "pkgtests/deep/test_b.py"
    assert found.behind("abs/test_b.py") == "pkgtests/test_b.py"
    assert found.behind("tests/test_a.py") == "pkgtests/test_a.py", "the last part is replaced where it is a link"
    for path in ("out/test_b.py", "up/test_b.py", "l/test_b.py", "other/test_b.py", "test_b.py"):
        assert found.behind(path) == path
