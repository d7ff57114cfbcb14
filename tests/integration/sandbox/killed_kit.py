"""A process that lives through a trial's sandboxes, and is killed before one of its operations on the system.

Stand-alone: ``killed_kit.py STATE TASK``. A line ``N FOLDER`` on standard input forks a child that does all of it once,
with `FOLDER` for temporary files, and kills itself before the N-th operation; its id is printed, and then how many
operations it came to, or 0 where it was killed. The forks spare each child the imports.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from lego_rl.sandbox.bubblewrap.provider import BubblewrapProvider
from lego_rl.sandbox.git.manifest import HistorySeal  # noqa: F401  # what is imported late otherwise
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.seal import verify_seal
from lego_rl.sandbox.state import State
from lego_rl.tasks.task import Task

WATCHED = ("os.", "shutil.", "tempfile.", "subprocess.", "socket.")
MARKER = "sleep 311"


async def live(state: State, task: Task) -> None:
    """Every phase of a trial once."""
    provider = BubblewrapProvider(state)
    provider.reap()
    image = await asyncio.to_thread(provider.prepare, task.path / "environment", workdir="/app")
    agent = await image.start(Phase.AGENT)
    await verify_seal(agent, task)
    await agent.exec(["sh", "-c", f"echo new > new; {MARKER} & echo done"])
    await agent.kill()
    patch = await asyncio.to_thread((await agent.snapshot()).diff, image.pristine)
    assert [change.path for change in patch.changes] == ["new"]
    grading = await image.start(Phase.GRADING)
    await grading.exec(["sh", "-c", f"{MARKER} & echo done"])
    await grading.kill()
    await grading.report()
    await grading.close()
    await agent.close()


def counting(fatal: int) -> Callable[[], int]:
    """Count the operations from now on, and die before one of them; tells how many there were."""
    seen = 0

    def hook(event: str, _: object) -> None:
        nonlocal seen
        if event == "open" or event.startswith(WATCHED):
            seen += 1
            if seen == fatal:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return lambda: seen


def main() -> None:
    state, task = State(Path(sys.argv[1])), Task.load(Path(sys.argv[2]))
    for line in sys.stdin:
        fatal, folder = line.split()
        # Another state of the files, so that the image is made again.
        os.utime(task.path / "environment" / "repo" / "run.sh")
        child = os.fork()
        if child == 0:
            tempfile.tempdir = folder
            seen = counting(int(fatal))
            asyncio.run(live(state, task))
            Path(folder, "seen").write_text(str(seen()))
            os._exit(0)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        ended = Path(folder, "seen")
        if status == signal.SIGKILL:
            print(0, flush=True)
        else:
            print(ended.read_text() if status == 0 else f"failed with {status}", flush=True)
            shutil.rmtree(folder)
            Path(folder).mkdir()


if __name__ == "__main__":
    main()
