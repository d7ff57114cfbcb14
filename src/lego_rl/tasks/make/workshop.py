"""What making tasks of one source works with: where tests run, what is known already, where tasks are written."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from lego_rl.tasks.at_once import once_more
from lego_rl.tasks.make.account import Account
from lego_rl.tasks.make.journal import Findings
from lego_rl.tasks.make.running import Bench, Runner, TestRun
from lego_rl.tasks.make.suite import STYLES, Suite, find_suite
from lego_rl.tasks.make.tree import Tree
from lego_rl.tasks.make.writing import Found


class Watcher(Protocol):
    """Is told how far the work is."""

    def doing(self, what: str) -> None:
        """What is being done now."""
        ...

    def made(self, task: str, kind: str) -> None:
        """A task is written."""
        ...


@dataclass(frozen=True)
class Workshop:
    """Everything that is shared by the makers of one run.

    Attributes:
        runner: Where tests run.
        findings: What is known already.
        pool: Where tasks are written.
        account: What came of what.
        watcher: Is told how far the work is.
        seed: Chooses among candidates, and among ways of saying the same.
        at_once: Test runs at a time.
    """

    runner: Runner
    findings: Findings
    pool: Path
    account: Account
    watcher: Watcher
    seed: int
    at_once: int
    _benches: dict[str, Bench] = field(default_factory=dict)
    _room: list[asyncio.Semaphore] = field(default_factory=list)

    async def bench(self, tree: Tree) -> Bench:
        """A tree that is ready to be tested; no more runs go on at a time than there is room for."""
        if tree.digest not in self._benches:
            if not self._room:
                self._room.append(asyncio.Semaphore(self.at_once))
            self._benches[tree.digest] = _Bounded(tree, self.runner, self._room[0])
        return self._benches[tree.digest]

    async def suite(self, tree: Tree) -> Suite:
        """How the tests of a tree are run, found out once.

        Raises:
            TaskError: They do not run.
            SandboxError: The runs could not be had.
        """
        known = self.findings.get("suite", tree.digest)
        if known is not None:
            style = next(style for style in STYLES if style.name == known["style"])
            fields = {name: tuple(known[name]) for name in ("files", "flaky", "slow", "failing")}
            return Suite(
                style, fields["files"], frozenset(known["stable"]), known["seconds"], fields["flaky"], fields["slow"],
                fields["failing"], known["left_out"], known["tried"],
            )  # fmt: skip
        suite = await find_suite(tree, await self.bench(tree))
        found = {
            "style": suite.style.name, "files": suite.files, "stable": sorted(suite.stable), "seconds": suite.seconds,
            "flaky": suite.flaky, "slow": suite.slow, "failing": suite.failing, "left_out": dict(suite.left_out),
            "tried": dict(suite.tried),
        }  # fmt: skip
        self.findings.put(found, "suite", tree.digest)
        return suite

    def write(self, found: Found, module: str) -> None:
        """Write a task, unless it is there as it is from a run before.

        Raises:
            TaskError: Its files are no task directory.
            OSError: The disk does not take it.
        """
        directory = found.directory()
        if not _holds(self.pool / found.id, directory.files()):
            directory.replace(self.pool)
        self.account.tasks[found.kind].append(found.id)
        self.account.families[found.family] += 1
        self.account.modules[module] += 1
        self.watcher.made(found.id, found.kind)


@dataclass(frozen=True)
class _Bounded:
    """A bench that waits for room, and is made ready when it is first used: what is known already needs none."""

    tree: Tree
    runner: Runner
    room: asyncio.Semaphore
    _ready: list[Bench] = field(default_factory=list)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self, files: Mapping[str, bytes | None], command: str, timeout_sec: float) -> TestRun:
        """See `Bench.run`."""
        async with self._lock:
            if not self._ready:
                self._ready.append(await self.runner.bench(self.tree))
        async with self.room:
            return await once_more(lambda: self._ready[0].run(files, command, timeout_sec))


def _holds(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Whether a folder has these files, and no others."""
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return there.keys() == files.keys() and all(there[name].read_bytes() == text for name, text in files.items())


def task_id(*parts: str) -> str:
    """A directory's name."""
    return re.sub(r"[^a-z0-9.]+", "-", "-".join(parts).lower()).strip("-.")
