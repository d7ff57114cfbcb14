"""What Node would take in place of a file of the tests' side is rolled back."""

from pathlib import Path

import pytest
from owned import owner

from lego_rl.sandbox.verdict import Change

HIDDEN = {"test/add.test.js": "", "app/test/sum.js": ""}
FILES = {"package.json": "{}", "test/helper.js": "", "test/kit/index.js": "", "lib/core.js": "", "app/index.js": ""}
KEPT = [
    "test/helper", "test/helper.json", "test/helper.node", "test/kit.js", "test/kit.json", "test/kit", "test/kit.node",
    "test/kit/package.json", "test/package.json", "test/kit/index", "test/add.test.json", "app/test/aaa.js",
    "app/test/sum", "app/test/sum.json",
]  # fmt: skip
FREE = [
    "lib/core", "lib/core.json", "lib/package.json", "test/other.json", "test/fixtures/a.json", "test/data",
    "app/new.js", "app/index.json", "lib/test.json",
]  # fmt: skip


@pytest.mark.parametrize("path", KEPT)
def test_what_comes_before_a_file_of_the_tests_is_the_tasks(tmp_path: Path, path: str) -> None:
    own = owner(tmp_path, FILES, command="node --test test/add.test.js; npx mocha app/test", hidden=HIDDEN)
    kind = "symlink" if path == "test/kit" else "file"
    assert own.owns(Change(path, kind))


@pytest.mark.parametrize("path", FREE)
def test_what_does_not_is_the_agents(tmp_path: Path, path: str) -> None:
    own = owner(tmp_path, FILES, command="node --test test/add.test.js; npx mocha app/test", hidden=HIDDEN)
    assert own.owns(Change(path, "file")) is None


def test_other_languages_have_no_such_names(tmp_path: Path) -> None:
    own = owner(tmp_path, {**FILES, "tests/data.json": ""})
    assert own.owns(Change("tests/data", "file")) is None
    assert own.owns(Change("tests/package.json", "file")) is None
