"""Tasks that come as images: named, built, or laid over a root; nothing of it needs a registry."""

import io
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sandbox_tools import REPOSITORY, least_root, shell, write_files

from git_tools import commit, git, init
from lego_rl.errors import SandboxError, TaskError
from lego_rl.sandbox.docker.engine import Engine
from lego_rl.sandbox.docker.preflight import engine_of
from lego_rl.sandbox.docker.provider import DockerProvider
from lego_rl.sandbox.grading import grade
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.seal import verify_seal
from lego_rl.sandbox.seal_request import SealRequest
from lego_rl.sandbox.state import State
from lego_rl.tasks.history import History
from lego_rl.tasks.task import Task

pytestmark = pytest.mark.docker

BASE = "lego-rl-test/base:1"
BUILT = f"""FROM {BASE} AS first
FROM first
ENV COLOUR=red PATH=/own/bin:/usr/bin:/bin
WORKDIR /srv/work
COPY repo/ ./
RUN mkdir made && touch made/by-build && ln -s / outside && ln calc/core.py hard && chmod 600 calc/core.py
VOLUME /data
"""


@pytest.fixture(scope="module")
def engine(docker_host: str) -> Engine:
    return engine_of(docker_host)


@pytest.fixture(scope="module")
def provider(engine: Engine, state: State) -> DockerProvider:
    return DockerProvider(state, engine)


@pytest.fixture(scope="module")
def base(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image of the least that a shell needs, with a file in /app."""
    root = least_root(tmp_path_factory.mktemp("base"))
    write_files(root, {"app/from-image.txt": "image\n", "app/calc/data.txt": "of the image\n"})
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.add(root, arcname=".")
    engine.import_image(content.getvalue(), BASE, {"of": "tests"})
    return BASE


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    write_files(tmp_path / "environment" / "repo", REPOSITORY)
    return tmp_path / "environment"


async def test_a_dockerfile_that_needs_a_build(
    provider: DockerProvider, base: str, environment: Path, task: Task
) -> None:
    write_files(environment, {"Dockerfile": BUILT})
    image = provider.prepare(environment, workdir="/app")
    assert image.workdir == "/srv/work"
    assert not image.pristine.joinpath("outside").is_dir() or image.pristine.joinpath("outside").is_symlink()
    box = await image.start(Phase.AGENT, limits=Limits(scratch_mb=4))
    try:
        await verify_seal(box, None)
        done = await shell(box, "pwd; ls made; cat hard; echo $COLOUR $PATH; cat /etc/passwd")
        lines = done.stdout.splitlines()
        assert lines[:2] == ["/srv/work", "by-build"]
        assert "red /own/bin:/usr/bin:/bin:/opt/toolchain/bin" in lines
        assert lines[-2].startswith("agent:")
        for place in ("/", "/usr", "/opt"):
            assert "Read-only" in (await shell(box, f"touch {place}/x")).stderr
        await shell(box, "head -c 9000000 /dev/zero > /data/big")
        assert int((await shell(box, "stat -c %s /data/big")).stdout) <= 4 << 20
        await shell(box, "sed -i 's/a - b/a + b/' calc/core.py; rm -r made; touch new")
        await box.kill()
        patch = (await box.snapshot()).diff(image.pristine)
    finally:
        await box.close()
    assert [(change.path, change.kind) for change in patch.changes] == [
        ("calc/core.py", "file"), ("made/by-build", "deleted"), ("new", "file"),
    ]  # fmt: skip
    verdict = await grade(replace(task, workdir=image.workdir), patch, image)
    assert verdict.reward == 1, verdict.log
    assert provider.prepare(environment, workdir="/app") == image


def test_what_a_dockerignore_leaves_out_is_in_no_image(provider: DockerProvider, base: str, environment: Path) -> None:
    write_files(environment, {
        ".dockerignore": "Dockerfile\n**/secret*\nnotes\n!notes/kept.md\n",
        "Dockerfile": f"FROM {base}\nWORKDIR /srv\nCOPY . ./\n",
        "repo/secret.txt": "s\n",
        "notes/kept.md": "k\n",
        "notes/other.md": "o\n",
    })  # fmt: skip
    image = provider.prepare(environment, workdir="/app")
    files = {path.relative_to(image.pristine).as_posix() for path in image.pristine.rglob("*") if path.is_file()}
    assert {"repo/calc/core.py", "notes/kept.md"} <= files
    assert not files & {"repo/secret.txt", "notes/other.md"}


def test_a_destination_above_the_work_directory_is_built(
    provider: DockerProvider, base: str, environment: Path, tmp_path: Path
) -> None:
    """Without a build it would be a copy to outside of the prepared files."""
    text = f"FROM {base}\nWORKDIR /srv/work\nCOPY repo/ ./\nCOPY repo/calc/core.py ../../../../written/\n"
    write_files(environment, {"Dockerfile": text})
    image = provider.prepare(environment, workdir="/app")
    assert image.workdir == "/srv/work"
    assert (image.pristine / "calc" / "core.py").is_file()
    assert not list(image.pristine.rglob("written"))
    assert not list(tmp_path.rglob("written"))


async def test_an_image_that_a_task_names(provider: DockerProvider, base: str, environment: Path) -> None:
    image = provider.prepare(environment, workdir="/app", docker_image=base)
    files = {path.relative_to(image.pristine).as_posix() for path in image.pristine.rglob("*") if path.is_file()}
    assert files == {"from-image.txt", *REPOSITORY}
    assert (image.pristine / "calc" / "data.txt").read_text() == "one\n"
    box = await image.start(Phase.AGENT)
    try:
        assert (await shell(box, "cat from-image.txt; ls /usr")).stdout == "image\nbin\nlib\nlib64\n"
        assert await box.holes(SealRequest(("/tests",))) == []
    finally:
        await box.close()


async def test_what_from_names(provider: DockerProvider, base: str, environment: Path) -> None:
    write_files(environment, {"Dockerfile": f"FROM {base}\nENV A=1\nCOPY repo/ /app/\n"})
    for setting in ("task", base):
        image = replace(provider, base=setting).prepare(environment, workdir="/app")
        assert (image.pristine / "from-image.txt").is_file()
        assert image.prepared.env["A"] == "1"
    host = provider.prepare(environment, workdir="/app")
    assert not (host.pristine / "from-image.txt").exists()


def test_nothing_is_pulled(provider: DockerProvider, environment: Path) -> None:
    with pytest.raises(SandboxError, match="no image no/such:1 here") as caught:
        provider.prepare(environment, workdir="/app", docker_image="no/such:1")
    assert caught.value.fix == "docker pull no/such:1"
    for dockerfile in ("FROM no/such:2 AS x\nRUN true\n", "FROM no/such:2\nADD repo /app\n"):
        write_files(environment, {"Dockerfile": dockerfile})
        with pytest.raises(SandboxError, match="starts from no/such:2") as caught:
            provider.prepare(environment, workdir="/app")
        assert caught.value.fix == "docker pull no/such:2"


def test_a_build_that_fails_says_what_it_printed(provider: DockerProvider, base: str, environment: Path) -> None:
    write_files(environment, {"Dockerfile": f"FROM {base}\nRUN cat /not/there\n"})
    with pytest.raises(SandboxError, match="not/there"):
        provider.prepare(environment, workdir="/app")


def test_a_task_without_anything(provider: DockerProvider, tmp_path: Path) -> None:
    (tmp_path / "environment").mkdir()
    with pytest.raises(TaskError, match="neither a Dockerfile nor repo/"):
        provider.prepare(tmp_path / "environment", workdir="/app")


async def test_an_image_that_cannot_run_the_first_process(
    provider: DockerProvider, engine: Engine, environment: Path, state: State
) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("empty"))
    engine.import_image(content.getvalue(), "lego-rl-test/empty:1", {"of": "tests"})
    image = provider.prepare(environment, workdir="/app", docker_image="lego-rl-test/empty:1")
    with pytest.raises(SandboxError, match="no such file") as caught:
        await image.start(Phase.AGENT)
    assert caught.value.fix
    assert not list(state.runs.iterdir())


async def test_the_git_history_of_an_image_is_sealed(
    provider: DockerProvider, base: str, environment: Path, tmp_path: Path
) -> None:
    repository = init(environment / "repo")
    commit(repository, {})
    git(repository, "checkout", "-q", "-b", "future")
    fix = commit(repository, {"calc/core.py": "fixed"})
    git(repository, "checkout", "-q", "work")
    write_files(environment, {"Dockerfile": f"FROM {base}\nWORKDIR /app\nCOPY repo/ ./\nRUN touch built\n"})
    image = provider.prepare(environment, workdir="/app", history=History(grading="full"))
    place = f"/app/.git/objects/{fix[:2]}/{fix[2:]}"
    seen = {}
    for phase in Phase:
        box = await image.start(phase)
        try:
            if phase is Phase.AGENT:
                await verify_seal(box, None)
            seen[phase] = (await shell(box, f"cat .git/HEAD; ls {place} .git/refs/heads/future built")).stdout
        finally:
            await box.close()
    assert "built" in seen[Phase.AGENT]
    assert fix[2:] not in seen[Phase.AGENT]
    assert "future" not in seen[Phase.AGENT]
    assert {fix[2:], "future"} <= {Path(line).name for line in seen[Phase.GRADING].splitlines()}


async def test_a_repository_elsewhere_in_an_image_is_a_hole(
    provider: DockerProvider, base: str, environment: Path
) -> None:
    commit(init(environment / "repo" / "other"), {"secret.txt": "the fix"})
    write_files(
        environment, {"Dockerfile": f"FROM {base}\nWORKDIR /app\nCOPY repo/ /opt/kept/\nRUN chmod -R a+rX /opt\n"}
    )
    box = await provider.prepare(environment, workdir="/app").start(Phase.AGENT)
    try:
        with pytest.raises(SandboxError, match=r"not sealed: /opt/kept/other/\.git.*remove it from the image"):
            await verify_seal(box, None)
    finally:
        await box.close()


async def test_a_hidden_test_elsewhere_in_an_image_is_a_hole(
    provider: DockerProvider, base: str, environment: Path, task_dir: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "shows"
    shutil.copytree(task_dir, folder)
    shutil.copy(folder / "tests" / "files" / "tests" / "test_hidden.py", environment / "repo" / "kept.txt")
    lines = f"FROM {base}\nWORKDIR /app\nRUN mkdir -p /opt/kept\nCOPY repo/kept.txt /opt/kept/a\nRUN touch built\n"
    write_files(environment, {"Dockerfile": lines})
    box = await provider.prepare(environment, workdir="/app").start(Phase.AGENT)
    try:
        with pytest.raises(SandboxError, match=r"/opt/kept/a is tests/files/tests/test_hidden\.py .*from its image"):
            await verify_seal(box, Task.load(folder))
    finally:
        await box.close()


KILLED_BUILDING = """
import io, sys, tarfile
from pathlib import Path
from lego_rl.sandbox.docker.engine import Engine
text = f"FROM {sys.argv[2]}\\nRUN while true; do :; done\\n".encode()
context = io.BytesIO()
with tarfile.open(fileobj=context, mode="w") as tar:
    entry = tarfile.TarInfo("Dockerfile")
    entry.size = len(text)
    tar.addfile(entry, io.BytesIO(text))
context.seek(0)
Engine(Path(sys.argv[1])).build(context, "lego-rl-test/endless:1", {"of": "tests"})
"""


def test_a_build_ends_with_the_process_that_asked_for_it(engine: Engine, base: str) -> None:
    before = {found.id for found in engine.containers({})}

    def building() -> bool:
        return any(found.id not in before for found in engine.containers({}))

    with subprocess.Popen([sys.executable, "-c", KILLED_BUILDING, str(engine.socket), base]) as process:
        wait_until(building)
        process.kill()
    wait_until(lambda: not building())


def wait_until(seen: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.05)
