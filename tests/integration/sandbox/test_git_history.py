"""The history of a task in real sandboxes: usable, cut at the base commit, looked at from inside, whole for grading."""

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from history_task import COMMAND, make_task
from sandbox_tools import FIXED, REPOSITORY, TASK_TOML, shell

from git_tools import commit, git, reachable_from
from lego_rl.errors import SandboxError, TaskError
from lego_rl.sandbox.grading import grade
from lego_rl.sandbox.image import Image, PreparedTree
from lego_rl.sandbox.outside_user import give_to_sandbox
from lego_rl.sandbox.provider import Provider, TaskImage
from lego_rl.sandbox.sandbox import Phase, Sandbox
from lego_rl.sandbox.seal import verify_seal
from lego_rl.sandbox.verdict import Change, Patch
from lego_rl.tasks.task import Task, history_of

FIX = Patch((Change("calc/core.py", "file", FIXED.encode()),))


def prepare(task: Path, provider: Provider) -> TaskImage:
    return provider.prepare(task / "environment", workdir="/app", history=history_of(task))


def prepared(image: TaskImage) -> Image:
    """What both environments start from."""
    assert isinstance(image, PreparedTree)
    return image.prepared


def with_layer(image: TaskImage, layer: Path) -> TaskImage:
    """The same image with other git directories in its agent phase."""
    other = replace(prepared(image), git_layers={Phase.AGENT: layer})
    return replace(image, prepared=other)


@asynccontextmanager
async def started(image: TaskImage, phase: Phase) -> AsyncIterator[Sandbox]:
    box = await image.start(phase)
    try:
        yield box
    finally:
        await box.close()


@pytest.fixture(scope="module")
def history_task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_task(tmp_path_factory.mktemp("history") / "with-history")


async def test_the_agent_uses_its_history(history_task: Path, provider: Provider) -> None:
    repo = history_task / "environment" / "repo"
    async with started(prepare(history_task, provider), Phase.AGENT) as box:
        await verify_seal(box, Task.load(history_task))
        log = await shell(box, "git log --format='%H %s'; git status --porcelain; git diff-index HEAD")
        assert (log.stdout, log.stderr) == (git(repo, "log", "--format=%H %s", "v1") + "\n", "")
        assert "a - b" in (await shell(box, "git blame calc/core.py")).stdout
        script = "echo more >> calc/data.txt && git diff && git add -A && git commit -qm mine && git log -1 --format=%s"
        done = await shell(box, script)
        assert "+more" in done.stdout
        assert (done.stdout.splitlines()[-1], done.stderr) == ("mine", "")
        await box.kill()
        patch = (await box.snapshot()).diff(box.image.pristine)
    assert [change.path for change in patch.changes] == ["calc/data.txt"]


async def test_no_trick_finds_the_future(history_task: Path, provider: Provider) -> None:
    repo = history_task / "environment" / "repo"
    past = reachable_from(repo / ".git", "v1^{commit}")
    future = [git(repo, "rev-parse", name) for name in ("future", "future^{tree}", "future:calc/core.py")]
    async with started(prepare(history_task, provider), Phase.AGENT) as box:
        told = await shell(box, "git cat-file --batch-check='%(objectname)' --batch-all-objects")
        assert set(told.stdout.split()) == past
        unpacked = "cd .git/objects/pack && mv *.pack /tmp/p && rm -f *.idx && git unpack-objects -q < /tmp/p"
        listed = "find .git/objects -type f | sed 's:.*/\\(..\\)/:\\1:' | sort"
        assert set((await shell(box, f"({unpacked}); {listed}")).stdout.split()) == past, "also in the pack itself"
        lost = await shell(box, "git fsck --full --lost-found --unreachable --no-progress")
        assert (lost.stdout, lost.returncode) == ("", 0)
        for name in future:
            assert (await shell(box, f"git cat-file -t {name}")).returncode == 128
        refs = await shell(box, "git for-each-ref; git reflog; git stash list; git notes; git worktree list | wc -l")
        assert refs.stdout.split() == [git(repo, "rev-parse", "v1^{commit}"), "commit", "refs/heads/main", "1"]
        others = "find / -xdev \\( -name '*.pack' -o -name .git -o -name '*.bundle' \\) -not -path '/usr/*' 2>/dev/null"
        assert set((await shell(box, others)).stdout.split()) <= {"/app/.git"}


async def test_a_removed_repository_costs_nothing(history_task: Path, provider: Provider) -> None:
    image = prepare(history_task, provider)
    async with started(image, Phase.AGENT) as box:
        await shell(box, f"rm -rf .git && printf '{FIXED}' > calc/core.py && git init -q && git add -A")
        await box.kill()
        patch = (await box.snapshot()).diff(image.pristine)
    assert [change.path for change in patch.changes] == ["calc/core.py"]
    assert (await grade(Task.load(history_task), patch, image)).reward == 1


async def test_nothing_of_a_bare_repository_is_in_the_change(tmp_path: Path, provider: Provider) -> None:
    task = make_task(tmp_path / "with-mirror")
    repo = task / "environment" / "repo"
    git(repo, "clone", "-q", "--bare", ".", "vendor/mirror")
    image = prepare(task, provider)
    async with started(image, Phase.AGENT) as box:
        push = "git push -q vendor/mirror HEAD:refs/heads/mine && git -C vendor/mirror config a.b c"
        done = await shell(box, f"{push} && printf '{FIXED}' > calc/core.py && echo x > vendor/mirror.txt && ls vendor")
        assert (done.stdout, done.stderr) == ("mirror\nmirror.txt\n", "")
        await box.kill()
        patch = (await box.snapshot()).diff(image.pristine)
    assert [change.path for change in patch.changes] == ["calc/core.py", "vendor/mirror.txt"]
    assert patch.dropped == {"vendor/mirror": "git directory"}


def loose(git_dir: Path) -> None:
    (git_dir / "objects" / "ab").mkdir()
    (git_dir / "objects" / "ab" / ("0" * 38)).write_text("an object")


def reference(git_dir: Path) -> None:
    (git_dir / "refs" / "tags" / "v9").write_text("0" * 40)


def orig_head(git_dir: Path) -> None:
    (git_dir / "ORIG_HEAD").write_text("0" * 40)


def alternates(git_dir: Path) -> None:
    (git_dir / "objects" / "info" / "alternates").write_text("/elsewhere\n")


def reflog(git_dir: Path) -> None:
    (git_dir / "logs").mkdir()
    (git_dir / "logs" / "HEAD").write_text("x\n")


def hook(git_dir: Path) -> None:
    (git_dir / "hooks").mkdir()
    (git_dir / "hooks" / "post-checkout").write_text("#!/bin/sh\n")


def configuration(git_dir: Path) -> None:
    (git_dir / "config").write_text((git_dir / "config").read_text() + "[alias]\n\tlog = !touch x\n")


def moved_head(git_dir: Path) -> None:
    (git_dir / "HEAD").write_text("ref: refs/heads/else\n")


def link(git_dir: Path) -> None:
    (git_dir / "index").rename(git_dir / "index2")
    (git_dir / "index").symlink_to("index2")


def whole_pack(git_dir: Path) -> None:
    """The shipped pack, with the future in it, under the names of the sealed one."""
    (shipped,) = (git_dir.parent / "shipped").glob("*.pack")
    (pack,) = (git_dir / "objects" / "pack").glob("*.pack")
    shutil.copy(shipped, pack)
    shutil.copy(shipped.with_suffix(".idx"), pack.with_suffix(".idx"))


def longer_pack(git_dir: Path) -> None:
    """A pack of which the index does not name everything."""
    (shipped,) = (git_dir.parent / "shipped").glob("*.pack")
    (pack,) = (git_dir / "objects" / "pack").glob("*.pack")
    shutil.copy(shipped, pack)


def second_pack(git_dir: Path) -> None:
    for path in (git_dir.parent / "shipped").iterdir():
        shutil.copy(path, git_dir / "objects" / "pack")


def no_repository(git_dir: Path) -> None:
    shutil.rmtree(git_dir)


def other_repository(git_dir: Path) -> None:
    shutil.copytree(git_dir, git_dir.parent / "inner" / ".git")


def bare_repository(git_dir: Path) -> None:
    shutil.copytree(git_dir, git_dir.parent / "data")


def gitfile(git_dir: Path) -> None:
    (git_dir.parent / "inner").mkdir()
    (git_dir.parent / "inner" / ".git").write_text("gitdir: ../.git\n")


def stray_pack(git_dir: Path) -> None:
    for path in (git_dir.parent / "shipped").iterdir():
        shutil.copy(path, git_dir.parent)


def bundle(git_dir: Path) -> None:
    (git_dir.parent / "all.bundle").write_text("# v2 git bundle\n")


TAMPERED = {
    loose: "objects/ab/00000000000000000000000000000000000000 must not be there",
    reference: "refs/tags/v9 must not be there",
    orig_head: "ORIG_HEAD must not be there",
    alternates: "objects/info/alternates must not be there",
    reflog: "logs/HEAD must not be there",
    hook: "hooks/post-checkout must not be there",
    configuration: "config is not what was sealed",
    moved_head: "HEAD is not what was sealed",
    link: "index is not what was sealed",
    whole_pack: "has 21 objects, not the 14 of its base commit",
    longer_pack: "have 21 objects, their indices name 14",
    second_pack: "must not be there",
    no_repository: "/app/.git is missing",
    other_repository: "/app/inner/.git holds git objects that it must not",
    bare_repository: "/app/data holds git objects that it must not",
    gitfile: "/app/inner/.git holds git objects that it must not",
    stray_pack: r"/app/pack-\w+.pack holds git objects that it must not",
    bundle: "/app/all.bundle holds git objects that it must not",
}


@pytest.mark.parametrize("tamper", TAMPERED, ids=lambda tamper: tamper.__name__)
async def test_a_layer_that_was_tampered_with_is_found(
    history_task: Path, provider: Provider, tmp_path: Path, tamper: Callable[[Path], None]
) -> None:
    image = prepare(history_task, provider)
    sealed = prepared(image).git_layer(Phase.AGENT)
    assert sealed is not None
    shutil.copytree(sealed, tmp_path / "layer")
    packs = history_task / "environment" / "repo" / ".git" / "objects" / "pack"
    shutil.copytree(packs, tmp_path / "layer" / "app" / "shipped")
    tamper(tmp_path / "layer" / "app" / ".git")
    shutil.rmtree(tmp_path / "layer" / "app" / "shipped")
    for path in (tmp_path / "layer", *(tmp_path / "layer").rglob("*")):
        give_to_sandbox(path)
    tampered = with_layer(image, tmp_path / "layer")
    async with started(tampered, Phase.AGENT) as box:
        with pytest.raises(SandboxError, match=f"is not sealed: .*{TAMPERED[tamper]}"):
            await verify_seal(box, Task.load(history_task))


async def test_the_tests_have_the_tags_that_the_task_declares(tmp_path: Path, provider: Provider) -> None:
    tags = make_task(tmp_path / "tags", 'grading_history = "tags"', f'test "$(git describe)" = v1 && {COMMAND}')
    image = prepare(tags, provider)
    async with started(image, Phase.AGENT) as box:
        await verify_seal(box, Task.load(tags))
        assert (await shell(box, "git tag; git describe --tags")).stdout == ""
    async with started(image, Phase.GRADING) as box:
        assert (await shell(box, "git tag; git status --porcelain")).stdout == "v1\n"
        assert (await shell(box, "git cat-file --batch-all-objects --batch-check | wc -l")).stdout == "15\n", (
            "and the tag itself"
        )
    assert (await grade(Task.load(tags), FIX, image)).reward == 1
    without = make_task(tmp_path / "without", command=f'test "$(git describe)" = v1 && {COMMAND}')
    assert (await grade(Task.load(without), FIX, prepare(without, provider))).reward == 0


async def test_the_tests_have_the_whole_history_that_the_task_declares(tmp_path: Path, provider: Provider) -> None:
    full = make_task(tmp_path / "full", 'grading_history = "full"', f"git rev-parse v2 future && {COMMAND}")
    image = prepare(full, provider)
    async with started(image, Phase.AGENT) as box:
        await verify_seal(box, Task.load(full))
        assert (await shell(box, "git rev-parse --verify future")).returncode != 0
    assert (await grade(Task.load(full), FIX, image)).reward == 1


@pytest.mark.parametrize(("history", "log"), [("single-commit", "Base commit\n"), ("none", "")])
async def test_less_than_the_past(tmp_path: Path, provider: Provider, history: str, log: str) -> None:
    task = make_task(tmp_path / "less", f'history = "{history}"')
    async with started(prepare(task, provider), Phase.AGENT) as box:
        await verify_seal(box, Task.load(task))
        assert (await shell(box, "git log --format=%s && git status --porcelain")).stdout == log


async def test_a_history_that_gives_the_solution_away_is_refused(tmp_path: Path, provider: Provider) -> None:
    task = make_task(tmp_path / "reverted")
    repo = task / "environment" / "repo"
    git(repo, "checkout", "-q", "future")
    commit(repo, {"calc/core.py": REPOSITORY["calc/core.py"]}, "undo the fix")
    with pytest.raises(TaskError, match=r"the history of .* holds solution/files/calc/core.py"):
        prepare(task, provider)
    (task / "task.toml").write_text(TASK_TOML.replace("[metadata]\n", '[metadata]\nhistory = "single-commit"\n'))
    assert prepare(task, provider).history.repositories[0].objects < 14
