"""A sandbox as an environment of stock Harbor, whichever way it is isolated.

Invariant: the agent phase of every trial has no network but what the host listens on inside it, whatever Harbor plans;
a task that declares any other network for it is refused. No work on many files is done on the event loop, which serves
the other trials.

Use by import path: ``lego_rl.sandbox.environment:SealedEnvironment``.
"""

import asyncio
import socket
import struct
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, override

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.models.task.config import NetworkMode, NetworkPolicy

from lego_rl.errors import SandboxError, TaskError
from lego_rl.messages import Json
from lego_rl.sandbox.environments import provider_of, reap_once
from lego_rl.sandbox.limits import LimitHits, LimitReport, Limits
from lego_rl.sandbox.mounts import read_only
from lego_rl.sandbox.provider import TaskImage
from lego_rl.sandbox.records import Record, read_tree, write_tree
from lego_rl.sandbox.sandbox import OutputSink, Phase, Sandbox, Snapshot
from lego_rl.sandbox.seal import verify_seal
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.user import UID, USER
from lego_rl.tasks.task import Task, history_of
from lego_rl.tasks.usable import NO_AGENT_NETWORK
from lego_rl.threads import in_thread

DEFAULT_WORKDIR = "/app"
LOGS = "/logs"
LOG_FOLDERS = ("agent", "artifacts")
"""Of `LOGS`, which an agent can fill: it is fetched as far as somebody would read it."""
HARBOR_PARSES = "trajectory.json"
TESTS = ("spec.json", "test.sh")
_OF_FILES = (ValueError, RecursionError, zlib.error, tarfile.TarError, struct.error)
"""Errors of a library that is given a file of a task, and that say nothing of the machine."""
AS_AGENT = (None, USER, UID, str(UID), "root", 0, "0")
"""Users that a command may be asked for. Everything runs as the agent; agents of Harbor ask for root as a matter of
course, to install what is there or to make a file executable, and nothing of theirs needs more."""


class SealedEnvironment(BaseEnvironment):  # type: ignore[misc]  # Harbor has no types
    """One agent phase. Keyword arguments are plain JSON values (Harbor's ``EnvironmentConfig.kwargs``).

    Args:
        sandbox: Fields of `SandboxSettings`; a task's own memory and disk limits come first.
        read_only: Read-only mounts, ``{target inside: source on the host}``.
    """

    def __init__(
        self,
        *args: Any,
        sandbox: Mapping[str, Json] | None = None,
        read_only: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        self._settings = SandboxSettings.model_validate(sandbox or {})
        self._provider = provider_of(self._settings)
        self._read_only = dict(read_only or {})
        self._image: TaskImage | None = None
        self._sandbox: Sandbox | None = None
        super().__init__(*args, **kwargs)

    @staticmethod
    @override
    def type() -> str:
        return "lego-rl"

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        # What tests reach, the sandbox of their own is given; this one never changes.
        return EnvironmentCapabilities(
            disable_internet=True, network_allowlist=True, network_allowlist_hostnames=True, dynamic_network_policy=True
        )

    @classmethod
    @override
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(memory_limit=True)

    @override
    def _validate_definition(self) -> None:
        # Harbor names the agent phase first, and then the verifier's, which is no business of this sandbox.
        agent = next(iter(self._phase_network_policies), self.network_policy)
        if agent.network_mode != NetworkMode.NO_NETWORK:
            raise TaskError(
                f"task {self.environment_name} asks for network mode {agent.network_mode.value!r}", NO_AGENT_NETWORK
            )

    @override
    async def _apply_network_policy(self, network_policy: NetworkPolicy) -> None:
        """The agent's sandbox stays sealed whatever Harbor plans: tests have a sandbox of their own."""

    @property
    def sandbox(self) -> Sandbox:
        """The running sandbox.

        Raises:
            SandboxError: The environment is not started.
        """
        if self._sandbox is None:
            raise SandboxError("the environment is not running", "call start() first")
        return self._sandbox

    @property
    def image(self) -> TaskImage:
        """What the sandbox started from, and a grading sandbox starts from.

        Raises:
            SandboxError: The environment is not started.
        """
        if self._image is None:
            raise SandboxError("the environment is not running", "call start() first")
        return self._image

    @property
    def limits(self) -> Limits:
        """The limits of the agent phase, the task's own first; the grading sandbox is given the same."""
        return self._settings.limits(self._effective_memory_mb, self.task_env_config.storage_mb)

    @property
    def limit_report(self) -> LimitReport:
        """What enforces the limits."""
        return self.sandbox.limit_report

    def limit_hits(self) -> LimitHits:
        """Which of its own limits the sandbox ran into, by the host's evidence."""
        return self.sandbox.limit_hits()

    @override
    async def start(self, force_build: bool) -> None:
        task = await asyncio.to_thread(self._task)
        if task is not None:  # Nothing is sampled for a task that could not be graded here.
            self._provider.check_network(task.network)
        self._image = await asyncio.to_thread(self._prepare)
        shown = {mount["target"]: mount["source"] for mount in self._host_mounts}
        self._sandbox = await self._image.start(
            Phase.AGENT, mounts=read_only({**shown, **self._read_only}), limits=self.limits
        )
        try:
            await self._sandbox.put(LOGS, [Record(name, "directory", mode=0o755) for name in LOG_FOLDERS])
            await verify_seal(self._sandbox, task)
        except BaseException:
            await self.stop(delete=True)
            raise

    def _prepare(self) -> TaskImage:
        reap_once(self._settings)
        config = self.task_env_config
        try:
            return self._provider.prepare(
                self.environment_dir,
                workdir=config.workdir or DEFAULT_WORKDIR,
                docker_image=config.docker_image,
                history=history_of(self.environment_dir.parent),
            )
        except _OF_FILES as error:
            raise TaskError(
                f"the files of task {self.environment_dir.parent.name} cannot be used: {type(error).__name__}: {error}",
                "mend what it names, or report this as a bug, with the task",
            ) from error

    @override
    async def stop(self, delete: bool) -> None:
        if self._sandbox is not None:
            await self._sandbox.close()

    @override
    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        who = self._resolve_user(user)
        if who not in AS_AGENT:
            raise SandboxError(f"nothing can be run as {who!r}", f"leave the user out: all is run as {USER}")
        if who in ("root", 0, "0"):
            self.logger.debug("nothing is root in a sandbox: %s is run as %s", command, USER)
        done = await self.sandbox.exec(
            ["bash", "-c", command], cwd=cwd, env=self._merge_env(env) or {}, timeout_sec=timeout_sec, sink=self._sink()
        )
        if done.timed_out:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds")
        return ExecResult(stdout=done.stdout, stderr=done.stderr, return_code=done.returncode)

    async def listen(self, port: int) -> socket.socket:
        """A socket that listens on ``127.0.0.1:port`` inside the sandbox, for a server on the host.

        Raises:
            SandboxError: The port cannot be bound.
        """
        return await self.sandbox.listen(port)

    async def kill(self) -> None:
        """Kill everything inside; files stay for `snapshot`.

        Raises:
            SandboxError: Something is still alive.
        """
        await self.sandbox.kill()

    async def snapshot(self) -> Snapshot:
        """The work tree as the killed sandbox left it.

        Raises:
            SandboxError: The sandbox is still alive.
        """
        return await self.sandbox.snapshot()

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        folder, _, name = target_path.rstrip("/").rpartition("/")
        # A generator, so that the file is read where it is encoded: off the event loop.
        await self.sandbox.put(folder or "/", (replace(record, path=name) for record in read_tree(Path(source_path))))

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self.sandbox.put(target_dir, read_tree(Path(source_dir)))

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        records = await self.sandbox.get(source_path)
        if len(records) != 1 or records[0].path:
            raise SandboxError(f"{source_path} is not a file in the sandbox", "fetch a folder with download_dir")
        target = Path(target_path)
        record = Record(target.name, "file", records[0].content, records[0].mode)
        await in_thread(partial(write_tree, [record], target.parent))

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        is_log = PurePosixPath(source_dir).is_relative_to(LOGS)
        records = await (self.sandbox.logs if is_log else self.sandbox.get)(source_dir)
        # Harbor parses a file of this name on the host, and a malformed one would spare the agent its grading.
        kept = [_without_link(record) for record in records if record.path != HARBOR_PARSES]
        await in_thread(partial(write_tree, kept, Path(target_dir)))

    def _task(self) -> Task | None:
        """The task that this environment belongs to, if it has tests that can be run."""
        folder = self.environment_dir.parent
        return Task.load(folder) if any((folder / "tests" / name).is_file() for name in TESTS) else None

    def _sink(self) -> OutputSink | None:
        emit = self._output_callback()
        if emit is None:
            return None

        async def consume(piece: bytes, stream: str) -> None:
            await emit(piece.decode(errors="replace"), "stdout" if stream == "stdout" else "stderr")

        return consume


def _without_link(record: Record) -> Record:
    """A link as a file that says where it leads: on the host it would lead whoever reads a log to the host's files."""
    if record.kind != "symlink":
        return record
    return Record(record.path, "file", b"[a link to %s]\n" % record.content)
