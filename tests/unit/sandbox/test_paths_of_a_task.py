"""No path that a task or an image names becomes one of the host outside of the task's own folders."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from lego_rl.errors import LegoError, SandboxError, TaskError
from lego_rl.sandbox import paths
from lego_rl.sandbox.bubblewrap.provider import BubblewrapProvider
from lego_rl.sandbox.copying import copy_tree
from lego_rl.sandbox.docker.answers import Image as ImageAnswer
from lego_rl.sandbox.docker.answers import ImageConfig
from lego_rl.sandbox.docker.root import image_root
from lego_rl.sandbox.dockerfile import NeedsBuildError, read_dockerfile
from lego_rl.sandbox.image import Image, prepare_image
from lego_rl.sandbox.outside_user import give_to_sandbox
from lego_rl.sandbox.state import State
from lego_rl.sandbox.tree_tests import SandboxedRunner
from lego_rl.tasks.build import write_task
from lego_rl.tasks.generate import generate
from lego_rl.tasks.make.tree import Tree
from lego_rl.tasks.task import Task

SECRET = "of the host"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    folder = tmp_path / "task" / "environment"
    (folder / "repo").mkdir(parents=True)
    (folder / "repo" / "a.py").write_text("a")
    (folder / "x.txt").write_text("x")
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


def prepared(environment: Path, *lines: str, rootfs: Path | None = None) -> Image:
    (environment / "Dockerfile").write_text("\n".join(["FROM python:3.12", *lines, ""]))
    state = State(environment.parents[1] / "deep" / "er" / "state")
    return prepare_image(environment, state, workdir="/app", rootfs=rootfs)


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize(
    "target",
    [
        "../../../../../OUT/",
        "../x/",
        "/w/a/../../OUT/",
        "/w/a/../../OUT/x.txt",
        "/../OUT/",
        "../../../../../../../../OUT/",
    ],
)
def test_a_destination_outside_the_work_directory_needs_a_build(environment: Path, tmp_path: Path, target: str) -> None:
    with pytest.raises(NeedsBuildError, match="outside the work directory"):
        prepared(environment, "WORKDIR /w/a", "COPY repo/ /w/a/", f"COPY x.txt {target}")
    assert not list(tmp_path.rglob("OUT"))


def test_a_destination_that_comes_back_is_where_docker_has_it(environment: Path) -> None:
    image = prepared(environment, "WORKDIR /w/a", "COPY repo/ .", "COPY x.txt /w/b/../a/sub/", "COPY x.txt y.")
    assert everything(image.pristine) == {"a.py", "sub", "sub/x.txt", "y."}


def test_a_work_directory_is_where_docker_has_it(environment: Path) -> None:
    image = prepared(environment, "WORKDIR /w/../../srv", "WORKDIR ./app//", "COPY repo/ .")
    assert image.workdir == "/srv/app"
    assert everything(image.pristine) == {"a.py"}


@pytest.mark.parametrize("line", ['WORKDIR "/app"', "WORKDIR /a\\ b", "WORKDIR"])
def test_a_work_directory_that_is_not_plain_needs_a_build(tmp_path: Path, line: str) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM x\n{line}\n")
    with pytest.raises(NeedsBuildError, match="WORKDIR"):
        read_dockerfile(tmp_path / "Dockerfile")


@pytest.mark.parametrize("link", ["data", "deep/data"])
@pytest.mark.parametrize("target", ["{}/x.txt", "{}/more/"])
def test_nothing_is_copied_behind_a_link(environment: Path, outside: Path, link: str, target: str) -> None:
    place = environment / "repo" / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside)
    with pytest.raises(NeedsBuildError, match="behind the link"):
        prepared(environment, "WORKDIR /app", "COPY repo/ .", f"COPY x.txt {target.format(link)}")
    assert everything(outside) == {"secret.txt"}


def test_nothing_is_copied_into_a_git_directory(environment: Path) -> None:
    with pytest.raises(NeedsBuildError, match="git directory"):
        prepared(environment, "WORKDIR /app", "COPY repo/ .", "COPY x.txt .git/hooks/")


def test_a_copy_never_leaves_its_folder(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lego_rl.sandbox.image.copied", lambda *_: [(environment / "x.txt", "../../OUT")])
    with pytest.raises(SandboxError, match="report this as a bug"):
        prepared(environment, "WORKDIR /app")


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_file_and_a_folder_do_not_replace_each_other(environment: Path, what: str) -> None:
    (environment / "repo" / "sub").mkdir()
    (environment / "more").mkdir()
    line = "COPY x.txt /app/sub" if what == "file" else "COPY more /app/a.py"
    with pytest.raises(NeedsBuildError, match="in place of"):
        prepared(environment, "WORKDIR /app", "COPY repo/ .", line)


def test_a_file_copied_to_the_work_directory_itself_needs_a_build(environment: Path) -> None:
    with pytest.raises(NeedsBuildError, match="in place of"):
        prepared(environment, "WORKDIR /app", "COPY x.txt /app")


@pytest.mark.parametrize("source", ["link", "link/secret.txt", "../../outside", "/../../outside", "a/../../../outside"])
def test_a_source_outside_the_task_is_none(environment: Path, outside: Path, source: str) -> None:
    (environment / "link").symlink_to(outside)
    with pytest.raises(TaskError, match="which its Dockerfile copies"):
        prepared(environment, "WORKDIR /app", f"COPY {source} .")


def test_a_source_is_followed_within_the_task(environment: Path) -> None:
    (environment / "folder").symlink_to("repo")
    (environment / "y.txt").symlink_to("x.txt")
    image = prepared(environment, "WORKDIR /app", "COPY /folder .", "COPY ../y.txt ./")
    assert everything(image.pristine) == {"a.py", "y.txt"}
    assert not (image.pristine / "y.txt").is_symlink()
    (environment / "repo" / "b.py").write_text("b")
    assert "b.py" in everything(prepared(environment, "WORKDIR /app", "COPY /folder .", "COPY ../y.txt ./").pristine)


@pytest.fixture
def rootfs(tmp_path: Path) -> Path:
    folder = tmp_path / "rootfs"
    (folder / "usr").mkdir(parents=True)
    for path in (folder, folder / "usr"):
        give_to_sandbox(path)
    return folder


@pytest.mark.parametrize("workdir", ["/app", "/app/sub", "/srv/app"])
def test_a_work_directory_that_is_a_link_out_of_its_image_is_refused(
    environment: Path, outside: Path, rootfs: Path, workdir: str
) -> None:
    (outside / "sub").mkdir()
    (rootfs / "app").symlink_to(outside)
    (rootfs / "srv").mkdir()
    (rootfs / "srv" / "app").symlink_to("../../outside")
    with pytest.raises(SandboxError, match="leads out of it"):
        prepared(environment, f"WORKDIR {workdir}", rootfs=rootfs)


def test_a_work_directory_above_the_root_is_the_root_s(environment: Path, outside: Path, rootfs: Path) -> None:
    image = prepared(environment, "WORKDIR /../outside", "COPY repo/ .", rootfs=rootfs)
    assert image.workdir == "/outside"
    assert everything(image.pristine) == {"a.py"}
    assert everything(outside) == {"secret.txt"}


def test_a_dockerfile_that_is_a_link_out_of_the_task_is_not_read(environment: Path, outside: Path) -> None:
    (environment / "Dockerfile").symlink_to(outside / "secret.txt")
    with pytest.raises(TaskError, match="leads out") as caught:
        prepare_image(environment, State(environment.parent / "state"), workdir="/app")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("said", "meant"), [("/srv/../../app/", "/app"), ("app", "/app"), ("/", ""), (None, "")])
def test_the_work_directory_of_an_image(tmp_path: Path, said: str | None, meant: str) -> None:
    found = ImageAnswer("sha256:1", ImageConfig(working_dir=said))
    engine = SimpleNamespace(image=lambda _: found)
    root = image_root(engine, "image", State(tmp_path / "state"), 1000)  # type: ignore[arg-type]
    assert root.workdir == meant


async def test_a_source_tree_is_laid_out_below_its_folder(tmp_path: Path) -> None:
    runner = SandboxedRunner(BubblewrapProvider(State(tmp_path / "state")), tmp_path / "trees")
    with pytest.raises(TaskError, match=r"a file called '\.\./\.\./x'"):
        await runner.bench(Tree({"../../x": b""}))
    assert everything(tmp_path / "trees") == set()


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write_task(generate(0, "comparison", 0), tmp_path / "pool")


@pytest.mark.parametrize(
    "name",
    [
        "task.toml", "instruction.md", "environment", "environment/Dockerfile", "environment/repo", "tests",
        "tests/spec.json", "tests/test.sh", "tests/files", "solution", "solution/files",
    ],
)  # fmt: skip
def test_a_part_of_a_task_that_is_a_link_out_of_it_is_refused(whole: Path, tmp_path: Path, name: str) -> None:
    place, elsewhere = whole / name, tmp_path / "elsewhere"
    if place.exists():
        place.rename(elsewhere)
    else:
        elsewhere.mkdir()
    place.symlink_to(elsewhere)
    with pytest.raises(TaskError, match=rf"{name} leads out of the task"):
        Task.load(whole)


def test_a_task_may_be_reached_through_a_link_and_have_links_within_it(whole: Path, tmp_path: Path) -> None:
    (whole / "environment" / "repo").rename(whole / "shared")
    (whole / "environment" / "repo").symlink_to("../shared")
    (tmp_path / "linked").symlink_to(whole)
    assert Task.load(tmp_path / "linked").id == "linked"


@pytest.mark.parametrize("workdir", ["/../etc", "/app/../..", "/app/..", "app"])
def test_a_work_directory_that_leads_elsewhere_is_refused(whole: Path, workdir: str) -> None:
    text = (whole / "task.toml").read_text()
    assert 'workdir = "/app"' in text
    (whole / "task.toml").write_text(text.replace('workdir = "/app"', f'workdir = "{workdir}"'))
    with pytest.raises(TaskError, match="workdir"):
        Task.load(whole)


@pytest.mark.parametrize(
    ("path", "folder", "below"),
    [
        ("/app", "/app", True), ("/app/x", "/app", True), ("/app/x", "/app/", True), ("/apple", "/app", False),
        ("/app/../etc", "/app", False), ("/app//x", "/app", True), ("/x", "/", True), ("x", ".", True),
        ("a/b", "a", True), ("ab", "a", False), ("../x", ".", False), ("a/../../x", ".", False), (".", "a", False),
        ("//app/x", "/app", True),
    ],
)  # fmt: skip
def test_is_at_or_below(path: str, folder: str, below: bool) -> None:
    assert paths.is_at_or_below(path, folder) is below


def every(_: Path, __: int) -> bool:
    return True


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_a_link_takes_the_place_of_no_folder(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    make(tmp_path / "there")
    try:
        copy_tree(tmp_path / "link", tmp_path / "there", every)
    except LegoError:
        assert (tmp_path / "there").is_dir()
    else:
        assert (tmp_path / "there").is_symlink()
