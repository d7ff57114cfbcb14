"""What a daemon answers, as far as sandboxes read it.

Invariant: an answer is checked as a whole when it comes, so whoever reads a field of it has one of its type.

Source: the Engine API reference, of which every field here is a part under the same name. Lists and objects may be
``null``.
"""

from typing import Any

import msgspec


class Answer(msgspec.Struct, frozen=True, rename="pascal"):
    """Some object of the reference."""


class Info(Answer, frozen=True):
    """Of ``/info``."""

    kernel_version: str = ""
    os_type: str = msgspec.field(name="OSType", default="")
    security_options: tuple[str, ...] | None = None
    memory_limit: bool = False
    pids_limit: bool = False


class ImageConfig(Answer, frozen=True):
    """What an image says of the containers that start from it."""

    env: tuple[str, ...] | None = None
    working_dir: str | None = None
    volumes: dict[str, Any] | None = None


class Image(Answer, frozen=True):
    """Of ``/images/NAME/json``."""

    id: str
    config: ImageConfig | None = None


class ContainerState(Answer, frozen=True):
    """How a container is, or ended."""

    pid: int
    exit_code: int
    out_of_memory: bool = msgspec.field(name="OOMKilled")


class Container(Answer, frozen=True):
    """Of ``/containers/NAME/json``."""

    state: ContainerState


class ListedContainer(Answer, frozen=True):
    """Of ``/containers/json``."""

    id: str
    state: str = ""
    names: tuple[str, ...] | None = None
    labels: dict[str, str] | None = None


class Volume(Answer, frozen=True):
    """Of ``/volumes``."""

    name: str
    labels: dict[str, str] | None = None


class Volumes(Answer, frozen=True):
    """``/volumes``."""

    volumes: tuple[Volume, ...] | None = None


class Progress(Answer, frozen=True, rename=None):
    """A line of a call that reports as it goes."""

    stream: str = ""
    error: str = ""


class Refusal(Answer, frozen=True, rename=None):
    """Why a call was refused."""

    message: str
