"""The root file systems that containers start from.

Invariant: a root is named by its content (an image id), so that agent phase and grading start from the same one; which
host's programs the `host_root` shows is what bubblewrap shows.
"""

import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lego_rl.errors import SandboxError
from lego_rl.sandbox.docker.answers import ImageConfig
from lego_rl.sandbox.docker.engine import Engine
from lego_rl.sandbox.docker.labels import IMAGE
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.paths import inside
from lego_rl.sandbox.state import State
from lego_rl.sandbox.system import PROGRAM_FOLDERS, generated_etc

HOST_IMAGE = "lego-rl/host"
CERTIFICATES = Path("/etc/ssl/certs")
EMPTY_FOLDERS = ("usr", "etc", "proc", "sys", "dev", "tmp", "var/tmp", "run", "logs", "home/agent", "opt")


@dataclass(frozen=True)
class Root:
    """What a container's root file system is made of.

    Attributes:
        image: Id of the image.
        mounts: What of the host is shown in it.
        offline: The same, where it has no network: files that Docker would write with what it knows of the host.
        online: The same, where it has one.
        workdir: The image's own work directory, empty where it names none.
        env: The image's own environment variables.
        volumes: Folders that the image would have filled without bounds.
        is_host: Whether the programs in it are the host's own.
    """

    image: str
    mounts: tuple[Mount, ...]
    offline: tuple[Mount, ...] = ()
    online: tuple[Mount, ...] = ()
    workdir: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    volumes: tuple[str, ...] = ()
    is_host: bool = False


def host_root(engine: Engine, state: State, uid: int) -> Root:
    """The host's own programs below an image that holds nothing but folders and links.

    Args:
        engine: Where the image is made, once.
        state: Where the generated ``/etc`` is kept.
        uid: Who the agent is.
    """
    content = _bare_root()
    name = f"{HOST_IMAGE}:{hashlib.sha256(content).hexdigest()[:12]}"
    found = engine.image(name)
    if found is None:
        engine.import_image(content, name, {IMAGE: "host"})
        found = engine.image(name)
    if found is None:
        raise SandboxError(f"Docker did not keep the image {name}", "look at the daemon's log")
    mounts = [Mount(path, str(path)) for path in (Path("/usr"), *_program_folders()) if not path.is_symlink()]
    etc = generated_etc(state, uid)
    mounts += [Mount(etc, "/etc"), Mount(etc / "hostname", "/etc/hostname")]
    if (alternatives := Path("/etc/alternatives")).is_dir():
        mounts.append(Mount(alternatives, str(alternatives)))
    online = [Mount(etc / "nsswitch-dns.conf", "/etc/nsswitch.conf")]
    if CERTIFICATES.is_dir():
        online.append(Mount(CERTIFICATES, str(CERTIFICATES)))
    return Root(found.id, tuple(mounts), offline=_no_names(etc), online=tuple(online), is_host=True)


def _no_names(etc: Path) -> tuple[Mount, ...]:
    return tuple(Mount(etc / name, f"/etc/{name}") for name in ("hosts", "resolv.conf"))


def image_root(engine: Engine, name: str, state: State, uid: int) -> Root:
    """An image that the daemon has; names of users and hosts in it are the generated ones.

    Raises:
        SandboxError: The daemon does not have it. It is never pulled: what a run starts from is decided before it.
    """
    found = engine.image(name)
    if found is None:
        raise SandboxError(f"Docker has no image {name} here", f"docker pull {name}")
    config = found.config or ImageConfig()
    etc = generated_etc(state, uid)
    variables = (pair.partition("=") for pair in config.env or ())
    return Root(
        image=found.id,
        mounts=tuple(Mount(etc / name, f"/etc/{name}") for name in ("passwd", "group", "hostname")),
        offline=_no_names(etc),
        workdir=inside("/", config.working_dir or "").rstrip("/"),
        env={key: value for key, _, value in variables},
        volumes=tuple(config.volumes or ()),
    )


def _program_folders() -> list[Path]:
    return [path for name in PROGRAM_FOLDERS if (path := Path("/", name)).is_dir()]


def _bare_root() -> bytes:
    """A tar with the folders to mount at, and the host's links to its program folders."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name in EMPTY_FOLDERS:
            tar.addfile(_entry(name, tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755))
        for path in _program_folders():
            entry = _entry(path.name, tarfile.SYMTYPE if path.is_symlink() else tarfile.DIRTYPE)
            entry.linkname = str(path.readlink()) if path.is_symlink() else ""
            tar.addfile(entry)
    return content.getvalue()


def _entry(name: str, kind: bytes, mode: int = 0o755) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = kind, mode
    return entry
