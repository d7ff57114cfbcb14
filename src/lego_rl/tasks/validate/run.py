"""Validates the tasks of a pool: several at a time, as often as it is asked for, what is known already not again."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lego_rl.errors import SandboxError, TaskError
from lego_rl.tasks.at_once import all_of, once_more
from lego_rl.tasks.task import Task, TestSpec
from lego_rl.tasks.validate.grader import VARIANTS, Graded, Grader, Variant
from lego_rl.tasks.validate.journal import Validations, directory_digest
from lego_rl.tasks.validate.judge import Judgement, Validation, attempt, judge
from lego_rl.tasks.validate.record import is_unlisted, lists_of, write_lists


class Watcher(Protocol):
    """Is told what was found."""

    def found(self, validation: Validation, done: int, total: int) -> None:
        """A task is judged."""
        ...


@dataclass(frozen=True)
class Validator:
    """Judges tasks.

    Attributes:
        grader: Grades them.
        known: What is known already, and what is found.
        times: How often each variant is graded.
        at_once: Tasks at a time.
        record: Find out which tests decide, for tasks that do not say.
    """

    grader: Grader
    known: Validations
    times: int
    at_once: int
    record: bool = False

    async def validate(self, folders: Sequence[Path], watcher: Watcher) -> list[Validation]:
        """Judge the tasks in some folders, in their order.

        Raises:
            OSError: A finding cannot be written down.
        """
        room = asyncio.Semaphore(self.at_once)
        done = 0

        async def one(folder: Path) -> Validation:
            nonlocal done
            async with room:
                found = await self._one(folder)
            done += 1
            watcher.found(found, done, len(folders))
            return found

        return await all_of(one(folder) for folder in folders)

    async def _one(self, folder: Path) -> Validation:
        digest = await asyncio.to_thread(directory_digest, folder)
        known = self.known.known(folder.name, digest, self.times)
        if known is None:
            known = await self._judged(folder, digest)
            self.known.add(known)
        return known

    async def _judged(self, folder: Path, digest: str) -> Validation:
        def ended(judgement: Judgement, reason: str) -> Validation:
            return Validation(task=folder.name, digest=digest, times=self.times, judgement=judgement, reason=reason)

        graded: dict[Variant, list[Graded]] = {variant: [] for variant in VARIANTS}
        try:
            task = await asyncio.to_thread(Task.load_unlisted if self.record else Task.load, folder)
            if is_unlisted(task):
                await self._recorded(task, folder)
                task = await asyncio.to_thread(Task.load, folder)
                digest = await asyncio.to_thread(directory_digest, folder)
            await once_more(lambda: self.grader.look(task))
            for variant in VARIANTS:
                for _ in range(self.times):
                    graded[variant].append(await self._graded(task, variant))
        except TaskError as error:
            return ended("unusable", str(error))
        except SandboxError as error:
            return ended("fault", str(error))
        spec = task.tests if isinstance(task.tests, TestSpec) else None
        judgement, reason, flaky = judge(spec, graded["empty"], graded["gold"])
        return Validation(
            task=folder.name,
            digest=digest,
            times=self.times,
            judgement=judgement,
            reason=reason,
            flaky=flaky,
            attempts=tuple(attempt(variant, each) for variant in VARIANTS for each in graded[variant]),
        )

    async def _recorded(self, task: Task, folder: Path) -> None:
        """Find out which tests decide and write it into the task.

        Raises:
            TaskError: No test fails without the solution and passes with it.
        """
        assert isinstance(task.tests, TestSpec)
        empty = [await self._graded(task, "empty") for _ in range(self.times)]
        gold = [await self._graded(task, "gold") for _ in range(self.times)]
        lists = lists_of(task.tests.parser, empty, gold)
        if not lists.fail_to_pass:
            raise TaskError(
                f"no test of task {task.id} fails without its solution and passes with it, every time",
                "leave the task out, or look at what its test command prints",
            )
        await asyncio.to_thread(write_lists, folder, lists)

    async def _graded(self, task: Task, variant: Variant) -> Graded:
        return await once_more(lambda: self.grader.grade(task, variant))
