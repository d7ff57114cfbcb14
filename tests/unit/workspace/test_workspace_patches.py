"""The text of a patch is what git applies, and applying it here makes the same tree, or changes nothing."""

import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_rl.sandbox.patch_text import patch_text
from lego_rl.sandbox.verdict import Change, Patch
from lego_rl.workspace import apply as applying
from lego_rl.workspace.apply import NotAppliedError, apply, recover
from lego_rl.workspace.listing import UNDO, list_workspace
from lego_rl.workspace.stage import Staged, differences, stage

CONTENTS = [
    b"",
    b"a\n",
    b"a\nb\nc\n",
    b"a\nb\nc",
    b"x" * 100,
    b"\0\xff" * 40,
    b"\r\n\x0c\n",
    "ä\n".encode(),
    b"-- \n++ \n",
]
NAMES = ["a", "b.txt", "d/e", "d/f/g", "with space", 'qu"ote\\', "tab\there", "ä"]
type Tree = dict[str, tuple[bytes, bool] | str]
"""Path → content and whether it is executable, or a link's target."""

nodes = st.one_of(st.tuples(st.sampled_from(CONTENTS), st.booleans()), st.sampled_from(["a", "nowhere"]))
trees = st.dictionaries(st.sampled_from(NAMES), nodes, max_size=6)


def write(tree: Tree, root: Path) -> None:
    for name, node in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(node, str):
            path.symlink_to(node)
        else:
            path.write_bytes(node[0])
            path.chmod(0o755 if node[1] else 0o644)


def read(root: Path) -> Tree:
    found: Tree = {}
    for parent, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".git"]
        for path in (Path(parent, name) for name in (*names, *folders)):
            name = path.relative_to(root).as_posix()
            if path.is_symlink():
                found[name] = str(path.readlink())
            elif path.is_file():
                found[name] = (path.read_bytes(), bool(path.stat().st_mode & 0o100))
    return found


def change_between(before: Tree, after: Tree) -> Patch:
    changes = [Change(name, "deleted") for name in before if name not in after]
    for name, node in after.items():
        if before.get(name) != node:
            is_link = isinstance(node, str)
            changes.append(
                Change(name, "symlink", node.encode()) if is_link else Change(name, "file", node[0], node[1])
            )
    return Patch(tuple(sorted(changes, key=lambda change: change.path)))


def handed(root: Path, scratch: Path) -> Staged:
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    return stage(root, list_workspace(root), scratch)


@settings(max_examples=40, deadline=None)
@given(before=trees, after=trees)
def test_git_and_this_make_the_same_of_a_patch(
    before: Tree, after: Tree, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("patch")
    old, by_git, own = folder / "old", folder / "git", folder / "own"
    before = before | {"kept": (b"kept\n", False)}
    after = after | {"kept": (b"kept\n", False)}
    for root in (old, by_git, own):
        root.mkdir()
        write(before, root)
    patch = change_between(before, after)
    text = patch_text(patch, old)
    if patch.changes:
        done = subprocess.run(["git", "apply", "-"], input=text, cwd=by_git, capture_output=True, check=False)
        assert done.returncode == 0, (text, done.stderr)
        assert read(by_git) == after
    apply(patch, own, handed(own, folder / "staged").entries)
    assert read(own) == after
    assert not (own / UNDO).exists()


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, Staged]:
    root = tmp_path / "w"
    write({"a": (b"a\n", False), "b": (b"b\n", True), "d/e": (b"e\n", False), ".env": (b"KEY=1\n", False)}, root)
    return root, handed(root, tmp_path / "staged")


PATCH = change_between(
    {"a": (b"a\n", False), "b": (b"b\n", True), "d/e": (b"e\n", False)},
    {"a": (b"A\n", True), "d": (b"d\n", False), "n/m": (b"new\n", False)},
)


def test_secrets_are_not_handed_over_and_cannot_be_overwritten(place: tuple[Path, Staged]) -> None:
    root, staged = place
    assert ".env" not in staged.entries
    before = read(root)
    with pytest.raises(NotAppliedError, match=r"\.env exists, and was not handed over"):
        apply(Patch((*PATCH.changes, Change(".env", "file", b"KEY=2\n"))), root, staged.entries)
    assert read(root) == before


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda root: (root / "a").write_bytes(b"mine\n"), "a was changed meanwhile"),
        (lambda root: (root / "b").chmod(0o644), "b was changed meanwhile"),
        (lambda root: (root / "d" / "e").unlink(), "e was changed meanwhile"),
        (lambda root: (root / "d" / "mine").write_bytes(b"mine\n"), "d exists, and was not handed over"),
        (lambda root: (root / "n").write_bytes(b"mine\n"), "n is no folder"),
        (lambda root: (root / "n").symlink_to("/tmp"), "n is no folder"),
    ],
)
def test_nothing_of_the_users_is_lost(place: tuple[Path, Staged], spoil: Callable[[Path], object], says: str) -> None:
    root, staged = place
    spoil(root)
    before = read(root)
    assert list(differences(root, list_workspace(root), staged)) != []
    with pytest.raises(NotAppliedError, match=says):
        apply(PATCH, root, staged.entries)
    assert read(root) == before
    assert not (root / UNDO).exists()


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "d/../../x"])
def test_no_link_is_made_that_leads_out(place: tuple[Path, Staged], target: str) -> None:
    root, staged = place
    with pytest.raises(NotAppliedError, match="leads out of the workspace"):
        apply(Patch((Change("link", "symlink", target.encode()),)), root, staged.entries)


STEPS = ("rename", "mkdir", "rmdir", "unlink")


class Killed(BaseException):
    pass


@pytest.mark.parametrize("undone", [True, False], ids=["error", "kill"])
@pytest.mark.parametrize("at", range(40))
def test_a_change_is_applied_whole_or_not_at_all(
    place: tuple[Path, Staged], at: int, undone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop before every single step, by an error or by what no handler survives, and look at what is left."""
    root, staged = place
    before, left = read(root), [at]

    def counted(name: str) -> Callable[..., object]:
        real = getattr(Path, name)

        def step(self: Path, *arguments: object, **named: object) -> object:
            left[0] -= 1
            if left[0] == -1:
                raise Killed
            return real(self, *arguments, **named)

        return step

    with monkeypatch.context() as patched:
        for name in STEPS:
            patched.setattr(Path, name, counted(name))
        if not undone:
            patched.setattr(applying, "_undo", lambda root: None)
            patched.setattr(shutil, "rmtree", lambda *arguments, **named: None)
        with suppress(Killed):
            apply(PATCH, root, staged.entries)
    if not undone:
        recover(root)
    assert not (root / UNDO).exists()
    after = {"a": (b"A\n", True), "d": (b"d\n", False), "n/m": (b"new\n", False), ".env": (b"KEY=1\n", False)}
    assert read(root) in (before, after)
    assert read(root) == after or left[0] < 0
    assert not recover(root)
