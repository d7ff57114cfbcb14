"""What isolation costs a trial: from the start of its sandbox to the end of its grading one, without harness and tests.

Invariant: every step is the one that a trial takes, through the `Provider` protocol, and none is left out: images,
seals and patches are checked, so a figure is of sandboxes that isolate. What stands for the harness and for the tests
is not timed. Trials follow each other without a pause, the heaviest load that so many at once can be: with a harness
between its steps a trial waits less for the others.
"""

import asyncio
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median, quantiles

from lego_rl.bench.sandbox_task import CHANGE, CHANGED_PATHS, WORKDIR, TaskSize, write_task
from lego_rl.errors import RunError, SandboxError
from lego_rl.sandbox.grading import task_files
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.provider import Provider, TaskImage
from lego_rl.sandbox.records import Record
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.seal import verify_seal
from lego_rl.sandbox.verdict import Patch
from lego_rl.tasks.task import Task, TestSpec
from lego_rl.threads import in_thread

LIMITS = Limits(memory_mb=1024, disk_mb=256)
STEPS = ("start", "seal", "take", "grade_start", "stop")
"""Steps of a trial that count, in their order."""


@dataclass
class Overhead:
    """Seconds of one trial, by step of `STEPS`."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STEPS, 0.0))

    @property
    def total(self) -> float:
        """Of all steps."""
        return sum(self.seconds.values())

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count what is done within it."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - began


@dataclass(frozen=True)
class Measured:
    """One way to isolate.

    Attributes:
        trials: What each trial took.
        prepare_s: Seconds of making the image, once a task.
        cpu_s: CPU seconds a trial of this process and of those it started; a daemon's are not in it.
    """

    trials: Sequence[Overhead]
    prepare_s: float
    cpu_s: float


class SandboxBench:
    """Measures providers with one task.

    Args:
        size: How large the task's repository is.
        trials: Trials of each provider.
        concurrency: How many run at a time.
        progress: Is told what is being done, one line each.
    """

    def __init__(self, size: TaskSize, trials: int, concurrency: int, progress: Callable[[str], None]) -> None:
        self._size = size
        self._trials = trials
        self._concurrency = concurrency
        self._progress = progress

    async def run(self, providers: Mapping[str, Provider]) -> dict[str, object]:
        """Measure each of `providers`; the keys are described in ``docs/sandbox.md``.

        Raises:
            SandboxError: A sandbox could not be had.
            RunError: A patch is not what was changed.
        """
        figures: dict[str, object] = {
            "trials": self._trials,
            "concurrency": self._concurrency,
            "cores": len(os.sched_getaffinity(0)),
            "files": self._size.files,
            "commits": self._size.commits,
        }
        with tempfile.TemporaryDirectory(prefix="lego-rl-bench-") as folder:
            task = await in_thread(partial(write_task, Path(folder) / "task", self._size))
            for name, provider in providers.items():
                try:
                    await in_thread(provider.check)
                except SandboxError as error:
                    self._progress(f"{name}: not here: {error.problem}")
                    figures[name] = {"unavailable": error.problem, "fix": error.fix}
                    continue
                figures[name] = summary(await self._measure(name, provider, task))
        return figures

    async def _measure(self, name: str, provider: Provider, task: Task) -> Measured:
        self._progress(f"{name}: preparing the image")
        await in_thread(provider.reap)
        began = time.perf_counter()
        image = await in_thread(partial(provider.prepare, task.path / "environment", workdir=WORKDIR))
        prepare_s = time.perf_counter() - began
        await trial(task, image)  # what is made once a process is made now
        done: list[Overhead] = []

        async def work(numbers: Iterator[int]) -> None:
            for _ in numbers:
                done.append(await trial(task, image))
                self._progress(f"{name}: trial {len(done)} of {self._trials}, {done[-1].total:.2f} s")

        numbers, cpu = iter(range(self._trials)), _cpu_seconds()
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._concurrency, self._trials)):
                group.create_task(work(numbers))
        return Measured(done, prepare_s, (_cpu_seconds() - cpu) / self._trials)


async def trial(task: Task, image: TaskImage) -> Overhead:
    """What a trial does to its sandboxes, timed but for the agent's work and the tests.

    Raises:
        SandboxError: A sandbox could not be had.
        RunError: The patch is not what was changed.
    """
    spent = Overhead()
    with spent.step("start"):
        agent = await image.start(Phase.AGENT, limits=LIMITS)
    try:
        with spent.step("seal"):
            await verify_seal(agent, task)
        await agent.exec(["sh", "-c", CHANGE])
        with spent.step("take"):
            await agent.kill()
            patch = await in_thread(partial((await agent.snapshot()).diff, image.pristine))
        _check(patch)
        with spent.step("grade_start"):
            grading = await image.start(Phase.GRADING, limits=LIMITS)
        try:
            assert isinstance(task.tests, TestSpec), "it is the benchmark's own task"
            await grading.put(image.workdir, [*_records(patch), *task_files(task, task.tests, image.pristine)])
            with spent.step("stop"):
                await grading.kill()
                await grading.report()
        finally:
            with spent.step("stop"):
                await grading.close()
    finally:
        with spent.step("stop"):
            await agent.close()
    return spent


def summary(measured: Measured) -> dict[str, object]:
    """The figures of one provider: seconds are wall-clock, but for ``cpu_s``."""
    totals = [each.total for each in measured.trials]
    return {
        "overhead_p50_s": round(median(totals), 3),
        "overhead_p95_s": round(quantiles(totals, n=20, method="inclusive")[-1], 3),
        "steps_p50_s": {step: round(median(each.seconds[step] for each in measured.trials), 3) for step in STEPS},
        "cpu_s": round(measured.cpu_s, 3),
        "prepare_s": round(measured.prepare_s, 2),
    }


def _records(patch: Patch) -> list[Record]:
    return [Record(change.path, change.kind, change.content) for change in patch.changes]


def _check(patch: Patch) -> None:
    if len(patch.changes) != CHANGED_PATHS:
        raise RunError(
            f"{CHANGED_PATHS} paths were changed and {len(patch.changes)} were found", "run the tests of the sandbox"
        )


def _cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
