"""What a recipe may say of sandboxes.

Invariant: importing this module imports neither Harbor nor torch, so that a recipe can be read without them.
"""

import hashlib
import json
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lego_rl.sandbox.kubernetes.settings import KubernetesSettings
from lego_rl.sandbox.limits import Limits
from lego_rl.settings import FolderPath, Settings

type _Place = Annotated[str, Field(pattern=r"^[^\s:/]+:[1-9][0-9]{0,4}$")]


class DockerSettings(Settings):
    """What sandboxes need to know of Docker, where it isolates them."""

    host: str | None = None
    """The daemon, as ``unix:///PATH`` of its socket; what ``DOCKER_HOST`` names, else the machine's own, if unset."""
    image: str = Field(default="host", min_length=1)
    """Root file system of tasks whose Dockerfile needs no build: ``host``, the host's own programs, read-only;
    ``task``, what its ``FROM`` names; or the name of an image."""


class SandboxSettings(Settings):
    """What every sandbox of a run is given; a task's own memory and disk limits come first."""

    environment: Literal["bubblewrap", "docker", "kubernetes"] = "bubblewrap"
    """How sandboxes are isolated."""
    rootfs: FolderPath | None = None
    """Folder of an unpacked image to use as the root file system; the host's own programs, read-only, if unset."""
    docker: DockerSettings = DockerSettings()
    """Of the environment ``docker``."""
    kubernetes: KubernetesSettings = KubernetesSettings()
    """Of the environment ``kubernetes``."""
    state: FolderPath | None = None
    """Folder for prepared work trees and running sandboxes; the user's cache folder if unset."""
    processes: int | None = Field(default=None, ge=16)
    """Most processes and threads of one sandbox."""
    disk_mb: int | None = Field(default=None, ge=1)
    """Most that a sandbox may write to the disk, work tree and report together, in MiB, for tasks that set no
    ``storage_mb``. A trial has two sandboxes."""
    scratch_mb: int | None = Field(default=None, ge=1)
    """Size of each temporary file system, in MiB."""
    services: dict[_Place, _Place] = Field(default_factory=dict)
    """Where services are that tasks name in ``[verifier] allowed_hosts``, if not where their names lead: ``HOST:PORT``
    as the task names it to ``ADDRESS:PORT`` as this machine reaches it. Only tests reach them, never an agent."""
    grading_sec: float | None = Field(default=None, gt=0)
    """Caps the seconds of a task's tests, its ``[verifier] timeout_sec``; tests that take longer have not passed."""

    def limits(self, memory_mb: int | None, storage_mb: int | None) -> Limits:
        """The limits of one sandbox.

        Args:
            memory_mb: Those that the task itself sets, in MiB.
            storage_mb: See `memory_mb`.
        """
        chosen = {
            "processes": self.processes,
            "scratch_mb": self.scratch_mb,
            "memory_mb": memory_mb,
            "disk_mb": self.disk_mb if storage_mb is None else storage_mb,
        }
        return Limits(**{name: value for name, value in chosen.items() if value is not None})

    @property
    def fingerprint(self) -> str:
        """Tells settings apart, but for folders of this machine's own: what was found in sandboxes of one fingerprint
        need not be found out again."""
        said = json.dumps(self.model_dump(mode="json", exclude={"state"}), sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()[:16]

    @model_validator(mode="after")
    def _the_root_is_the_environments(self) -> Self:
        if self.rootfs is not None and self.environment != "bubblewrap":
            raise ValueError(
                "sandbox.rootfs is for bubblewrap; Docker has sandbox.docker.image, Kubernetes sandbox.kubernetes.image"
            )
        return self
