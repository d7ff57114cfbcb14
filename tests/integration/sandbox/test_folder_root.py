"""A sandbox whose root is a folder, as an unpacked image is."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from sandbox_tools import FIXED, least_root, shell, write_files

from git_tools import commit, git, init
from lego_rl.errors import SandboxError
from lego_rl.sandbox.bubblewrap.provider import BubblewrapProvider
from lego_rl.sandbox.grading import grade
from lego_rl.sandbox.hole import HoleKind
from lego_rl.sandbox.outside_user import outside_uid
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.seal_request import SealRequest
from lego_rl.sandbox.state import State
from lego_rl.tasks.task import Task


@pytest.fixture(scope="module")
def rootfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a work tree of its own at /app."""
    root = least_root(tmp_path_factory.mktemp("rootfs"))
    write_files(root, {"app/from-image.txt": "image\n"})
    return root


def give_away(root: Path) -> None:
    uid = outside_uid()
    if uid is not None:
        for path in (root, *root.rglob("*")):
            os.chown(path, uid, uid, follow_symlinks=False)


async def test_agent_phase_and_grading(task: Task, rootfs: Path, state: State) -> None:
    if os.geteuid() == 0:
        with pytest.raises(SandboxError, match="chown -R"):
            BubblewrapProvider(state, rootfs).prepare(task.path / "environment", workdir="/app")
    give_away(rootfs)
    image = BubblewrapProvider(state, rootfs).prepare(task.path / "environment", workdir="/app")
    box = await image.start(Phase.AGENT)
    try:
        done = await shell(box, "cat from-image.txt; touch /opt/mine /usr/mine; ls /usr; cat /etc/passwd; python3 -V")
        assert done.stderr == ""
        assert done.stdout.startswith("image\n")
        assert "agent:x:1000" in done.stdout
        assert "local" not in done.stdout
        assert await box.holes(SealRequest(("/tests",))) == []
        await shell(box, f"printf '{FIXED}' > calc/core.py")
        await box.kill()
        patch = (await box.snapshot()).diff(image.pristine)
    finally:
        await box.close()
    assert [change.path for change in patch.changes] == ["calc/core.py"]
    assert not (rootfs / "usr" / "mine").exists()
    verdict = await grade(task, patch, image)
    assert verdict.reward == 1, verdict.log


async def test_repositories_of_the_image_are_sealed_too(task: Task, rootfs: Path, state: State, tmp_path: Path) -> None:
    root = tmp_path / "image"
    shutil.copytree(rootfs, root, symlinks=True)
    tool = init(root / "opt" / "tool")
    past = commit(tool, {"x": "1\n"}, "past")
    git(tool, "checkout", "-q", "-b", "later")
    commit(tool, {"x": "2\n"}, "future")
    git(tool, "bundle", "create", "-q", str(root / "opt" / "all.bundle"), "--all")
    git(tool, "checkout", "-q", "--detach", past)
    (root / "opt" / "tool").chmod(0o700)
    give_away(root)
    image = BubblewrapProvider(state, root).prepare(task.path / "environment", workdir="/app")
    for phase in Phase:
        box = await image.start(phase)
        try:
            assert await box.holes(SealRequest(("/tests",), image.history)) == []
            found = await shell(box, "ls -A /opt/tool /opt/tool/.git/refs/heads; ls -d /opt/*")
            names = found.stdout.split()
            assert (found.stderr, names[:2]) == ("", ["/opt/tool:", ".git"])
            assert "later" not in names
            assert "/opt/all.bundle" not in names
            assert "/opt/tool" in names
        finally:
            await box.close()
    assert oct((root / "opt" / "tool").stat().st_mode)[-3:] == "700"
    bare = replace(image, prepared=replace(image.prepared, git_layers={}))
    box = await bare.start(Phase.AGENT)
    try:
        holes = await box.holes(SealRequest(("/tests",), image.history))
    finally:
        await box.close()
    said = [hole.said for hole in holes if hole.kind in (HoleKind.GIT, HoleKind.STRAY)]
    assert any(each.startswith("/opt/all.bundle holds git objects") for each in said)
    assert any(each.startswith("/opt/tool/.git/") and each.endswith("must not be there") for each in said)
