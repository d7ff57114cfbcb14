"""One running sandbox: a pod whose work container holds the agent and whose keeper reads what it leaves.

Invariant: the pod's policies are there before the pod; nothing of the caller's runs in it before they are seen to hold
from inside (`holes`); and the tree and the report are read by the keeper after the cluster says that the work container
is dead.
"""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol, override

from lego_rl.errors import SandboxError
from lego_rl.sandbox import loss
from lego_rl.sandbox.channel import Channel, SandboxDied
from lego_rl.sandbox.controlled import ControlledSandbox
from lego_rl.sandbox.hole import Hole, HoleKind
from lego_rl.sandbox.image import Image
from lego_rl.sandbox.kubernetes import delta, evidence, manifests, policies, tree
from lego_rl.sandbox.kubernetes.address import listener_at
from lego_rl.sandbox.kubernetes.errors import ClusterError
from lego_rl.sandbox.kubernetes.evidence import Loss, Status
from lego_rl.sandbox.kubernetes.labels import new_name
from lego_rl.sandbox.kubernetes.manifests import KEEPER, WORK, Network, PodPlan
from lego_rl.sandbox.kubernetes.run import Run, use
from lego_rl.sandbox.kubernetes.settings import KubernetesSettings
from lego_rl.sandbox.kubernetes.starting import create_pod, open_stream, put_records, wait_for
from lego_rl.sandbox.kubernetes.stream import PodStream
from lego_rl.sandbox.limits import DEFAULT_LIMITS, LimitHits, LimitReport, Limits
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.records import read_tree
from lego_rl.sandbox.report import REPORT_NAME
from lego_rl.sandbox.sandbox import LOOPBACK, Phase, Tree
from lego_rl.sandbox.seal_request import KERNEL_FOLDERS, SealRequest, Surroundings
from lego_rl.sandbox.transfer import TransferError, operate
from lego_rl.sandbox.user import SYSTEM_PATH, VARIABLES

KILL_SECONDS = 60.0
"""A kubelet may take seconds to notice that a container has ended, and to say so."""
SEVER_SECONDS = 5.0
LOST_SECONDS = 15.0
"""How long the cluster may take to say what became of a pod that no longer answers."""
MEMORY_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""What the kernel counts for a container, with control groups of version 2 and of version 1."""
SETTLE_SECONDS = 20.0
"""How long a network plug-in may take to bring a new policy into force."""
PAUSE_SECONDS = 0.5
HELD_BY_POLICIES = (HoleKind.REACHED, HoleKind.NAME)
"""Holes that may still be there because a network plug-in is slow."""
INTERFACES = (
    "eth0", "tunl0", "sit0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6tnl0", "ip6gre0",
)  # fmt: skip
"""What a pod may have: its own, and what the kernel makes in every network namespace for tunnels, which are down."""
_CAUSES = {Loss.REMOVED: loss.LossCause.KILLED, Loss.NODE: loss.LossCause.RUNTIME}
CLUSTERS_OWN = ("KUBERNETES_", "HOSTNAME=", "HOME=", "PWD=")
"""Variables of a container that are not its image's."""


class Start(Tree, Protocol):
    """What a pod starts from."""

    @property
    def settings(self) -> KubernetesSettings:
        """The cluster."""
        ...

    @property
    def image(self) -> str:
        """Image reference."""
        ...

    @property
    def identity(self) -> str:
        """The image's digest, as nodes tell it."""
        ...

    @property
    def base(self) -> Path:
        """The image's own work tree, on the host."""
        ...

    @property
    def prepared(self) -> Image:
        """The work tree of the task, its git directories and its variables."""
        ...


class PodSandbox(ControlledSandbox):
    """A started sandbox; made by `start`, ended by `close`."""

    def __init__(
        self, image: Start, limits: Limits, run: Run, name: str, stream: PodStream, listener: socket.socket | None
    ) -> None:
        super().__init__(image, limits, stream.channel, Surroundings((*KERNEL_FOLDERS, manifests.TOP), INTERFACES))
        self.image = image
        self.name = name
        self._run = run
        self._stream = stream
        self._listener = listener
        self._environment: dict[str, str] = {}
        self._disk_full = False
        self._memory_kills = 0
        self._last: Status | None = None
        self._taken: tree.TreeSnapshot | None = None
        self._resources = AsyncExitStack()
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        image: Start,
        phase: Phase,
        *,
        network: Network = "none",
        mounts: Sequence[Mount] = (),
        limits: Limits = DEFAULT_LIMITS,
    ) -> "PodSandbox":
        """Start a pod.

        Args:
            image: What it starts from.
            phase: What it is for.
            network: What a grading sandbox reaches; an agent phase reaches its gateway, whatever is asked for.
            mounts: Read-only folders of the host's, copied into the pod.
            limits: Its limits.

        Raises:
            SandboxError: Some part of the isolation could not be established, or the cluster has no room.
        """
        name = new_name()
        async with AsyncExitStack() as stack:
            run = await stack.enter_async_context(use(image.settings))
            network = "none" if phase is Phase.AGENT else network
            listener = await _policies(run, name, phase, network, stack)
            if phase is Phase.AGENT:
                await run.ensure_sentinel(image.image)
            plan = await asyncio.to_thread(_plan, name, phase, image, limits, mounts, network)
            pod = manifests.sandbox_pod(run.identity, plan, run.settings, user_namespaces=run.user_namespaces)
            await create_pod(run, pod, stack)
            status = await wait_for(run, name, WORK, KEEPER)
            if (found := evidence.container(status, WORK).get("imageID")) != image.identity:
                raise ClusterError(
                    f"{image.image} is not the image any more that it was ({found})", "name it by its digest"
                )
            stream = await open_stream(run, name, manifests.CONTROL)
            stack.push_async_callback(stream.close)
            if not await stream.channel.ready():
                raise SandboxError("a pod ended as soon as it was ready", f"kubectl describe pod {name}")
            box = cls(image, limits, run, name, stream, listener)
            await box._fill(phase, mounts)
            box._watching = asyncio.create_task(box._watch_disk())
            stack.push_async_callback(box._stop_watching)
            box._resources = stack.pop_all()
        return box

    async def _fill(self, phase: Phase, mounts: Sequence[Mount]) -> None:
        """Bring in what the pod does not start with, and ask what its image sets."""
        shown = tuple(mount.target for mount in mounts)
        self.surroundings = replace(self.surroundings, host_folders=(*self.surroundings.host_folders, *shown))
        for number, mount in enumerate(mounts):
            await put_records(self._channel, ["mount", str(number)], read_tree(mount.source))
        prepared, put = self.image.prepared, ["put", self.image.workdir]
        await put_records(self._channel, put, await asyncio.to_thread(delta.delta, self.image.base, prepared.pristine))
        if (git := prepared.git_of_work_tree(phase)) is not None:
            await put_records(self._channel, put, read_tree(git))
        lines = (await operate(self._channel, ["environ", ""])).decode(errors="surrogateescape").split("\0")
        own = (line.partition("=")[::2] for line in lines if not line.startswith(CLUSTERS_OWN))
        self._environment = {
            "PATH": SYSTEM_PATH,
            **VARIABLES,
            **dict(own),
            **self.image.prepared.env,
        }

    @property
    @override
    def environment(self) -> dict[str, str]:
        """What every command is given unless it says otherwise."""
        return dict(self._environment)

    @property
    def limit_report(self) -> LimitReport:
        """What enforces the limits."""
        return LimitReport("pod", "rlimit" if self._run.user_namespaces else "pod")

    def limit_hits(self) -> LimitHits:
        """Which of its own limits the sandbox ran into, by the cluster's evidence."""
        pod = self._status
        killed = int(pod is not None and evidence.out_of_memory(pod, WORK))
        evicted = pod is not None and evidence.lost(pod).loss is Loss.OWN_LIMIT
        return LimitHits(memory=max(self._memory_kills, killed), disk=self._disk_full or evicted)

    async def lost(self) -> evidence.Lost:
        """How the sandbox was lost, where it no longer answers: by what the agent did, or by what the cluster did."""
        try:
            async with asyncio.timeout(LOST_SECONDS):
                if not self._dead:
                    await self._run.pods.wait(self.name, _over)
        except TimeoutError:
            return evidence.Lost(Loss.NONE)
        except ClusterError as error:
            return evidence.Lost(Loss.NODE, error.problem)
        pod = self._status
        found = evidence.lost(pod)
        if found.loss is Loss.NONE and self._broke and pod is not None and not evidence.out_of_memory(pod, KEEPER):
            return evidence.Lost(Loss.NODE, f"the stream to the pod broke: {self._stream.ended}")
        return found

    @property
    def _status(self) -> Status | None:
        """What the cluster says of the pod; of one that was killed, what it said then."""
        return self._last if self._dead else self._run.pods.get(self.name)

    @property
    def _broke(self) -> bool:
        """Whether the stream ended though nobody here closed it.

        No agent can do that: what it can end is process 1 of its own container, and then the stream says so.
        """
        return bool(self._stream.ended) and not self._stream.hung_up and not self._dead

    @override
    async def holes(self, wanted: SealRequest) -> list[Hole]:
        """See `Sandbox.holes`. An agent phase must reach its gateway, too."""
        if self._listener is None:
            return await super().holes(wanted)
        self.surroundings = replace(self.surroundings, addresses=await self._run.neighbours())
        gateway = ["reach", self._run.address, str(self._listener.getsockname()[1])]
        until = asyncio.get_running_loop().time() + SETTLE_SECONDS
        while True:
            found = await super().holes(wanted)
            settled = not any(hole.kind in HELD_BY_POLICIES for hole in found) and await self._succeeds(gateway)
            if settled or asyncio.get_running_loop().time() > until:
                break
            await asyncio.sleep(PAUSE_SECONDS)
        if not await self._succeeds(gateway):
            raise SandboxError(
                f"pods cannot reach this machine at {self._run.address}",
                "set sandbox.kubernetes.advertise to an address that they can, and open the firewall to it",
            )
        return found

    async def _succeeds(self, operation: list[str]) -> bool:
        try:
            await operate(self._channel, operation)
        except TransferError:
            return False
        return True

    @override
    async def listen(self, port: int, address: str = LOOPBACK) -> socket.socket:
        """A non-blocking socket for the host to serve; in the pod, ``127.0.0.1:port`` is joined to it.

        Raises:
            SandboxError: The phase has no listener, or the port cannot be bound.
        """
        if self._listener is None:
            raise SandboxError("a grading sandbox has no gateway", "listen in an agent phase")
        if address != LOOPBACK:
            raise SandboxError(f"a pod listens on {LOOPBACK} alone, not on {address}", "leave the address out")
        own = str(self._listener.getsockname()[1])
        await operate(self._channel, ["relay", str(port), self._run.address, own])
        return self._listener.dup()

    @override
    async def _die(self) -> None:
        await self._stop_watching()
        await self._count_memory_kills()
        await self._sever()
        try:
            async with asyncio.timeout(KILL_SECONDS):
                await self._run.pods.wait(self.name, _over)
        except TimeoutError as error:
            raise SandboxError(
                f"the cluster does not say that the work container of {self.name} has ended",
                f"kubectl describe pod {self.name}",
            ) from error
        self._last = self._run.pods.get(self.name)

    async def snapshot(self) -> tree.TreeSnapshot:
        """See `Sandbox.snapshot`. What a patch can hold of it is taken at once, and what the pod has reserved is free
        for the grading."""
        if self._taken is None:
            git_dirs = self.image.history.git_dirs_below(self.image.workdir)
            files, folder = await self._files(), f"{manifests.TOP}/tree"
            self._taken = await tree.snapshot(files, folder, self.image.pristine, git_dirs)
            await self._run.api.discard(self._run.api.path("v1", "pods", self.name))
        return self._taken

    async def report(self, name: str = REPORT_NAME) -> bytes:
        """See `Sandbox.report`."""
        return await operate(await self._files(), ["report", name])

    @override
    async def close(self) -> None:
        """See `Sandbox.close`. Without its stream the work container ends, whatever the cluster answers."""
        if self._closed:
            return
        self._asked_to_end = self._closed = True
        await self._discard()

    @override
    async def _discard(self) -> None:
        if self._listener is not None:
            self._listener.close()
        await self._resources.aclose()

    async def _files(self) -> Channel:
        """Requests to the keeper of a dead work container.

        Raises:
            SandboxError: The work container is alive, or the pod is gone.
        """
        self._check_dead()
        if self._stream.ended:
            pod = self._run.pods.get(self.name)
            if pod is None or not evidence.is_running(pod, KEEPER):
                said = evidence.lost(pod).said or "its keeper has ended"
                raise SandboxError(f"the files of pod {self.name} are gone: {said}", "look at the cluster's events")
            self._stream = await open_stream(self._run, self.name)
            self._resources.push_async_callback(self._stream.close)
        return self._stream.channel

    async def _count_memory_kills(self) -> None:
        """Ask the kernel, through process 1, how often it killed for memory: a pod's status tells of that alone."""
        for path in MEMORY_EVENTS:
            with suppress(SandboxError, TimeoutError):
                async with asyncio.timeout(SEVER_SECONDS):
                    (record,) = await self.get(path)
                    lines = (line.split() for line in record.content.decode(errors="replace").splitlines())
                    self._memory_kills = next(int(words[1]) for words in lines if words[:1] == ["oom_kill"])
                    return

    async def _sever(self) -> None:
        """Hang up on process 1 of the work container, which ends, and the kernel ends all others with it."""
        with suppress(SandboxDied, TimeoutError):
            async with asyncio.timeout(SEVER_SECONDS):
                await self._channel.reply(await self._channel.send(["sever"], []))

    @override
    async def _loss(self) -> loss.Loss | None:
        if self._disk_full:
            return None
        found = await self.lost()
        cause = _CAUSES.get(found.loss)
        return None if cause is None else loss.Loss(cause, found.said)

    @override
    def _kill_first(self) -> None:
        """Kill the first process, and with it all others: without its stream a pod's keeper hangs up."""
        self._channel.close()

    async def _watch_disk(self) -> None:
        """Kill the sandbox when its files have become too large."""
        with suppress(SandboxDied):
            bound = ["bound", str(self.limits.disk_mb << 20)]
            if await self._channel.run(bound, b"", ()) == 0:
                self._disk_full = True
                await self._sever()

    async def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})


async def _policies(run: Run, name: str, phase: Phase, network: Network, stack: AsyncExitStack) -> socket.socket | None:
    """Create what lets packets out of a pod, before there is a pod; the listener of an agent phase."""
    stack.push_async_callback(run.api.discard, run.api.path(policies.GROUP, "networkpolicies", name))
    if network == "open":
        await run.policy(policies.open_policy(run.identity, name))
    if phase is Phase.GRADING:
        return None
    listener = listener_at(run.address)
    stack.callback(listener.close)
    listener.setblocking(False)
    _, port = listener.getsockname()
    await run.policy(policies.agent_policy(run.identity, name, run.address, port))
    return listener


def _plan(name: str, phase: Phase, image: Start, limits: Limits, mounts: Sequence[Mount], network: Network) -> PodPlan:
    for mount in mounts:
        if not mount.source.is_dir():
            raise SandboxError(f"{mount.source} cannot be mounted in a pod: it is no folder", "mount its folder")
        if f"{image.workdir}/".startswith(f"{mount.target.rstrip('/')}/"):
            raise SandboxError(f"a mount at {mount.target} would cover the work tree", "mount it elsewhere")
    sizes = (path.lstat().st_blocks * 512 for mount in mounts for path in mount.source.rglob("*"))
    return PodPlan(
        name=name,
        role="agent" if phase is Phase.AGENT else "grading",
        image=image.image,
        workdir=image.workdir,
        limits=limits,
        mounts=tuple(mount.target for mount in mounts),
        mounts_mb=1 + int(sum(sizes) * manifests.SLACK) // (1 << 20),
        network=network,
    )


def _over(pod: Status | None) -> bool | None:
    """Whether the work container is dead, or nothing of it can be had any more."""
    return True if pod is None or evidence.has_ended(pod, WORK) or evidence.lost(pod).loss is not Loss.NONE else None
