"""What a patch may not change, and that everything else it may."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.sandbox.ownership import CONFIGURATION, Ownership
from lego_rl.sandbox.verdict import Change, ChangeKind, Patch
from lego_rl.tasks.task import TestSpec

TESTS = frozenset({
    "tests/test_a.py", "pkg/tests/test_b.py", "hidden/test_c.py", "core/test_d.py", "test_old/test_e.py",
})  # fmt: skip
PRISTINE = [
    "tests/test_a.py", "tests/helper.py", "tests/conftest.py", "pkg/__init__.py", "pkg/core.py",
    "pkg/tests/__init__.py", "pkg/tests/test_b.py", "setup.cfg", "types.py", "docs/guide.md", "core.py", "test_old.py",
]  # fmt: skip


@pytest.fixture(scope="session")
def ownership(tmp_path_factory: pytest.TempPathFactory) -> Ownership:
    root = tmp_path_factory.mktemp("pristine")
    for name in PRISTINE:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    tests = TestSpec(tuple(f"{name}::TestIt::test_it" for name in sorted(TESTS)), (), "pytest", "pytest-junit", ())
    return Ownership.of(tests, root)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("tests/test_a.py", "file"),
        ("tests/test_a.py", "deleted"),
        ("tests/test_a.py/x", "file"),
        ("hidden/test_c.py", "symlink"),
        ("setup.cfg", "file"),
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
        ("xml/etree/ElementTree.py", "file"),
        ("pluggy.cpython-312-x86_64-linux-gnu.so", "file"),
        ("packaging", "symlink"),
        ("tests/json.py", "file"),
        ("hidden/random.py", "file"),
        ("docs/os.py", "file"),
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
    ],
)
def test_owned(ownership: Ownership, path: str, kind: ChangeKind) -> None:
    assert ownership.owns(Change(path, kind))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("pkg/core.py", "file"),
        ("pkg/__init__.py", "file"),
        ("pkg/tests/__init__.py", "file"),
        ("pkg/types.py", "file"),
        ("pkg/json/__init__.py", "file"),
        ("new/types.py", "file"),
        ("new/__init__.py", "file"),
        ("types.py", "file"),
        ("tests/helper.py", "deleted"),
        ("tests/test_mine.py", "file"),
        ("docs", "deleted"),
        ("docs/guide.md", "symlink"),
        ("core.py", "file"),
        ("tests.test_a.py", "deleted"),
        ("tests.test_b.py", "file"),
        ("test.py", "file"),
        ("pkg/test_b.py", "file"),
        ("data/blob.bin", "file"),
        ("json.md", "file"),
        ("MANIFEST.in", "file"),
    ],
)
def test_free(ownership: Ownership, path: str, kind: ChangeKind) -> None:
    assert not ownership.owns(Change(path, kind))


@given(st.lists(st.sampled_from([*PRISTINE, *TESTS, *CONFIGURATION, "pkg/new.py", "json.py", "x/y"]), unique=True))
def test_a_patch_is_split_and_never_refused(ownership: Ownership, paths: list[str]) -> None:
    patch = Patch(tuple(Change(path, "file", b"x") for path in sorted(paths)))
    kept, rolled_back = ownership.split(patch)
    assert sorted([change.path for change in kept] + list(rolled_back)) == sorted(paths)
    assert not any(Path(change.path).name in CONFIGURATION for change in kept)
