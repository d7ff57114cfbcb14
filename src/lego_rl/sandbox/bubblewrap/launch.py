"""Start a sandbox's process chain: launcher → bubblewrap → first process.

Invariant: when `launch` returns, the first process has answered from inside, all of its limits set; when it fails,
nothing of the chain stays alive.
"""

import asyncio
import json
import marshal
import os
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass

from lego_rl.errors import SandboxError
from lego_rl.sandbox.bubblewrap.layout import Layout
from lego_rl.sandbox.bubblewrap.preflight import check_machine
from lego_rl.sandbox.cgroups import Cgroups
from lego_rl.sandbox.channel import Channel
from lego_rl.sandbox.controlled import FIRST_PROGRAM
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.output import readable_copy
from lego_rl.sandbox.outside_user import outside_uid
from lego_rl.sandbox.seccomp import filter_descriptor
from lego_rl.sandbox.toolchain import Toolchain

START_SECONDS = 30.0
END_SECONDS = 10.0
"""How long a chain that failed may take to be gone."""
ERROR_BYTES = 4096


@dataclass(frozen=True)
class Running:
    """The process chain of a sandbox.

    Attributes:
        process: bubblewrap, outside; it ends after everything inside has.
        channel: Requests to the first process.
        first: The first process, by its id on the host.
        pidfd: The same as a descriptor, which the owner closes.
    """

    process: asyncio.subprocess.Process
    channel: Channel
    first: int
    pidfd: int


async def launch(layout: Layout, toolchain: Toolchain, limits: Limits, cgroups: Cgroups) -> Running:
    """Run the launcher and wait until the sandbox's first process is ready.

    Raises:
        SandboxError: Some part of the isolation could not be established.
    """
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    channel = Channel(mine)
    info_read, info_write = os.pipe2(os.O_CLOEXEC)
    errors = os.memfd_create("errors", os.MFD_CLOEXEC)
    process: asyncio.subprocess.Process | None = None
    try:
        try:
            process = await _spawn(layout, toolchain, limits, cgroups, theirs.fileno(), info_write, errors)
        finally:
            theirs.close()
            os.close(info_write)
        async with asyncio.timeout(START_SECONDS):
            ready = await channel.ready()
            if not ready:
                await process.wait()
        if not ready:
            raise await _explain(os.pread(errors, ERROR_BYTES, 0).decode(errors="replace"))
        return Running(process, channel, *_first(os.read(info_read, ERROR_BYTES)))
    except BaseException as error:
        channel.close()
        if process is not None:
            await _end(process)
        if isinstance(error, TimeoutError):
            raise SandboxError(f"a sandbox was not ready after {START_SECONDS:.0f} s", "start fewer at once") from error
        raise
    finally:
        os.close(info_read)
        os.close(errors)


async def _spawn(
    layout: Layout, toolchain: Toolchain, limits: Limits, cgroups: Cgroups, control: int, info: int, errors: int
) -> asyncio.subprocess.Process:
    rules = filter_descriptor()
    argv = [
        *layout.arguments, "--seccomp", str(rules), "--info-fd", str(info), "--",
        toolchain.interpreter, "-I", "-S", FIRST_PROGRAM, str(control), *_resource_limits(limits, cgroups),
    ]  # fmt: skip
    request = readable_copy(marshal.dumps({
        "owner": os.getpid(),
        "uid": outside_uid(),
        "cgroups": [str(path) for path in cgroups.paths],
        "binds": [{"source": str(source), "name": name} for source, name in layout.binds.items()],
        "overlays": [dict(overlay) for overlay in layout.overlays],
        "argv": argv,
    }))  # fmt: skip
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(layout.launcher), str(request),
            pass_fds=[control, info, rules, request],
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=errors,
            start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(rules)
        os.close(request)


def _first(info: bytes) -> tuple[int, int]:
    """The first process, as a host pid and a descriptor, by what bubblewrap says of it.

    Raises:
        SandboxError: It is gone already.
    """
    try:
        pid = int(json.loads(info)["child-pid"])
        return pid, os.pidfd_open(pid)
    except (ProcessLookupError, ValueError, KeyError) as error:
        raise SandboxError("a sandbox ended as soon as it was ready", "look for what kills processes here") from error


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the chain from its top and wait; the kernel kills each process with the one that started it."""
    with suppress(ProcessLookupError):
        process.kill()
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), END_SECONDS)


async def _explain(message: str) -> SandboxError:
    """The error for a chain that ended early: what the machine lacks where that is known, else what it printed."""
    try:
        await asyncio.to_thread(check_machine)
    except SandboxError as error:
        return error
    text = "; ".join(message.split("\n")).strip("; ")
    fix = "keep the state folder on ext4, xfs or btrfs" if "overlay" in text else "report this as a bug"
    return SandboxError(f"a sandbox could not be built: {text or 'it printed nothing'}", fix)


def _resource_limits(limits: Limits, cgroups: Cgroups) -> list[str]:
    """Processes, bytes of data, bytes of a file: what `inside.py` sets; 0 where a control group does it better."""
    processes, data = (0, 0) if cgroups.groups else (limits.processes, limits.memory_mb << 20)
    return [str(processes), str(data), str(limits.disk_mb << 20)]
