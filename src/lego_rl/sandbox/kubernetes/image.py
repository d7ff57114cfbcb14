"""A task's image on a cluster, and the work tree that its sandboxes start with.

Invariant: the pristine tree on the host is what a fresh pod of the image showed, with what the task lays over it. It is
fetched once for each state of an image, by a pod in which nothing but the keeper runs, and a sandbox whose node has
another state of the image is refused.
"""

import asyncio
import hashlib
import threading
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from lego_rl.errors import SandboxError
from lego_rl.sandbox.image import Image, prepare_image
from lego_rl.sandbox.kubernetes import evidence, manifests, tree
from lego_rl.sandbox.kubernetes.labels import new_name
from lego_rl.sandbox.kubernetes.manifests import KEEPER, PodPlan
from lego_rl.sandbox.kubernetes.pod import PodSandbox, create_pod, open_stream, wait_for
from lego_rl.sandbox.kubernetes.run import Run, use
from lego_rl.sandbox.kubernetes.settings import KubernetesSettings
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.state import State

PRISTINE_LIMITS = Limits(disk_mb=1)
"""Of the pod that shows an image's work tree: it has no work container, and writes nothing."""
_images: dict[str, "_Shown"] = {}
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class _Shown:
    """What a pod showed of an image.

    Attributes:
        identity: The image's digest, as its node tells it.
        tree: The image's work tree on the host; ``None`` where it has nothing there.
    """

    identity: str
    tree: Path | None


@dataclass(frozen=True)
class KubernetesImage:
    """See `TaskImage`.

    Attributes:
        settings: The cluster.
        image: Image reference.
        identity: The image's digest, as nodes tell it.
        workdir: Where the work tree is inside.
        pristine: The work tree before anyone touched it.
        over: What the task lays over the image's own.
        env: The task's own environment variables.
    """

    settings: KubernetesSettings
    image: str
    identity: str
    workdir: str
    pristine: Path
    over: Path | None
    env: Mapping[str, str]

    async def start(self, phase: Phase, *, mounts: Sequence[Mount] = (), limits: Limits | None = None) -> PodSandbox:
        """See `TaskImage.start`."""
        return await PodSandbox.start(self, phase, mounts=mounts, limits=limits)


def prepare(
    settings: KubernetesSettings, state: State, environment: Path, *, workdir: str, docker_image: str | None
) -> KubernetesImage:
    """See `Provider.prepare`.

    Raises:
        TaskError: There is nothing to make a work tree of.
        SandboxError: No image is named, or it cannot be shown.
    """
    reference = docker_image or settings.image
    if reference is None:
        raise SandboxError(
            f"task {environment.parent.name} names no image",
            "set docker_image in its [environment], or sandbox.kubernetes.image",
        )
    over: Image | None = None
    if docker_image is None or (environment / "Dockerfile").is_file() or (environment / "repo").is_dir():
        over = prepare_image(environment, state, workdir=workdir)
    workdir = over.workdir if over is not None else workdir
    shown = _shown(settings, state, reference, workdir)
    return KubernetesImage(
        settings=settings,
        image=reference,
        identity=shown.identity,
        workdir=workdir,
        pristine=_pristine(state, shown.tree, over.pristine if over is not None else None, f"{reference}:{workdir}"),
        over=over.pristine if over is not None else None,
        env=over.env if over is not None else {},
    )


def _pristine(state: State, below: Path | None, over: Path | None, name: str) -> Path:
    if below is None or over is None:
        found = below or over
        if found is None:
            raise SandboxError(f"the image and the task have no work tree ({name})", "mend the task's WORKDIR")
        return found
    folder = state.pristine / hashlib.sha256(f"merged\n{below}\n{over}".encode()).hexdigest()[:24]
    if not folder.is_dir():
        with tree.new_folder(folder.parent) as scratch:
            made = Path(scratch) / "tree"
            tree.merge(below, over, made)
            _keep(made, folder)
    return folder


def _keep(made: Path, folder: Path) -> None:
    """Move what was made to where it stays, where nobody else was faster."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def _shown(settings: KubernetesSettings, state: State, reference: str, workdir: str) -> _Shown:
    """What the image has at `workdir`; a process looks at an image once."""
    key = f"{settings.model_dump_json()} {state.root} {reference} {workdir}"
    with _one_at_a_time:
        if key not in _images:
            # A loop of its own: this is called from a thread, and the pod is gone when it is done.
            _images[key] = asyncio.run(_look(settings, state, reference, workdir))
        return _images[key]


async def _look(settings: KubernetesSettings, state: State, reference: str, workdir: str) -> _Shown:
    async with AsyncExitStack() as stack:
        run = await stack.enter_async_context(use(settings))
        name = new_name()
        plan = PodPlan(name, "pristine", reference, workdir, PRISTINE_LIMITS)
        pod = manifests.sandbox_pod(run.identity, plan, settings, user_namespaces=run.user_namespaces)
        await create_pod(run, pod, stack)
        status = await wait_for(run, name, KEEPER)
        identity = str(evidence.container(status, KEEPER).get("imageID") or "")
        folder = state.root / "image-trees" / hashlib.sha256(f"{identity} {workdir}".encode()).hexdigest()[:24]
        if not folder.is_dir():
            await _take_out(run, name, workdir, folder, stack)
        return _Shown(identity, folder if any(folder.iterdir()) else None)


async def _take_out(run: Run, pod: str, workdir: str, folder: Path, stack: AsyncExitStack) -> None:
    stream = await open_stream(run, pod)
    stack.push_async_callback(stream.close)
    with tree.new_folder(folder.parent) as scratch:
        made = Path(scratch) / "tree"
        made.mkdir()
        await tree.take_out(stream.channel, workdir, made)
        _keep(made, folder)
