"""One running container.

Invariant: isolation is complete before anything of the caller's runs in it, or `DockerSandbox.start` fails; nothing in
it is alive after `kill` returned or after the process that owns it is gone, for its first process ends when the host
hangs up. That it is dead is the kernel's word, not the daemon's.
"""

import asyncio
import http.client
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import override

from lego_rl.sandbox.docker.config import container, surroundings
from lego_rl.sandbox.docker.engine import DaemonError, Engine
from lego_rl.sandbox.docker.ground import Ground
from lego_rl.sandbox.docker.labels import labels_of
from lego_rl.sandbox.docker.launch import Running, in_thread, launch
from lego_rl.sandbox.docker.sweep import sweep
from lego_rl.sandbox.limits import DEFAULT_LIMITS, LimitHits, LimitReport, Limits
from lego_rl.sandbox.local import LocalSandbox, remove_in_time
from lego_rl.sandbox.loss import Loss, LossCause
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.outside_kill import increase, oom_kills, outside_kill
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.seal_request import Surroundings
from lego_rl.sandbox.state import RunFolder
from lego_rl.sandbox.user import SYSTEM_PATH, VARIABLES
from lego_rl.tasks.network import NO_NETWORK, Network

_log = logging.getLogger(__name__)


class DockerSandbox(LocalSandbox):
    """A started container; made by `start`, ended by `close`."""

    def __init__(
        self, ground: Ground, limits: Limits, run: RunFolder, running: Running, surroundings: Surroundings
    ) -> None:
        super().__init__(ground, limits, surroundings, run, running, watches_memory=False)
        self.image = ground
        self._cgroups = running.cgroups
        self._hits = LimitHits()

    @classmethod
    async def start(
        cls,
        ground: Ground,
        phase: Phase,
        network: Network = NO_NETWORK,
        *,
        mounts: Sequence[Mount] = (),
        limits: Limits = DEFAULT_LIMITS,
        services: Mapping[str, str] | None = None,
    ) -> "DockerSandbox":
        """Start a container, in no network of the daemon's or in one where tests may reach whatever the machine does.

        Raises:
            SandboxError: Some part of the isolation could not be established.
        """
        run = ground.state.new_run()
        name = name_of(run)
        try:
            body = container(ground, phase, mounts, limits, run, network=network, labels=labels_of(ground.state, run))
            running = await launch(ground.engine, name, body, limits, run)
        except BaseException:
            await _discard(ground, run)
            raise
        box = cls(ground, limits, run, running, surroundings(ground, mounts))
        await box.relay(network, services or {})
        return box

    @property
    @override
    def environment(self) -> dict[str, str]:
        """See `Sandbox.environment`."""
        own, python = self.image.image.env.get("PATH", SYSTEM_PATH), self.image.toolchain.path
        # An image brings its own Python, if any; where the programs are the host's, ours has pytest and nothing else.
        path = f"{python}:{own}" if self.image.root.is_host else f"{own}:{python}"
        return {**VARIABLES, **self.image.image.env, "PATH": path}

    @property
    def limit_report(self) -> LimitReport:
        """See `Sandbox.limit_report`."""
        return self._cgroups.report()

    def limit_hits(self) -> LimitHits:
        """See `Sandbox.limit_hits`."""
        counted = self._hits if self._dead else self._counted()
        return replace(counted, disk=self._watchdog.disk_full, unmeasured=self._watchdog.failed)

    @override
    async def _ended(self) -> None:
        await _has_ended(self._pidfd)

    @override
    async def _die(self) -> None:
        counted = self._counted()  # The groups are gone soon after the last process.
        await super()._die()
        out_of_memory = await in_thread(_ran_out_of_memory, self.image.engine, name_of(self.run_folder))
        self._hits = replace(counted, memory=max(counted.memory, int(out_of_memory)))

    @override
    async def _remove(self) -> None:
        await _discard(self.image, self.run_folder)

    @override
    async def _taken_by(self) -> Loss | None:
        if increase(self._oom_kills, oom_kills()) != 0:
            return None
        return await in_thread(_taken_by, self.image.engine, name_of(self.run_folder))

    def _counted(self) -> LimitHits:
        """The kernel's counters; nothing where the groups are gone already, with a container that has ended."""
        with suppress(OSError):
            return self._cgroups.hits()
        return LimitHits()


def name_of(run: RunFolder) -> str:
    """What the container of a run folder is called."""
    return f"lego-rl-{run.path.name}"


async def _has_ended(pidfd: int) -> None:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not ended.done():
            ended.set_result(None)

    loop.add_reader(pidfd, settle)
    try:
        await ended
    finally:
        loop.remove_reader(pidfd)


def _taken_by(engine: Engine, name: str) -> Loss | None:
    """Who ended a container whose first process is gone, if the daemon can tell, or is gone itself."""
    try:
        engine.wait(name)
        state = engine.container(name)["State"]
    except DaemonError as error:
        if error.status == http.client.NOT_FOUND:
            return Loss(LossCause.KILLED, "the container was removed")
        return None if error.status else Loss(LossCause.RUNTIME, f"the daemon does not answer: {error.problem}")
    return None if state["OOMKilled"] else outside_kill(int(state["ExitCode"]))


def _ran_out_of_memory(engine: Engine, name: str) -> bool:
    """Whether the kernel killed something in a container for its memory: Docker still knows when the groups are gone.

    A daemon that is gone as well knows nothing, and what the kernel counted before stands alone.
    """
    try:
        engine.wait(name)
        return bool(engine.container(name)["State"]["OOMKilled"])
    except DaemonError as error:
        _log.warning("what killed container %s cannot be asked for: %s", name, error)
        return False


async def _discard(ground: Ground, run: RunFolder) -> None:
    """Remove a container, whatever became of it, and what it wrote; what cannot be removed is left for the next run."""
    try:
        await in_thread(ground.engine.remove, name_of(run))
        await in_thread(sweep, ground.engine, ground.state, run)
    except DaemonError as error:
        _log.warning("container %s is left for the next run to remove: %s", name_of(run), error)
        return
    await remove_in_time(run)
