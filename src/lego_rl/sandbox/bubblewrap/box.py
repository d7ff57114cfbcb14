"""One running bubblewrap sandbox.

Invariant: isolation is complete before anything of the caller's runs in it, or `BubblewrapSandbox.start` fails; and
nothing in it is alive after `kill` returned or after the process that owns it is gone, however that happened.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import override

from lego_rl.errors import SandboxError
from lego_rl.sandbox.bubblewrap.launch import Running, launch
from lego_rl.sandbox.bubblewrap.layout import plan
from lego_rl.sandbox.cgroups import Cgroups, Hierarchies
from lego_rl.sandbox.image import Image
from lego_rl.sandbox.limits import DEFAULT_LIMITS, LimitHits, LimitReport, Limits
from lego_rl.sandbox.local import STUCK, LocalSandbox, remove_in_time
from lego_rl.sandbox.loss import Loss
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.outside_kill import increase, oom_kills, outside_kill
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.seal_request import Surroundings
from lego_rl.sandbox.state import RunFolder, State
from lego_rl.sandbox.toolchain import Toolchain
from lego_rl.sandbox.user import environment
from lego_rl.tasks.network import NO_NETWORK, NamedHosts, Network

LOW_PORTS = Path(__file__).with_name("low_ports.py")


class BubblewrapSandbox(LocalSandbox):
    """A started sandbox; made by `start`, ended by `close`."""

    def __init__(
        self,
        image: Image,
        limits: Limits,
        run: RunFolder,
        toolchain: Toolchain,
        cgroups: Cgroups,
        running: Running,
        surroundings: Surroundings,
    ) -> None:
        super().__init__(image, limits, surroundings, run, running, watches_memory=not cgroups.groups)
        self.image = image
        self._toolchain = toolchain
        self._cgroups = cgroups
        self._process = running.process

    @classmethod
    async def start(
        cls,
        image: Image,
        toolchain: Toolchain,
        phase: Phase = Phase.AGENT,
        *,
        mounts: Sequence[Mount] = (),
        limits: Limits = DEFAULT_LIMITS,
        state: State | None = None,
        network: Network = NO_NETWORK,
        services: Mapping[str, str] | None = None,
    ) -> "BubblewrapSandbox":
        """Build a sandbox from `image`.

        The calling thread must outlive the sandbox (the kernel ties a child's life to the thread that started it).

        Raises:
            SandboxError: Some part of the isolation could not be established.
        """
        state = state or State.default()
        run = state.new_run()
        cgroups = Cgroups()
        try:
            layout = plan(image, toolchain, phase, mounts, limits, run, state, network)
            hierarchies = Hierarchies.of_this_process()
            # Before the first is made: whoever is killed in between leaves a list for the next one.
            run.cgroups.write_text("\n".join(map(str, hierarchies.candidates(run.cgroup_name))))
            cgroups = Cgroups.create(run.cgroup_name, limits, hierarchies)
            running = await launch(layout, toolchain, limits, cgroups)
        except BaseException:
            await asyncio.to_thread(_discard, cgroups)
            await remove_in_time(run)
            raise
        box = cls(image, limits, run, toolchain, cgroups, running, layout.surroundings)
        if isinstance(network, NamedHosts):
            try:
                await _allow_low_ports(running.first)
            except BaseException:
                await box.close()
                raise
        await box.relay(network, services or {})
        return box

    @property
    @override
    def environment(self) -> dict[str, str]:
        """See `Sandbox.environment`."""
        return environment(self.image.env, first=self._toolchain.path)

    @property
    def limit_report(self) -> LimitReport:
        """See `Sandbox.limit_report`."""
        return self._cgroups.report()

    def limit_hits(self) -> LimitHits:
        """See `Sandbox.limit_hits`."""
        hits = self._cgroups.hits()
        memory = max(hits.memory, int(self._watchdog.memory_full))
        return LimitHits(memory, hits.processes, self._watchdog.disk_full, self._watchdog.failed)

    @override
    async def _ended(self) -> None:
        # bubblewrap ends when the first process has, and that ends when the kernel has killed the whole namespace.
        await self._process.wait()

    @override
    async def _die(self) -> None:
        await super()._die()
        if not self._cgroups.is_empty():
            raise SandboxError("a killed sandbox still has processes in its control group", STUCK)

    @override
    async def _remove(self) -> None:
        await remove_in_time(self.run_folder)

    @override
    async def _taken_by(self) -> Loss | None:
        grouped = bool(self._cgroups.groups)
        counted = self._cgroups.memory_kills() if grouped else increase(self._oom_kills, oom_kills())
        return outside_kill(self._process.returncode) if counted == 0 else None


async def _allow_low_ports(first: int) -> None:
    """Let the sandbox's processes bind ports below 1024, as the services have that its tests call.

    Raises:
        SandboxError: The kernel does not allow it.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(LOW_PORTS), str(first),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, errors = await process.communicate()
    if process.returncode != 0:
        raise SandboxError(
            f"the ports of named hosts cannot be bound in a sandbox: {errors.decode(errors='replace').strip()}",
            "use a kernel that lets the owner of a user namespace enter it",
        )


def _discard(cgroups: Cgroups) -> None:
    """Remove the groups of a sandbox that never came to be; its folder may not know them yet."""
    with suppress(OSError):  # The folder tries again, and logs.
        cgroups.remove()
