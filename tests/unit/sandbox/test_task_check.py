"""What a trial would be refused for in an environment is found for every task before a run begins."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lego_rl.errors import LegoError, TaskError, UnservedTaskError
from lego_rl.sandbox.bubblewrap.provider import BubblewrapProvider
from lego_rl.sandbox.kubernetes.provider import KubernetesProvider
from lego_rl.sandbox.kubernetes.settings import KubernetesSettings
from lego_rl.sandbox.state import State
from lego_rl.sandbox.task_check import check_task
from lego_rl.tasks.build import write_task
from lego_rl.tasks.generate import generate
from lego_rl.tasks.task import Task

START = "FROM python:3.12\nWORKDIR /app\n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_task(generate(0, "comparison", 0), tmp_path_factory.mktemp("pool"))


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "task"))


@pytest.fixture
def provider(tmp_path: Path) -> BubblewrapProvider:
    return BubblewrapProvider(State(tmp_path / "state"))


def refused(folder: Path, provider: BubblewrapProvider) -> LegoError:
    with pytest.raises(LegoError) as caught:
        check_task(Task.load(folder), provider)
    assert caught.value.fix
    assert not provider.state.root.exists(), "nothing is copied or built"
    return caught.value


@pytest.mark.parametrize(
    ("lines", "kind", "said"),
    [
        ("RUN pip install x\nCOPY repo/ /app/\n", UnservedTaskError, "RUN needs an image build"),
        ("COPY --chown=a:b repo/ /app/\n", UnservedTaskError, "COPY --chown=a:b"),
        ("COPY <<EOF /app/x\nhi\nEOF\n", UnservedTaskError, "COPY <<EOF"),
        ("COPY *.py /app/\n", UnservedTaskError, "COPY [*].py"),
        ("COPY repo/ /etc/\n", UnservedTaskError, "outside the work directory"),
        ("COPY nothing/ /app/\n", TaskError, "has no nothing/"),
        ("COPY ../tests /app/\n", TaskError, r"has no \.\./tests"),
        ('COPY "repo/ /app/\n', TaskError, "No closing quotation"),
        ("ENV A='b\n", TaskError, "No closing quotation"),
        ("ENV A=b\0c\n", TaskError, "null character"),
    ],
)
def test_a_dockerfile_that_no_trial_could_use(
    folder: Path, provider: BubblewrapProvider, lines: str, kind: type[LegoError], said: str
) -> None:
    (folder / "environment/Dockerfile").write_text(START + lines)
    error = refused(folder, provider)
    assert type(error) in (kind, *kind.__subclasses__())
    with pytest.raises(LegoError, match=said):
        raise error


def in_place(change: Callable[[Path], object]) -> Callable[[Path], None]:
    """A change of the Dockerfile that is there."""

    def spoil(folder: Path) -> None:
        dockerfile = folder / "environment/Dockerfile"
        dockerfile.unlink()
        change(dockerfile)

    return spoil


@pytest.mark.parametrize(
    "spoil", [in_place(Path.mkdir), in_place(lambda path: path.write_bytes(b"\xff\xfe\0"))], ids=["folder", "bytes"]
)
def test_a_dockerfile_that_is_no_text(
    folder: Path, provider: BubblewrapProvider, spoil: Callable[[Path], None]
) -> None:
    spoil(folder)
    assert "cannot read" in refused(folder, provider).problem


def test_copy_as_json_is_what_it_is_as_words(folder: Path, provider: BubblewrapProvider) -> None:
    (folder / "environment/Dockerfile").write_text(f'{START}COPY ["repo/", "/app/"]\n')
    check_task(Task.load(folder), provider)
    assert list(provider.prepare(folder / "environment", workdir="/app").pristine.rglob("*.py"))


def test_an_image_that_is_not_unpacked(folder: Path, provider: BubblewrapProvider) -> None:
    toml = folder / "task.toml"
    toml.write_text(toml.read_text().replace("[environment]\n", '[environment]\ndocker_image = "python:3.12"\n'))
    assert "needs the image python:3.12" in refused(folder, provider).problem


def test_a_pod_of_no_image(folder: Path, tmp_path: Path) -> None:
    (folder / "environment/Dockerfile").unlink()
    with pytest.raises(UnservedTaskError, match="names no image"):
        check_task(Task.load(folder), KubernetesProvider(State(tmp_path), KubernetesSettings()))


@pytest.mark.parametrize("part", ["tests", "solution"])
def test_what_is_to_be_hidden_lies_in_the_environment(folder: Path, provider: BubblewrapProvider, part: str) -> None:
    (hidden,) = (path for path in (folder / part / "files").rglob("*") if path.is_file())
    place = folder / "environment/repo/odd/name.txt"
    place.parent.mkdir()
    shutil.copy(hidden, place)
    error = refused(folder, provider)
    name = hidden.relative_to(folder)
    assert error.problem == f"task task shows the agent environment/repo/odd/name.txt, which is its {name}"
    toml = folder / "task.toml"
    toml.write_text(toml.read_text().replace("[metadata]\n", f'[metadata]\nvisible = ["{name}"]\n'))
    check_task(Task.load(folder), provider)


def test_what_a_git_directory_holds_is_not_shown(folder: Path, provider: BubblewrapProvider) -> None:
    (hidden,) = (path for path in (folder / "tests/files").rglob("*") if path.is_file())
    (folder / "environment/repo/.git").mkdir()
    shutil.copy(hidden, folder / "environment/repo/.git/kept")
    check_task(Task.load(folder), provider)
