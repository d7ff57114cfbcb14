"""A task's image on a cluster, and the work tree that its sandboxes start with.

Invariant: the work tree of an image is what a fresh pod of it showed, in which nothing but the keeper runs. It is taken
out once for each state of an image, and a sandbox whose node has another state of the image is refused.
"""

import re
import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from lego_rl.errors import UnservedTaskError
from lego_rl.sandbox.copies import copied, recipe_of
from lego_rl.sandbox.dockerfile import Recipe
from lego_rl.sandbox.image import image_of
from lego_rl.sandbox.image_trees import place_of
from lego_rl.sandbox.kubernetes import manifests, pod_status, tree
from lego_rl.sandbox.kubernetes.blocking import in_a_loop_of_its_own
from lego_rl.sandbox.kubernetes.labels import new_name
from lego_rl.sandbox.kubernetes.manifests import KEEPER
from lego_rl.sandbox.kubernetes.plan import Egress, PodPlan
from lego_rl.sandbox.kubernetes.pod import PodSandbox
from lego_rl.sandbox.kubernetes.pod_image import PodImage
from lego_rl.sandbox.kubernetes.run import use
from lego_rl.sandbox.kubernetes.settings import KubernetesSettings
from lego_rl.sandbox.kubernetes.starting import create_pod, open_stream, wait_for
from lego_rl.sandbox.limits import DEFAULT_LIMITS, Limits
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.provider import check_phase
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.state import State
from lego_rl.tasks.history import History
from lego_rl.tasks.network import NO_NETWORK, NamedHosts, Network, PublicNetwork

SHOWN_LIMITS = Limits(disk_mb=1)
"""Of the pod that shows an image's work tree: it has no work container, and writes nothing."""
_shown: dict[str, "Shown"] = {}
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Shown:
    """What a pod showed of an image.

    Attributes:
        identity: The image's digest, as its node tells it.
        tree: Its work tree on the host, git directories included.
    """

    identity: str
    tree: Path


@dataclass(frozen=True)
class KubernetesImage(PodImage):
    """See `TaskImage`."""

    async def start(
        self,
        phase: Phase,
        *,
        mounts: Sequence[Mount] = (),
        limits: Limits = DEFAULT_LIMITS,
        network: Network = NO_NETWORK,
    ) -> PodSandbox:
        """See `TaskImage.start`."""
        check_phase(phase, network)
        check_network(network)
        egress = Egress.OPEN if isinstance(network, PublicNetwork) else Egress.NONE
        return await PodSandbox.start(self, phase, egress=egress, mounts=mounts, limits=limits)


def check_network(network: Network) -> None:
    """Refuse what a cluster's policies cannot say: they know addresses, not names.

    Raises:
        UnservedTaskError: It is named hosts.
    """
    if isinstance(network, NamedHosts):
        raise UnservedTaskError(
            "pods cannot be given named hosts (allowed_hosts)",
            'set sandbox.environment to "bubblewrap" or "docker", or network_mode = "public" in its [verifier]',
        )


def prepare(
    settings: KubernetesSettings,
    state: State,
    environment: Path,
    *,
    workdir: str,
    docker_image: str | None,
    history: History,
) -> KubernetesImage:
    """See `Provider.prepare`.

    Raises:
        TaskError: There is nothing to make a work tree of, or a repository of the task cannot be sealed.
        UnservedTaskError: No image is named.
        SandboxError: It cannot be shown.
    """
    recipe, reference = named_image(settings, environment, workdir=workdir, docker_image=docker_image)
    shown = _show(settings, state, reference, recipe.workdir)
    prepared = image_of(environment, recipe, state, history, base=shown.tree, rootfs=None)
    return KubernetesImage(prepared, settings, reference, shown.identity, shown.tree)


def named_image(
    settings: KubernetesSettings, environment: Path, *, workdir: str, docker_image: str | None
) -> tuple[Recipe, str]:
    """What a task lays over an image, and the image.

    Raises:
        TaskError: A file that is laid over it is not there.
        UnservedTaskError: No image is named, or the task's Dockerfile needs a build.
    """
    recipe = _recipe(environment, workdir, docker_image)
    copied(environment, recipe)
    reference = docker_image or settings.image or recipe.base
    if not re.fullmatch(r"[^\s$]+", reference):
        raise UnservedTaskError(
            f"task {environment.parent.name} names no image",
            "set docker_image in its [environment], or sandbox.kubernetes.image",
        )
    return recipe, reference


def _recipe(environment: Path, workdir: str, docker_image: str | None) -> Recipe:
    """What the task lays over its image; nothing need be, where it names one."""
    if docker_image is None:
        return recipe_of(environment, workdir)
    return Recipe(workdir, copies=[("repo", workdir)] if (environment / "repo").is_dir() else [])


def _show(settings: KubernetesSettings, state: State, reference: str, workdir: str) -> Shown:
    """What an image has at `workdir`; a process looks at an image once."""
    key = f"{settings.model_dump_json()} {state.root} {reference} {workdir}"
    with _one_at_a_time:
        if key not in _shown:
            _shown[key] = in_a_loop_of_its_own(_look(settings, state, reference, workdir))
        return _shown[key]


async def _look(settings: KubernetesSettings, state: State, reference: str, workdir: str) -> Shown:
    async with AsyncExitStack() as stack:
        run = await stack.enter_async_context(use(settings))
        name = new_name()
        plan = PodPlan(name, None, reference, workdir, SHOWN_LIMITS)
        pod = manifests.sandbox_pod(run.identity, plan, settings, user_namespaces=run.user_namespaces)
        await create_pod(run, pod, stack)
        status = await wait_for(run, name, KEEPER)
        identity = pod_status.container(status, KEEPER).image_id
        folder = place_of(state, identity, workdir)
        if not folder.is_dir():
            stream = await open_stream(run, name)
            stack.push_async_callback(stream.close)
            with state.making(folder) as made:
                await tree.take_out(stream.channel, workdir, made)
        return Shown(identity, folder)
