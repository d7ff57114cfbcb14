"""One real sandbox, started, used and removed: the proof that this machine can isolate agents.

Invariant: it takes the path that a trial takes (start, overlay, seal, kill, snapshot), on the file system that trials
use, and leaves nothing behind.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from lego_rl.errors import SandboxError
from lego_rl.sandbox.limits import LimitReport
from lego_rl.sandbox.outside_user import give_to_sandbox
from lego_rl.sandbox.provider import TaskImage
from lego_rl.sandbox.sandbox import Phase, Sandbox
from lego_rl.sandbox.seal import verify_seal
from lego_rl.sandbox.state import State
from lego_rl.sandbox.verdict import Change

WORKDIR = "/app"
SCRIPT = "rm -r old && mkdir old && printf made > old/new"
EXPECTED = (Change("old/gone", "deleted"), Change("old/new", "file", b"made"))
PROBE_SECONDS = 60.0


async def _nothing(_: Sandbox) -> None:
    return


async def probe(
    image_of: Callable[[Path], TaskImage], state: State, *, also: Callable[[Sandbox], Awaitable[None]] = _nothing
) -> LimitReport:
    """Start a sandbox, change its work tree and read the change back.

    Args:
        image_of: Makes an image whose work tree, at `WORKDIR`, is a folder that belongs to sandboxes: the folder
            ``repo`` of an ``environment/``.
        state: Where trials keep their files; their overlays must work there.
        also: What else is tried in it.

    Returns:
        What holds the limits of sandboxes here.

    Raises:
        SandboxError: Agents cannot be isolated here, or not in `state`.
    """
    try:
        state.root.mkdir(parents=True, exist_ok=True)
        with state.building(state.root, "probe-") as folder:
            return await _use(await asyncio.to_thread(image_of, _filled(folder)), state, also)
    except OSError as error:
        raise SandboxError(
            f"sandboxes cannot keep their files in {state.root}: {error}", "set sandbox.state to a folder of your own"
        ) from error


def _filled(folder: Path) -> Path:
    tree = folder / "environment" / "repo"
    (tree / "old").mkdir(parents=True)
    (tree / "old" / "gone").touch()
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
        give_to_sandbox(path)
    return tree


async def _use(image: TaskImage, state: State, also: Callable[[Sandbox], Awaitable[None]]) -> LimitReport:
    box = await image.start(Phase.AGENT)
    try:
        await verify_seal(box, None)
        done = await box.exec(["sh", "-c", SCRIPT], timeout_sec=PROBE_SECONDS)
        await also(box)
        await box.kill()
        patch = (await box.snapshot()).diff(image.pristine)
        if done.returncode != 0 or patch.changes != EXPECTED:
            raise SandboxError(
                f"a sandbox in {state.root} did not change its work tree as told: {done.stderr.strip() or patch}",
                "keep the state folder on ext4, xfs or btrfs; on a cluster, report this as a bug",
            )
        return box.limit_report
    finally:
        await box.close()
