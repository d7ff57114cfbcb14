"""One running sandbox: a pod whose work container holds the agent and whose keeper reads what it leaves.

Invariant: the pod's policies are there before the pod; nothing of the caller's runs in it before they are seen to hold
from inside (`holes`); and the tree and the report are read by the keeper after the cluster says that the work container
is dead.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import override

from lego_rl.errors import SandboxError
from lego_rl.sandbox.channel import Channel, SandboxDied
from lego_rl.sandbox.controlled import ControlledSandbox
from lego_rl.sandbox.hole import Hole
from lego_rl.sandbox.kubernetes import kernel_counts, limit_hits, manifests, pod_status, tree
from lego_rl.sandbox.kubernetes.answers import Pod
from lego_rl.sandbox.kubernetes.errors import ClusterError
from lego_rl.sandbox.kubernetes.filling import fill
from lego_rl.sandbox.kubernetes.labels import new_name
from lego_rl.sandbox.kubernetes.manifests import KEEPER, WORK
from lego_rl.sandbox.kubernetes.plan import Egress, plan_of
from lego_rl.sandbox.kubernetes.pod_image import PodImage
from lego_rl.sandbox.kubernetes.pod_status import Departure
from lego_rl.sandbox.kubernetes.run import Run, use
from lego_rl.sandbox.kubernetes.starting import create_pod, open_stream, wait_for
from lego_rl.sandbox.kubernetes.stream import PodStream
from lego_rl.sandbox.kubernetes.taken_away import loss_of, loss_of_files
from lego_rl.sandbox.kubernetes.way_out import open_way_out, settled_holes
from lego_rl.sandbox.limits import DEFAULT_LIMITS, LimitHits, LimitReport, Limits
from lego_rl.sandbox.loss import Loss, lost
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.report import REPORT_NAME
from lego_rl.sandbox.sandbox import LOOPBACK, Phase
from lego_rl.sandbox.seal_request import KERNEL_FOLDERS, SealRequest, Surroundings
from lego_rl.sandbox.transfer import TransferError, operate

KILL_SECONDS = 60.0
"""A kubelet may take seconds to notice that a container has ended, and to say so."""
SEVER_SECONDS = 5.0
INTERFACES = (
    "eth0", "tunl0", "sit0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6tnl0", "ip6gre0",
)  # fmt: skip
"""What a pod may have: its own, and what the kernel makes in every network namespace for tunnels, which are down."""

NETWORK_ADVICE = (
    "give the cluster a network plug-in that enforces NetworkPolicy for what enters and leaves a pod, as Calico, Cilium"
    " and kube-router do: what answered was let through"
)
"""About a hole in a pod's network: its policy was there, and something reached more than it allows."""


class PodSandbox(ControlledSandbox):
    """A started sandbox; made by `start`, ended by `close`."""

    def __init__(
        self,
        image: PodImage,
        limits: Limits,
        run: Run,
        name: str,
        stream: PodStream,
        listener: socket.socket | None,
        mounts: Sequence[Mount],
    ) -> None:
        shown = (*KERNEL_FOLDERS, manifests.TOP, *(mount.target for mount in mounts))
        super().__init__(image, limits, stream.channel, Surroundings(shown, INTERFACES, NETWORK_ADVICE))
        self.image = image
        self.name = name
        self._run = run
        self._stream = stream
        self._listener = listener
        self._environment: dict[str, str] = {}
        self._hits = LimitHits()
        self._last: Pod | None = None
        self._taken: tree.TreeSnapshot | None = None
        self._resources = AsyncExitStack()
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        image: PodImage,
        phase: Phase,
        *,
        egress: Egress = Egress.NONE,
        mounts: Sequence[Mount] = (),
        limits: Limits = DEFAULT_LIMITS,
    ) -> "PodSandbox":
        """Start a pod.

        Args:
            image: What it starts from.
            phase: What it is for.
            egress: What a grading sandbox reaches; an agent phase reaches its gateway, whatever is asked for.
            mounts: Read-only folders of the host's, copied into the pod.
            limits: Its limits.

        Raises:
            SandboxError: Some part of the isolation could not be established, or the cluster has no room.
        """
        name = new_name()
        async with AsyncExitStack() as stack:
            run = await stack.enter_async_context(use(image.settings))
            egress = Egress.NONE if phase is Phase.AGENT else egress
            listener = await open_way_out(run, name, phase, egress, stack)
            if phase is Phase.AGENT:
                await run.ensure_sentinel(image.image)
            plan = await asyncio.to_thread(plan_of, name, phase, image, limits, mounts, egress)
            pod = manifests.sandbox_pod(run.identity, plan, run.settings, user_namespaces=run.user_namespaces)
            await create_pod(run, pod, stack)
            status = await wait_for(run, name, WORK, KEEPER)
            if (found := pod_status.container(status, WORK).image_id) != image.identity:
                raise ClusterError(
                    f"{image.image} is not the image any more that it was ({found})", "name it by its digest"
                )
            stream = await open_stream(run, name, manifests.CONTROL)
            stack.push_async_callback(stream.close)
            if not await stream.channel.ready():
                raise SandboxError("a pod ended as soon as it was ready", f"kubectl describe pod {name}")
            box = cls(image, limits, run, name, stream, listener, mounts)
            box._environment = await fill(stream.channel, image, phase, mounts)
            box._watching = asyncio.create_task(box._watch_disk())
            stack.push_async_callback(box._stop_watching)
            box._resources = stack.pop_all()
        return box

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
        """Which of its own limits the sandbox ran into, by the evidence of the keeper, the kernel and the cluster."""
        return limit_hits.limit_hits(self._hits, self._last if self._dead else self._run.pods.get(self.name))

    @override
    async def holes(self, wanted: SealRequest) -> list[Hole]:
        """See `Sandbox.holes`. An agent phase must reach its gateway, too."""
        look = super().holes
        if self._listener is None:
            return await look(wanted)
        self.surroundings = replace(self.surroundings, addresses=await self._run.neighbours())
        return await settled_holes(lambda: look(wanted), self._reaches_gateway, self._run.address)

    async def _reaches_gateway(self) -> bool:
        try:
            await operate(self._channel, ["reach", self._run.address, self._gateway_port])
        except TransferError:
            return False
        return True

    @property
    def _gateway_port(self) -> str:
        if self._listener is None:
            raise SandboxError("a grading sandbox has no gateway", "listen in an agent phase")
        return str(self._listener.getsockname()[1])

    @override
    async def listen(self, port: int, address: str = LOOPBACK) -> socket.socket:
        """A non-blocking socket for the host to serve; in the pod, ``127.0.0.1:port`` is joined to it.

        Raises:
            SandboxError: The phase has no listener, or the port cannot be bound.
        """
        gateway_port = self._gateway_port
        if address != LOOPBACK:
            raise SandboxError(f"a pod listens on {LOOPBACK} alone, not on {address}", "leave the address out")
        await operate(self._channel, ["relay", str(port), self._run.address, gateway_port])
        assert self._listener is not None
        return self._listener.dup()

    @override
    async def _die(self) -> None:
        await self._stop_watching()
        await self.kill_processes()  # first, for an agent may have left process 1 none to count with
        kills, forks = await kernel_counts.memory_kills(self.get), await kernel_counts.refused_forks(self.get)
        self._hits = replace(self._hits, memory=kills, processes=forks)
        await self._sever()
        late: Exception | None = None
        try:
            async with asyncio.timeout(KILL_SECONDS):
                await self._run.pods.wait(self.name, _over)
        except (TimeoutError, ClusterError) as error:
            late = error
        pod = self._run.pods.get(self.name)
        if pod is None or not pod_status.has_ended(pod, WORK):
            loss = await loss_of(self._run, self.name, WORK, await self._stream.how_it_ended())
            if loss is not None:
                raise lost(loss) from late
        self._last = self._run.pods.get(self.name)
        if not _over(self._last):
            raise SandboxError(
                f"the cluster does not say that the work container of {self.name} has ended",
                f"kubectl describe pod {self.name}",
            ) from late

    async def snapshot(self) -> tree.TreeSnapshot:
        """See `Sandbox.snapshot`. What a patch can hold of it is taken at once, and what the pod has reserved is free
        for the grading."""
        if self._taken is None:
            git_dirs = self.image.history.git_dirs_below(self.image.workdir)
            folder, pristine = f"{manifests.TOP}/tree", self.image.pristine
            self._taken = await self._told(lambda keeper: tree.snapshot(keeper, folder, pristine, git_dirs))
            await self._run.api.discard(self._run.api.path("v1", "pods", self.name))
        return self._taken

    async def report(self, name: str = REPORT_NAME) -> bytes:
        """See `Sandbox.report`."""
        return await self._told(lambda keeper: operate(keeper, ["report", name]))

    @override
    async def _discard(self) -> None:
        """Without its stream the work container ends, whatever the cluster answers."""
        if self._listener is not None:
            self._listener.close()
        await self._resources.aclose()

    async def _told[T](self, ask: Callable[[Channel], Awaitable[T]]) -> T:
        """What the keeper of a dead work container says.

        Raises:
            SandboxLostError: The pod, or the cluster, is gone.
            SandboxError: The work container is alive, or what it left cannot be had.
        """
        self._check_dead()
        try:
            return await ask(await self._keeper())
        except SandboxError as error:
            if self._taken is not None:  # This host has what it wanted, and has given the pod back.
                raise
            if (loss := await loss_of_files(self._run, self.name, self._stream, error)) is None:
                raise
            raise lost(loss) from error

    async def _keeper(self) -> Channel:
        """Requests to the keeper.

        Raises:
            SandboxError: It is gone, or cannot be reached.
        """
        if self._stream.end is not None:
            pod = self._run.pods.get(self.name)
            if pod is None or not pod_status.is_running(pod, KEEPER):
                said = pod_status.departed(pod).said or "its keeper has ended"
                raise SandboxError(
                    f"the files of pod {self.name} are gone: {said}", "look at the cluster's events"
                ) from SandboxDied(self._stream.said)
            self._stream = await open_stream(self._run, self.name)
            self._resources.push_async_callback(self._stream.close)
        return self._stream.channel

    async def _sever(self) -> None:
        """Hang up on process 1 of the work container, which ends, and the kernel ends all others with it."""
        with suppress(SandboxDied, TimeoutError):
            async with asyncio.timeout(SEVER_SECONDS):
                await self._channel.reply(await self._channel.send(["sever"], []))

    @override
    async def _loss(self) -> Loss | None:
        if self._hits.disk or self._hits.unmeasured:
            return None
        return await loss_of(self._run, self.name, WORK, await self._stream.how_it_ended())

    @override
    def _kill_first(self) -> None:
        """Kill the first process, and with it all others: without its stream a pod's keeper hangs up."""
        self._channel.close()

    async def _watch_disk(self) -> None:
        """Kill the sandbox when its files have become too large, or cannot be measured."""
        with suppress(SandboxDied):
            is_measured = await self._channel.run(["bound", str(self.limits.disk_mb << 20)], b"", ()) == 0
            self._hits = replace(self._hits, disk=is_measured, unmeasured=not is_measured)
            await self._sever()

    async def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})


def _over(pod: Pod | None) -> bool | None:
    """Whether the work container is dead, or nothing of it can be had any more."""
    if pod is None or pod_status.has_ended(pod, WORK) or pod_status.departed(pod).how is not Departure.NONE:
        return True
    return None
