"""From a task's environment folder to a pristine tree."""

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from git_tools import git, init
from lego_rl.errors import LegoError, SandboxError, TaskError
from lego_rl.sandbox import image as image_module
from lego_rl.sandbox.dockerfile import NeedsBuildError, read_dockerfile
from lego_rl.sandbox.git.layers import build_layers
from lego_rl.sandbox.git.manifest import HistorySeal
from lego_rl.sandbox.image import prepare_image
from lego_rl.sandbox.mounts import read_only
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.state import State
from lego_rl.tasks.history import History


@pytest.mark.parametrize("line", ["RUN pip install $X", "COPY a b c", "COPY --from=x a b", "ADD a b", "USER me", "ENV"])
def test_dockerfile_that_needs_a_build(tmp_path: Path, line: str) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM x\n# a comment\n{line}\n")
    with pytest.raises(SandboxError, match=rf"{line.split(maxsplit=1)[0]} .*(build|not supported|without)"):
        read_dockerfile(tmp_path / "Dockerfile")


def test_a_second_stage_needs_a_build(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM x AS a\nCOPY b c\nFROM y\nCOPY d e\n")
    with pytest.raises(NeedsBuildError, match="more than one stage"):
        read_dockerfile(tmp_path / "Dockerfile")


@pytest.mark.parametrize("line", ["ENV PATH=/x:$PATH", "ENV A ${B}", "WORKDIR $HOME", "COPY $SOURCE/ ."])
def test_a_variable_is_refused_not_taken_literally(tmp_path: Path, line: str) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM $BASE\n{line}\n")
    with pytest.raises(SandboxError, match="uses a variable") as caught:
        read_dockerfile(tmp_path / "Dockerfile")
    assert line in caught.value.problem
    assert caught.value.fix == "write the value out"


def test_dockerfile_subset(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        'FROM python:3.12\nWORKDIR /srv\nWORKDIR app\nENV A=1 B="two words"\nENV C three four\nCOPY repo/ .\n'
        "copy extra.txt \\\n  sub/\n"
    )
    recipe = read_dockerfile(tmp_path / "Dockerfile")
    assert recipe.workdir == "/srv/app"
    assert recipe.env == {"A": "1", "B": "two words", "C": "three four"}
    assert recipe.copies == [("repo/", "/srv/app/"), ("extra.txt", "/srv/app/sub/")]


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    folder = tmp_path / "environment"
    (folder / "repo" / ".git").mkdir(parents=True)
    (folder / "repo" / ".git" / "HEAD").write_text("x")
    (folder / "repo" / "a.py").write_text("a")
    (folder / "repo" / "run").write_text("r")
    (folder / "repo" / "run").chmod(0o700)
    (folder / "repo" / "out").symlink_to("/etc/passwd")
    (folder / "extra.txt").write_text("extra")
    return folder


def test_pristine_tree(environment: Path, tmp_path: Path) -> None:
    (environment / "Dockerfile").write_text("WORKDIR /w\nCOPY repo/ /w/\nCOPY extra.txt data/\nENV K=v\n")
    image = prepare_image(environment, State(tmp_path / "state"), workdir="/app")
    tree = {path.relative_to(image.pristine).as_posix() for path in image.pristine.rglob("*")}
    assert tree == {"a.py", "run", "out", "data", "data/extra.txt"}
    assert (image.workdir, dict(image.env)) == ("/w", {"K": "v"})
    assert (image.pristine / "a.py").stat().st_mode & 0o777 == 0o644
    assert (image.pristine / "run").stat().st_mode & 0o777 == 0o755
    assert os.fspath((image.pristine / "out").readlink()) == "/etc/passwd"


def test_a_changed_source_is_another_tree(environment: Path, tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    first = prepare_image(environment, state, workdir="/app")
    assert prepare_image(environment, state, workdir="/app") == first
    (environment / "repo" / "a.py").write_text("another")
    second = prepare_image(environment, state, workdir="/app")
    assert second.pristine != first.pristine
    assert (first.pristine / "a.py").read_text() == "a"
    assert (second.pristine / "a.py").read_text() == "another"


@pytest.mark.parametrize(
    ("dockerfile", "error"),
    [
        ("WORKDIR /w\nCOPY absent/ /w\n", TaskError),
        ("WORKDIR /w\nCOPY ../state /w\n", TaskError),
        ("WORKDIR /w\nCOPY repo/ /elsewhere\n", SandboxError),
    ],
)
def test_copies_that_lead_elsewhere(environment: Path, tmp_path: Path, dockerfile: str, error: type[LegoError]) -> None:
    (tmp_path / "state").mkdir()
    (environment / "Dockerfile").write_text(dockerfile)
    with pytest.raises(error):
        prepare_image(environment, State(tmp_path / "state"), workdir="/app")


def test_an_empty_environment(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="neither a Dockerfile nor repo/"):
        prepare_image(tmp_path, State(tmp_path / "state"), workdir="/app")


def test_a_root_that_is_none(environment: Path, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="no root file system"):
        prepare_image(environment, State(tmp_path / "state"), workdir="/app", rootfs=tmp_path)


@pytest.mark.parametrize("target", ["relative", "/", "/a/../b"])
def test_bad_mount_targets(tmp_path: Path, target: str) -> None:
    with pytest.raises(SandboxError, match="cannot mount"):
        read_only({target: str(tmp_path)})


def test_a_mount_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="does not exist"):
        read_only({"/opt/harness": str(tmp_path / "absent")})


def test_trials_of_a_group_prepare_their_image_once(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = []

    def slow_build(*arguments: Any) -> HistorySeal:
        builds.append(arguments)
        time.sleep(0.1)
        return build_layers(*arguments)

    monkeypatch.setattr("lego_rl.sandbox.image.build_layers", slow_build)
    state = State(tmp_path / "state")
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(prepare_image, environment, state, workdir="/app") for _ in range(4)]
        assert len({str(each.result().pristine) for each in waiting}) == 1
    assert len(builds) == 1


def test_another_wish_for_the_history_is_another_image(environment: Path, tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    first = prepare_image(environment, state, workdir="/app", history=History(agent="none"))
    second = prepare_image(environment, state, workdir="/app", history=History(agent="single-commit"))
    assert first.history.repositories == ()
    assert [one.git_dir for one in second.history.repositories] == ["/app/.git"]
    assert first.git_of_work_tree(Phase.AGENT) is None
    assert second.git_of_work_tree(Phase.AGENT) == second.git_of_work_tree(Phase.GRADING)


def test_a_git_directory_that_is_copied_by_itself(environment: Path, tmp_path: Path) -> None:
    (environment / "Dockerfile").write_text("WORKDIR /app\nCOPY repo/a.py /app/\nCOPY repo/.git /app/.git\n")
    shutil.rmtree(environment / "repo" / ".git")
    git(init(environment / "repo"), "add", "a.py")
    git(environment / "repo", "commit", "-q", "-m", "one")
    git(environment / "repo", "tag", "secret")
    image = prepare_image(environment, State(tmp_path / "state"), workdir="/app")
    assert [path.name for path in image.pristine.iterdir()] == ["a.py"]
    layer = image.git_of_work_tree(Phase.AGENT)
    assert layer is not None
    assert git(layer / ".git", "for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_what_cannot_be_copied_in_time_leaves_nothing(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = State(tmp_path / "state")
    monkeypatch.setattr(image_module, "COPY_SECONDS", 0.0)
    with pytest.raises(SandboxError, match=r"copying .* did not end within 0 s"):
        prepare_image(environment, state, workdir="/app")
    assert list(state.pristine.iterdir()) == []
    monkeypatch.undo()
    assert prepare_image(environment, state, workdir="/app").pristine.is_dir()
