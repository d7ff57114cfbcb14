"""One running container.

Invariant: isolation is complete before anything of the caller's runs in it, or `DockerSandbox.start` fails; nothing in
it is alive after `kill` returned or after the process that owns it is gone, for its first process ends when the host
hangs up. That it is dead is the kernel's word, not the daemon's.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import override

from lego_rl.sandbox.docker.config import container, surroundings
from lego_rl.sandbox.docker.ending import Ending, ending_of
from lego_rl.sandbox.docker.engine import DaemonError, in_thread
from lego_rl.sandbox.docker.labels import Mark
from lego_rl.sandbox.docker.launch import Running, launch
from lego_rl.sandbox.docker.origin import Origin
from lego_rl.sandbox.docker.sweep import sweep
from lego_rl.sandbox.limits import DEFAULT_LIMITS, LimitHits, LimitReport, Limits
from lego_rl.sandbox.local import LocalSandbox, remove_in_time
from lego_rl.sandbox.loss import Loss
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.outside_kill import increase, oom_kills
from lego_rl.sandbox.readable import first_readable
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.seal_request import Surroundings
from lego_rl.sandbox.state import RunFolder
from lego_rl.sandbox.user import environment
from lego_rl.tasks.network import NO_NETWORK, Network

_log = logging.getLogger(__name__)


class DockerSandbox(LocalSandbox):
    """A started container; made by `start`, ended by `close`."""

    def __init__(
        self, origin: Origin, limits: Limits, run: RunFolder, running: Running, surroundings: Surroundings
    ) -> None:
        super().__init__(origin, limits, surroundings, run, running, watches_memory=False)
        self.image = origin
        self._cgroups = running.cgroups
        self._hits = LimitHits()

    @classmethod
    async def start(
        cls,
        origin: Origin,
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
        run = origin.state.new_run()
        try:
            body = container(origin, phase, mounts, limits, run, network)
            running = await launch(origin.engine, Mark.of_run(origin.state, run), body, limits, run)
        except BaseException:
            await _remove_container(origin, run)
            raise
        box = cls(origin, limits, run, running, surroundings(origin, mounts))
        await box.relay(network, services or {})
        return box

    @property
    @override
    def environment(self) -> dict[str, str]:
        """See `Sandbox.environment`."""
        own, python = self.image.prepared.env, self.image.toolchain.path
        return environment(own, first=python) if self.image.root.is_host else environment(own, last=python)

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
        await first_readable(self._pidfd)

    @override
    async def _die(self) -> None:
        counted = self._counted()  # The groups are gone soon after the last process.
        await super()._die()
        ending = await self._ending()
        self._hits = replace(counted, memory=max(counted.memory, int(ending.out_of_memory)))

    @override
    async def _remove(self) -> None:
        await _remove_container(self.image, self.run_folder)

    @override
    async def _taken_by(self) -> Loss | None:
        if increase(self._oom_kills, oom_kills()) != 0:
            return None
        return (await self._ending()).loss

    async def _ending(self) -> Ending:
        return await in_thread(ending_of, self.image.engine, Mark.of_run(self.image.state, self.run_folder).name())

    def _counted(self) -> LimitHits:
        """The kernel's counters; nothing where the groups are gone already, with a container that has ended."""
        with suppress(OSError):
            return self._cgroups.hits()
        return LimitHits()


async def _remove_container(origin: Origin, run: RunFolder) -> None:
    """Remove a container, whatever became of it, and what it wrote; what cannot be removed is left for the next run."""
    name = Mark.of_run(origin.state, run).name()
    try:
        await in_thread(origin.engine.remove, name)
        await in_thread(sweep, origin.engine, origin.state, run)
    except DaemonError as error:
        _log.warning("container %s is left for the next run to remove: %s", name, error)
        return
    await remove_in_time(run)
