"""A sandbox whose first process is `inside.py`: what its host asks it for, whatever isolates it.

Invariant: whatever comes back from inside is bounded and untrusted; a first process that does not answer is killed, and
the sandbox with it.
"""

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from lego_rl.errors import SandboxError
from lego_rl.sandbox import records
from lego_rl.sandbox.channel import Channel, SandboxDied
from lego_rl.sandbox.hole import Hole
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.loss import Loss, SandboxLostError, lost
from lego_rl.sandbox.network import Relay
from lego_rl.sandbox.output import BoundedOutput, OutputPipe
from lego_rl.sandbox.records import Record
from lego_rl.sandbox.sandbox import LOOPBACK, Completed, OutputSink, Tree
from lego_rl.sandbox.seal_request import SealRequest, Surroundings, look_programs
from lego_rl.sandbox.transfer import fetch, fetch_logs, operate, room_to_put
from lego_rl.tasks.network import NamedHosts, Network

INSIDE = Path(__file__).with_name("inside.py")
INSIDE_MODULES = tuple(Path(__file__).with_name(f"inside_{part}.py") for part in ("files", "guard", "wire"))
FIRST_PROGRAM = "/run/sandbox/init.pyc"
"""Where `INSIDE`, compiled with its modules, is shown inside."""
ANSWER_SECONDS = 10.0
"""How long the first process may take to do what takes it a moment: to listen, to kill the others."""
DRAIN_SECONDS = 0.25
"""How long output is still read after a command has ended: a process that it left behind may hold the pipe open."""


class ControlledSandbox(ABC):
    """The part of a `Sandbox` that its first process does, and the order in which every sandbox ends.

    Args:
        image: What it started from.
        limits: Its limits.
        channel: Requests to the first process.
        surroundings: What the check of the seal takes as given here.
    """

    def __init__(self, image: Tree, limits: Limits, channel: Channel, surroundings: Surroundings) -> None:
        self._tree = image
        self.limits = limits
        self.surroundings = surroundings
        self._channel = channel
        self._relay: Relay | None = None
        self._asked_to_end = False
        """This host has ended it: a first process that answers no more is no loss."""
        self._dead = False
        """Every process in it is dead for certain: what it wrote changes no more."""
        self._taken_away = False
        """Somebody else took it away: there is nothing left to kill, and nothing to read."""
        self._closed = False

    @property
    @abstractmethod
    def environment(self) -> dict[str, str]:
        """See `Sandbox.environment`."""

    @abstractmethod
    def _kill_first(self) -> None:
        """Kill the first process, and with it all others in the sandbox."""

    @abstractmethod
    async def _die(self) -> None:
        """Kill everything in the sandbox, and wait until it is dead.

        Raises:
            SandboxLostError: It was taken away before, and with it what would say so.
            SandboxError: That is not certain.
        """

    @abstractmethod
    async def _discard(self) -> None:
        """Remove what the sandbox wrote; what cannot be removed is logged and left."""

    @abstractmethod
    async def _loss(self) -> Loss | None:
        """Who took away a sandbox that does not answer any more, by evidence that nothing inside can produce.

        It is asked only where this host has not ended it. ``None`` where it was killed for a limit, and wherever that
        cannot be told for certain.
        """

    async def kill(self) -> None:
        """See `Sandbox.kill`."""
        if self._dead or self._closed:
            return
        if self._relay is not None:
            await self._relay.close()
        self._asked_to_end = True
        try:
            await self._die()
        except SandboxLostError:
            self._taken_away = True
            raise
        self._dead = True

    async def close(self) -> None:
        """See `Sandbox.close`."""
        if self._closed:
            return
        try:
            if not self._taken_away:
                with suppress(SandboxLostError):
                    await self.kill()
        finally:
            self._closed = True
            await self._discard()

    def _check_dead(self) -> None:
        """Refuse what only a dead sandbox has.

        Raises:
            SandboxError: It is alive.
        """
        if not self._dead:
            raise SandboxError("what a running sandbox has written may still change", "kill it first")

    async def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str = "",
        timeout_sec: float | None = None,
        grace_sec: float = 0.0,
        sink: OutputSink | None = None,
    ) -> Completed:
        """See `Sandbox.exec`."""
        return await self._execute(
            "exec", argv, env=env, cwd=cwd, stdin=stdin, timeout_sec=timeout_sec, grace_sec=grace_sec, sink=sink
        )

    async def run_last(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout_sec: float | None = None,
        grace_sec: float = 0.0,
    ) -> Completed:
        """See `Sandbox.run_last`."""
        return await self._execute("last", argv, env=env, stdin=stdin, timeout_sec=timeout_sec, grace_sec=grace_sec)

    async def _execute(
        self,
        operation: Literal["exec", "last"],
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str = "",
        timeout_sec: float | None = None,
        grace_sec: float = 0.0,
        sink: OutputSink | None = None,
    ) -> Completed:
        variables = {**self.environment, **(env or {})}
        pairs = [f"{name}={value}" for name, value in variables.items()]
        fields = [operation, cwd or self._tree.workdir, str(len(argv)), *argv, *pairs]
        output = {name: BoundedOutput(self.limits.output_bytes) for name in ("stdout", "stderr")}
        pipes = [OutputPipe(_consumer(name, kept, sink)) for name, kept in output.items()]
        timed_out = died = False
        loss: Loss | None = None
        returncode = 137
        try:
            async with asyncio.timeout(timeout_sec):
                returncode = await self._channel.run(fields, stdin.encode(), pipes)
        except TimeoutError:
            timed_out = True
            try:
                if grace_sec > 0:
                    await self._terminate(pipes, grace_sec)
            finally:
                await self.kill_processes()
        except asyncio.CancelledError:
            await self.kill_processes()
            raise
        except SandboxDied:
            died = True
            loss = await self._lost()
        finally:
            for pipe in pipes:
                await pipe.drain(DRAIN_SECONDS)
        return Completed(returncode, output["stdout"].text(), output["stderr"].text(), timed_out, died, loss)

    async def put(self, folder: str, tree: Iterable[Record]) -> None:
        """See `Sandbox.put`."""
        async with room_to_put():
            content = await asyncio.to_thread(records.encode, tree)
            await self._told_if_lost(operate(self._channel, ["put", folder], content))

    async def get(self, path: str) -> list[Record]:
        """See `Sandbox.get`."""
        return await self._told_if_lost(fetch(self._channel, path))

    async def logs(self, folder: str) -> list[Record]:
        """See `Sandbox.logs`."""
        return await self._told_if_lost(fetch_logs(self._channel, folder))

    async def holes(self, wanted: SealRequest) -> list[Hole]:
        """See `Sandbox.holes`."""
        fields = ["seal", *wanted.fields(), *self.surroundings.fields()]
        told = await self._told_if_lost(operate(self._channel, fields, look_programs()))
        return [Hole.of_line(line) for line in told.decode(errors="replace").splitlines()]

    async def listen(self, port: int, address: str = LOOPBACK) -> socket.socket:
        """See `Sandbox.listen`."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._channel.listener(port, address)
        except TimeoutError as error:
            raise SandboxError(
                f"the sandbox did not listen within {ANSWER_SECONDS:.0f} s", "start fewer at once"
            ) from error
        except SandboxDied as error:
            raise SandboxError(
                "the sandbox died before it could listen", "look for what kills processes on this machine"
            ) from error

    async def relay(self, network: Network, services: Mapping[str, str]) -> None:
        """Serve the hosts that tests may reach by their names, if any; where that fails the sandbox is closed.

        Args:
            network: What the task declares.
            services: Where hosts are, if not where their names lead.

        Raises:
            SandboxError: A port cannot be bound.
        """
        if isinstance(network, NamedHosts):
            try:
                self._relay = await Relay.open(self.listen, network, services)
            except BaseException:
                await self.close()
                raise

    async def kill_processes(self) -> None:
        """See `Sandbox.kill_processes`."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                with suppress(SandboxDied):
                    await self._channel.reply(await self._channel.send(["kill"], []))
        except TimeoutError:
            self._asked_to_end = True
            self._kill_first()

    async def _told_if_lost[T](self, transfer: Awaitable[T]) -> T:
        """What a transfer gives; where the sandbox died meanwhile, who took it away, if the host can tell."""
        try:
            return await transfer
        except SandboxError as error:
            died = isinstance(error.__cause__, SandboxDied)
            if died and (loss := await self._lost()) is not None:
                raise lost(loss) from error
            raise

    async def _lost(self) -> Loss | None:
        """Who took away a sandbox that does not answer any more, where that was not this host."""
        return None if self._asked_to_end else await self._loss()

    async def _terminate(self, pipes: Sequence[OutputPipe], grace_sec: float) -> None:
        """Send SIGTERM to every process but the first, and wait, but not for long, until all have hung up."""
        with suppress(TimeoutError, SandboxDied):
            async with asyncio.timeout(grace_sec):
                await self._channel.reply(await self._channel.send(["end"], []))
                for pipe in pipes:
                    await pipe.ended()


def _consumer(name: str, kept: BoundedOutput, sink: OutputSink | None) -> Callable[[bytes], Awaitable[None]]:
    if sink is None:
        return kept.write

    async def consume(piece: bytes) -> None:
        await kept.write(piece)
        await sink(piece, name)

    return consume
