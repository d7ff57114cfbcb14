"""The law of `diff` on what the kernel writes: pristine plus patch is the work tree that the sandbox itself saw."""

from pathlib import Path

import pytest
from sandbox_tools import shell, write_files

from lego_rl.sandbox.provider import Provider, TaskImage
from lego_rl.sandbox.records import read_tree
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.verdict import Patch

NESTED = {
    "pkg/top.py": "1\n",
    "pkg/sub/old.py": "2\n",
    "pkg/sub/keep.py": "3\n",
    "pkg/sub/deep/older.py": "4\n",
    "pkg/other/left.py": "5\n",
    "flat.txt": "6\n",
}
SCRIPTS = {
    "folder made again, with a folder below": "rm -rf pkg; mkdir -p pkg/sub; echo b > pkg/sub/keep.py",
    "the same, two folders below": "rm -rf pkg; mkdir -p pkg/sub/deep; echo b > pkg/sub/deep/new.py",
    "the same, nothing in it": "rm -rf pkg; mkdir -p pkg/sub/deep",
    "the same content again": "cp -r pkg /tmp/p; rm -rf pkg; mkdir -p pkg/sub; cp /tmp/p/sub/keep.py pkg/sub",
    "made again twice": "rm -rf pkg; mkdir -p pkg/sub; touch pkg/sub/x; rm -rf pkg/sub; mkdir -p pkg/sub/deep",
    "moved away and another in its place": "mv pkg moved; mkdir -p pkg/other; mv moved/sub pkg/sub",
    "inner folder only": "rm -rf pkg/sub; mkdir -p pkg/sub/deep; echo 9 > pkg/sub/deep/older.py",
    "folder to file, file to folder": "rm -rf pkg/sub flat.txt; echo f > pkg/sub; mkdir -p flat.txt/pkg;"
    " touch flat.txt/pkg/x",
    "folder to link": "rm -rf pkg/sub; ln -s other pkg/sub",
}  # fmt: skip


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> TaskImage:
    environment = tmp_path_factory.mktemp("nested") / "environment"
    write_files(environment / "repo", NESTED)
    return provider.prepare(environment, workdir="/app")


def patched(pristine: Path, patch: Patch) -> dict[str, bytes]:
    """Content of every path of the pristine tree after a patch, folders left out."""
    tree = {record.path: record.content for record in read_tree(pristine) if record.kind != "directory"}
    for change in patch.changes:
        if change.kind == "deleted":
            del tree[change.path]
        else:
            tree[change.path] = change.content
    return tree


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
async def test_pristine_plus_patch_is_what_the_sandbox_saw(nested: TaskImage, script: str) -> None:
    box = await nested.start(Phase.AGENT)
    try:
        done = await shell(box, f"set -e; {script}")
        assert done.returncode == 0, done.stderr
        seen = {record.path: record.content for record in await box.get("/app") if record.kind != "directory"}
        await box.kill()
        patch = (await box.snapshot()).diff(nested.pristine)
    finally:
        await box.close()
    assert patched(nested.pristine, patch) == seen
    assert not patch.dropped
