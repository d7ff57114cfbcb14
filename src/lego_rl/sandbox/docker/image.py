"""A task's image, and how it is made of the task's ``environment/`` folder.

Invariant: an image is made once for each state of what it is made of, from images that the daemon has; agent phase and
grading start from the same one, whose work tree is a private copy that no container can write.

A Dockerfile that needs no build is read as bubblewrap reads it, below the root that the settings name; any other is
built by the daemon.
"""

import fcntl
import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from lego_rl.errors import SandboxError
from lego_rl.sandbox.copies import copied, recipe_of
from lego_rl.sandbox.docker.box import DockerSandbox
from lego_rl.sandbox.docker.engine import Engine
from lego_rl.sandbox.docker.labels import IMAGE
from lego_rl.sandbox.docker.origin import Origin
from lego_rl.sandbox.docker.root import Root, host_root, image_root
from lego_rl.sandbox.docker.tree import tree_of
from lego_rl.sandbox.dockerfile import NeedsBuildError, Recipe, instructions
from lego_rl.sandbox.dockerignore import Ignored
from lego_rl.sandbox.image import fingerprint, image_of
from lego_rl.sandbox.limits import DEFAULT_LIMITS, Limits
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.outside_user import owner_uid
from lego_rl.sandbox.provider import check_phase
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.state import State
from lego_rl.sandbox.toolchain import prepare_toolchain
from lego_rl.tasks.history import History
from lego_rl.tasks.network import NO_NETWORK, Network

HOST, TASK = "host", "task"
"""Values of ``sandbox.docker.image``: the host's own programs, and what a Dockerfile's ``FROM`` names."""
BUILT = "lego-rl/task"
CONTEXT = "2"
"""Changes when a build would be given something else of an unchanged folder."""
FROM = re.compile(r"FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE)


@dataclass(frozen=True)
class DockerImage(Origin):
    """See `TaskImage`.

    Attributes:
        services: Where hosts are that tasks name, if not where their names lead (`SandboxSettings.services`).
    """

    services: Mapping[str, str] = field(default_factory=dict)

    async def start(
        self,
        phase: Phase,
        *,
        mounts: Sequence[Mount] = (),
        limits: Limits = DEFAULT_LIMITS,
        network: Network = NO_NETWORK,
    ) -> DockerSandbox:
        """See `TaskImage.start`."""
        check_phase(phase, network)
        return await DockerSandbox.start(self, phase, network, mounts=mounts, limits=limits, services=self.services)


@dataclass(frozen=True)
class ImageMaker:
    """The three ways to a task's image.

    Attributes:
        engine: The daemon.
        state: Where work trees are kept.
        services: See `DockerImage`.
        environment: The task's folder with a Dockerfile, a ``repo/`` folder, or both.
        workdir: The work directory where neither a Dockerfile nor an image names one.
        history: How much of its git history the task shows, and when.
    """

    engine: Engine
    state: State
    services: Mapping[str, str]
    environment: Path
    workdir: str
    history: History

    def made(self, docker_image: str | None, base: str) -> DockerImage:
        """Make the image, the way that the task asks for.

        Args:
            docker_image: The image that the task names instead of a Dockerfile.
            base: Root of tasks whose Dockerfile needs no build: `HOST`, `TASK`, or the name of an image.

        Raises:
            TaskError: There is nothing to make a work tree of.
            SandboxError: The image cannot be made here.
        """
        if docker_image is not None:
            return self.named(docker_image)
        try:
            return self.unbuilt(base)
        except NeedsBuildError:
            return self.built()

    def check(self, docker_image: str | None, base: str) -> None:
        """See, without copying or building anything, whether `made` can do its part.

        Raises:
            TaskError: There is nothing to make a work tree of.
            SandboxError: An image that it starts from is not here.
        """
        needed = [docker_image] if docker_image is not None else self._starts_from(base)
        for name in needed:
            self._check_here(name)

    def _starts_from(self, base: str) -> list[str]:
        """The images that a task without one of its own starts from, but for the host's."""
        try:
            recipe = recipe_of(self.environment, self.workdir)
            copied(self.environment, recipe)
            return [] if base == HOST else [_plain_base(self.environment, recipe) if base == TASK else base]
        except NeedsBuildError:
            return list(bases(self._dockerfile()))

    def _check_here(self, name: str) -> None:
        if self.engine.image(name) is None:
            raise SandboxError(
                f"task {self.environment.parent.name} starts from {name}, which Docker does not have",
                f"docker pull {name}",
            )

    def _dockerfile(self) -> Path:
        dockerfile = self.environment / "Dockerfile"
        if not dockerfile.is_file():
            raise SandboxError(
                f"task {self.environment.parent.name} has no Dockerfile to start from", "set sandbox.docker.image"
            )
        return dockerfile

    def named(self, name: str) -> DockerImage:
        """What a task names; the repository, where there is one beside it, lies over what the image has."""
        root = image_root(self.engine, name, self.state, owner_uid())
        workdir = root.workdir or self.workdir
        copies = [("repo", workdir)] if (self.environment / "repo").is_dir() else []
        return self._image(root, Recipe(workdir, copies=copies))

    def unbuilt(self, base: str) -> DockerImage:
        """What a Dockerfile that needs no build, or none at all, puts over a root."""
        name = base
        if base == TASK:
            name = _plain_base(self.environment, recipe_of(self.environment, self.workdir))
        if base == HOST:
            root = host_root(self.engine, self.state, owner_uid())
        else:
            root = image_root(self.engine, name, self.state, owner_uid())
        workdir = root.workdir or self.workdir
        return self._image(root, recipe_of(self.environment, workdir, start=root.workdir or "/"))

    def built(self) -> DockerImage:
        """What the daemon makes of a Dockerfile; built once for each state of the folder.

        Raises:
            SandboxError: A base image is missing, or a step failed.
        """
        for base in bases(self._dockerfile()):
            self._check_here(base)
        name = f"{BUILT}:{fingerprint([self.environment], CONTEXT)}"
        with _one_at_a_time(self.state):
            if self.engine.image(name) is None:
                with built_context(self.environment) as context:
                    self.engine.build(context, name, {IMAGE: "task"})
        root = image_root(self.engine, name, self.state, owner_uid())
        return self._image(root, Recipe(root.workdir or self.workdir))

    def _image(self, root: Root, recipe: Recipe) -> DockerImage:
        if recipe.workdir == "/":
            raise SandboxError(
                f"the work directory of {self.environment.parent.name} is /", "name a folder with WORKDIR"
            )
        below = tree_of(self.engine, root, recipe.workdir, self.state)
        image = image_of(self.environment, recipe, self.state, self.history, base=below, rootfs=None)
        return DockerImage(
            prepared=replace(image, env={**root.env, **recipe.env}),
            engine=self.engine,
            root=root,
            toolchain=prepare_toolchain(self.state, below_folder_root=not root.is_host),
            state=self.state,
            uid=owner_uid(),
            services=self.services,
        )


def _plain_base(environment: Path, recipe: Recipe) -> str:
    if not re.fullmatch(r"[^\s$]+", recipe.base):
        raise NeedsBuildError(f"{environment} does not plainly name what it starts from", "write FROM NAME")
    return recipe.base


def bases(dockerfile: Path) -> Iterator[str]:
    """The images that a Dockerfile starts from, without its own stages and what it makes of variables."""
    stages = {"scratch"}
    for found in filter(None, map(FROM.match, instructions(dockerfile))):
        if found[1].lower() not in stages and "$" not in found[1]:
            yield found[1]
        stages.add((found[2] or "").lower())


@contextmanager
def built_context(environment: Path) -> Iterator[IO[bytes]]:
    """A tar of what a build is given of a folder; the daemon leaves out nothing by itself.

    Raises:
        TaskError: Its ``.dockerignore`` cannot be read.
    """
    root, ignored = environment.resolve(), Ignored.by(environment)
    with tempfile.TemporaryFile() as context:
        with tarfile.open(fileobj=context, mode="w") as tar:
            tar.add(root, arcname=".", recursive=False)
            for path in sorted(root.rglob("*")):
                name = path.relative_to(root).as_posix()
                if not ignored.leaves_out(name):
                    tar.add(path, arcname=name, recursive=False)
        context.seek(0)
        yield context


@contextmanager
def _one_at_a_time(state: State) -> Iterator[None]:
    """Trials of one task start together, and their image is to be built once."""
    state.root.mkdir(parents=True, exist_ok=True)
    with (state.root / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
