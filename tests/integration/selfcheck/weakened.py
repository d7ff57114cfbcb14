"""Each defence, replaced in the code by what a design without it does. Only tests can do that."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from aiohttp import web

from lego_rl.gateway import application
from lego_rl.rollout import recording
from lego_rl.rollout.faults import FAULT_TABLE, Ended
from lego_rl.sandbox import comparison, environment, grading, image, seccomp
from lego_rl.sandbox.bpf import Return, assemble
from lego_rl.sandbox.bubblewrap import box, launch, layout, rootfs
from lego_rl.sandbox.bubblewrap.box import BubblewrapSandbox
from lego_rl.sandbox.codec import verdict_from_json, verdict_to_json
from lego_rl.sandbox.controlled import ControlledSandbox
from lego_rl.sandbox.diff import OverlaySnapshot
from lego_rl.sandbox.docker import box as docker_box
from lego_rl.sandbox.docker import config
from lego_rl.sandbox.docker.box import DockerSandbox
from lego_rl.sandbox.environment import SealedEnvironment
from lego_rl.sandbox.git.layers import FileSystem, copy_as_it_is
from lego_rl.sandbox.git.manifest import HistorySeal
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.ownership.rules import Ownership
from lego_rl.sandbox.ownership.split import Split
from lego_rl.sandbox.seccomp import ALLOW
from lego_rl.sandbox.transfer import TransferError
from lego_rl.sandbox.verdict import Change, Patch
from lego_rl.sandbox.verifier import VERDICT_FILE, FreshVerifier
from lego_rl.selfcheck.attack import Defence

type Weaken = Callable[[pytest.MonkeyPatch, Path], None]
"""Is given the folder with the host's secrets."""


@asynccontextmanager
async def without(defence: Defence, folder: Path, scratch: Path, environment: str) -> AsyncIterator[None]:
    """The code without one defence; sandboxes that are left alive by that are closed in the end.

    Args:
        defence: Which.
        folder: With the host's secrets.
        scratch: For files of its own.
        environment: How sandboxes are isolated.
    """
    left: list[ControlledSandbox] = []
    with pytest.MonkeyPatch.context() as patch:
        if defence is Defence.KILL:
            _leave_alive(patch, left)
        elif defence is Defence.UNTRACEABLE:
            _let_trace(patch, scratch, {"bubblewrap": layout, "docker": config}[environment])
        else:
            {**EVERYWHERE, **ISOLATION[environment]}[defence](patch, folder)
        yield
    for sandbox in left:
        await sandbox.close()


def is_taken_away(defence: Defence, environment: str) -> bool:
    """Whether there is a way to take a defence away in an environment."""
    return defence in (Defence.KILL, Defence.UNTRACEABLE, *EVERYWHERE, *ISOLATION[environment])


async def _looks_sealed(*_: object) -> None:
    return


def _with_git(patch: pytest.MonkeyPatch, _: Path) -> None:
    def as_shipped(files: FileSystem, _: object, agent: Path, __: Path) -> HistorySeal:
        agent.mkdir()
        for place in files.search().places.values():
            target = agent / place.inside.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_as_it_is(place.entry, target)
        return HistorySeal()

    patch.setattr(image, "build_layers", as_shipped)
    patch.setattr(environment, "verify_seal", _looks_sealed)


def _on_the_hosts_network(patch: pytest.MonkeyPatch, _: Path) -> None:
    patch.setattr(layout, "NAMESPACES", tuple(each for each in layout.NAMESPACES if each != "--unshare-net"))
    patch.setattr(environment, "verify_seal", _looks_sealed)


def _for_any_session(patch: pytest.MonkeyPatch, _: Path) -> None:
    @web.middleware
    async def pass_on(request: web.Request, handler: Any) -> web.StreamResponse:
        return await handler(request)

    patch.setattr(application, "_own_session", lambda _: pass_on)


def _agents_files_win(patch: pytest.MonkeyPatch, _: Path) -> None:
    run = grading._apply_and_test

    async def agents_first(box: Any, how: Any, workdir: str, changes: Sequence[Any], seconds: float) -> Any:
        kept = {record.path: record for record in reversed(changes)}
        return await run(box, how, workdir, list(reversed(kept.values())), seconds)

    patch.setattr(Ownership, "split", lambda _, patch: Split(patch.changes))
    patch.setattr(grading, "_apply_and_test", agents_first)


def _nothing_dropped(patch: pytest.MonkeyPatch, _: Path) -> None:
    patch.setattr(comparison, "dropped_because", lambda _: None)
    patch.setattr(comparison, "product_because", lambda *_: None)


class _Shared:
    """An image whose grading sandbox is the one that the agent had."""

    def __init__(self, sandbox: Any) -> None:
        self.pristine, self.workdir = sandbox.image.pristine, sandbox.image.workdir
        self._sandbox = sandbox

    async def start(self, *_: object, **__: object) -> Any:
        return self._sandbox


class _Unchanged:
    def diff(self, _: Path) -> Patch:
        return Patch()


async def _nothing(*_: object) -> None:
    return


async def _unchanged(*_: object) -> _Unchanged:
    return _Unchanged()


def _leave_processes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ControlledSandbox, "run_last", ControlledSandbox.exec)


def _in_the_agents_sandbox(patch: pytest.MonkeyPatch, _: Path) -> None:
    _leave_processes(patch)
    patch.setattr(SealedEnvironment, "kill", _nothing)
    patch.setattr(SealedEnvironment, "snapshot", _unchanged)
    patch.setattr(SealedEnvironment, "image", property(lambda self: _Shared(self.sandbox)))


def _reward_from_a_file(patch: pytest.MonkeyPatch, _: Path) -> None:
    kill, verify = SealedEnvironment.kill, FreshVerifier.verify

    async def look_first(self: Any) -> None:
        if not hasattr(self, "found"):
            try:
                self.found = (await self.sandbox.get("/logs/verifier/reward.txt"))[0].content
            except TransferError:
                self.found = b"0"
        await kill(self)

    async def believe(self: Any) -> Any:
        result = await verify(self)
        path = self.trial_paths.verifier_dir / VERDICT_FILE
        verdict = replace(verdict_from_json(path.read_text()), reward=int(self.environment.found))
        path.write_text(verdict_to_json(verdict))
        return result

    patch.setattr(SealedEnvironment, "kill", look_first)
    patch.setattr(FreshVerifier, "verify", believe)


def _leave_alive(patch: pytest.MonkeyPatch, left: list[ControlledSandbox]) -> None:
    async def keep(self: Any, **_: object) -> None:
        left.append(self.sandbox)

    async def wait(self: Any) -> None:
        await asyncio.sleep(3)  # while whatever was left goes on

    _leave_processes(patch)
    patch.setattr(SealedEnvironment, "kill", wait)
    patch.setattr(SealedEnvironment, "stop", keep)
    patch.setattr(ControlledSandbox, "_check_dead", lambda _: None)


def _unlimited(patch: pytest.MonkeyPatch, _: Path) -> None:
    ample = Limits(memory_mb=2048, processes=512, disk_mb=2048, scratch_mb=256)
    patch.setattr(SealedEnvironment, "limits", property(lambda _: ample))


def _large_files(patch: pytest.MonkeyPatch, _: Path) -> None:
    patch.setattr(comparison, "MAX_FILE_BYTES", 1 << 30)


EVERY_CALL = assemble([Return(ALLOW)])


def _every_call(patch: pytest.MonkeyPatch, _: Path) -> None:
    def descriptor() -> int:
        made = os.memfd_create("rules")
        os.write(made, EVERY_CALL)
        os.lseek(made, 0, os.SEEK_SET)
        return made

    patch.setattr(launch, "filter_descriptor", descriptor)


def _let_trace(patch: pytest.MonkeyPatch, scratch: Path, environment: ModuleType) -> None:
    text = layout.INSIDE.read_text()
    assert text.count("    inside_guard.close_to_tracers()\n") == 1
    program = scratch / "inside.py"
    program.write_text(text.replace("    inside_guard.close_to_tracers()\n", ""))
    program.chmod(0o644)
    patch.setattr(environment, "INSIDE", program)


def _host_folder_mounted(patch: pytest.MonkeyPatch, folder: Path) -> None:
    plan = layout.plan

    def more(image: Any, toolchain: Any, phase: Any, mounts: Sequence[Mount], *rest: Any) -> Any:
        return plan(image, toolchain, phase, [*mounts, Mount(folder, str(folder))], *rest)

    patch.setattr(box, "plan", more)


def _hosts_environment(patch: pytest.MonkeyPatch, _: Path) -> None:
    own = BubblewrapSandbox.environment
    assert isinstance(own, property)
    patch.setattr(BubblewrapSandbox, "environment", property(lambda self: {**os.environ, **own.fget(self)}))


def _hosts_proc(patch: pytest.MonkeyPatch, _: Path) -> None:
    mounts = rootfs.kernel_mounts

    def shared() -> list[str]:
        return ["--ro-bind", "/proc", *mounts()[1:]]

    patch.setattr(rootfs, "kernel_mounts", shared)


def _uncovered(patch: pytest.MonkeyPatch, _: Path) -> None:
    patch.setattr(rootfs, "HIDDEN_IN_PROC", ())


def _shared_memory(patch: pytest.MonkeyPatch, _: Path) -> None:
    patch.setattr(layout, "NAMESPACES", tuple(each for each in layout.NAMESPACES if each != "--unshare-ipc"))


def _after_diff(patch: pytest.MonkeyPatch, then: Callable[[OverlaySnapshot, Patch], Patch]) -> None:
    compare = OverlaySnapshot.diff
    patch.setattr(OverlaySnapshot, "diff", lambda self, pristine: then(self, compare(self, pristine)))


def _links_followed(patch: pytest.MonkeyPatch, _: Path) -> None:
    def follow(snapshot: OverlaySnapshot, change: Change) -> Change:
        path = snapshot.upper / change.path
        return (
            replace(change, kind="file", content=path.read_bytes()) if path.is_symlink() and path.is_file() else change
        )

    _after_diff(
        patch, lambda snapshot, made: replace(made, changes=tuple(follow(snapshot, each) for each in made.changes))
    )


def _git_asked(patch: pytest.MonkeyPatch, _: Path) -> None:
    def ask(snapshot: OverlaySnapshot, made: Patch) -> Patch:
        subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", snapshot.upper, "status"], check=True, capture_output=True
        )
        return made

    _after_diff(patch, ask)


def _any_crash_masks(patch: pytest.MonkeyPatch, _: Path) -> None:
    classify = recording.classify

    def naive(host: Any, agent: Any, grading: Any) -> Any:
        return classify(host, agent, grading) if agent.exit_code == 0 else FAULT_TABLE[Ended.SANDBOX_START]

    patch.setattr(recording, "classify", naive)


def _container(patch: pytest.MonkeyPatch, **changes: object) -> None:
    """Containers that are asked for with something else."""
    asked = config.container

    def more(*arguments: Any) -> Any:
        body = asked(*arguments)
        return {**body, "HostConfig": {**body["HostConfig"], **changes}}

    patch.setattr(docker_box, "container", more)


def _in_the_daemons_network(patch: pytest.MonkeyPatch, _: Path) -> None:
    _container(patch, NetworkMode="host")
    patch.setattr(environment, "verify_seal", _looks_sealed)


def _every_call_in_docker(patch: pytest.MonkeyPatch, _: Path) -> None:
    patch.setattr(seccomp, "compiled", lambda: EVERY_CALL)
    _container(patch, SecurityOpt=["no-new-privileges:true", "seccomp=unconfined"])
    patch.setattr(environment, "verify_seal", _looks_sealed)


def _host_folder_in_docker(patch: pytest.MonkeyPatch, folder: Path) -> None:
    mounts = config._host_mounts
    patch.setattr(config, "_host_mounts", lambda *own: [*mounts(*own), Mount(folder, str(folder))])


def _hosts_environment_in_docker(patch: pytest.MonkeyPatch, _: Path) -> None:
    own = DockerSandbox.environment
    assert isinstance(own, property)
    patch.setattr(DockerSandbox, "environment", property(lambda self: {**os.environ, **own.fget(self)}))


def _uncovered_in_docker(patch: pytest.MonkeyPatch, _: Path) -> None:
    _container(patch, MaskedPaths=[])
    patch.setattr(environment, "verify_seal", _looks_sealed)


def _shared_memory_in_docker(patch: pytest.MonkeyPatch, _: Path) -> None:
    _container(patch, IpcMode="host")


EVERYWHERE: Mapping[Defence, Weaken] = {
    Defence.HISTORY: _with_git,
    Defence.OWN_SESSION: _for_any_session,
    Defence.OWNERSHIP: _agents_files_win,
    Defence.DROPPED: _nothing_dropped,
    Defence.FRESH_SANDBOX: _in_the_agents_sandbox,
    Defence.VERDICT: _reward_from_a_file,
    Defence.LIMITS: _unlimited,
    Defence.PATCH_BOUND: _large_files,
    Defence.LINKS: _links_followed,
    Defence.NO_GIT: _git_asked,
    Defence.ATTRIBUTION: _any_crash_masks,
}

ISOLATION: Mapping[str, Mapping[Defence, Weaken]] = {
    "bubblewrap": {
        Defence.NETWORK_NAMESPACE: _on_the_hosts_network,
        Defence.SYSTEM_CALLS: _every_call,
        Defence.MOUNTS: _host_folder_mounted,
        Defence.ENVIRONMENT: _hosts_environment,
        Defence.OWN_PROC: _hosts_proc,
        Defence.COVERED_PROC: _uncovered,
        Defence.IPC_NAMESPACE: _shared_memory,
    },
    "docker": {
        Defence.NETWORK_NAMESPACE: _in_the_daemons_network,
        Defence.SYSTEM_CALLS: _every_call_in_docker,
        Defence.MOUNTS: _host_folder_in_docker,
        Defence.ENVIRONMENT: _hosts_environment_in_docker,
        Defence.COVERED_PROC: _uncovered_in_docker,
        Defence.IPC_NAMESPACE: _shared_memory_in_docker,
    },
}
"""What each environment has of its own."""
