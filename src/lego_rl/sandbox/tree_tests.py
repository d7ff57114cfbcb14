"""Runs the tests of a source tree in grading sandboxes: the same isolation, limits and toolchain as those of a trial.

Invariant: nothing of the tree is imported or executed outside of one, and a report is read when all in it is dead.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lego_rl.errors import TaskError
from lego_rl.owner import owned_folder
from lego_rl.sandbox.grading_run import run_tests, variables
from lego_rl.sandbox.limits import DEFAULT_LIMITS, Limits
from lego_rl.sandbox.provider import Provider, TaskImage
from lego_rl.sandbox.records import Record, is_plain
from lego_rl.sandbox.sandbox import Phase
from lego_rl.tasks.history import History
from lego_rl.tasks.make.running import TestRun
from lego_rl.tasks.make.tree import Tree

WORKDIR = "/app"


@dataclass(frozen=True)
class SandboxedRunner:
    """See `lego_rl.tasks.make.running.Runner`.

    Attributes:
        provider: Of the sandboxes.
        folder: Where trees are laid out for them.
        limits: Of each sandbox.
        sandboxes: See `Runner.sandboxes`.
    """

    provider: Provider
    folder: Path
    limits: Limits = DEFAULT_LIMITS
    sandboxes: str = ""

    async def bench(self, tree: Tree) -> "SandboxedBench":
        """See `Runner.bench`."""
        return await asyncio.to_thread(self._bench, tree)

    def _bench(self, tree: Tree) -> "SandboxedBench":
        place = self.folder / tree.digest
        if not place.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True)
            with owned_folder(self.folder, ".laying-") as scratch:
                for name, content in tree.files.items():
                    if not is_plain(name):
                        raise TaskError(f"a source tree has a file called {name[:200]!r}", "name a tree without it")
                    file = scratch / "tree" / "repo" / name
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(content)
                (scratch / "tree" / "repo").mkdir(parents=True, exist_ok=True)
                (scratch / "tree").rename(place)
        image = self.provider.prepare(place, workdir=WORKDIR, history=History(agent="single-commit"))
        return SandboxedBench(image, self.limits)


@dataclass(frozen=True)
class SandboxedBench:
    """See `lego_rl.tasks.make.running.Bench`."""

    image: TaskImage
    limits: Limits

    async def run(self, files: Mapping[str, bytes | None], command: str, timeout_sec: float) -> TestRun:
        """See `Bench.run`."""
        started = time.monotonic()
        changes = [
            Record(path, "deleted") if content is None else Record(path, "file", content)
            for path, content in sorted(files.items())
        ]
        box = await self.image.start(Phase.GRADING, limits=self.limits)
        try:
            await box.put(self.image.workdir, changes)
            ended = await run_tests(box, ["sh", "-c", command], variables({}), timeout_sec)
            await box.kill()
            report = await box.report()
        finally:
            await box.close()
        seconds = time.monotonic() - started
        if ended.end != "completed":
            return TestRun(ended.end, b"", ended.log, seconds)
        return TestRun("completed" if report else "no_report", report, ended.log, seconds)
