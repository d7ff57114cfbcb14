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
from lego_rl.tasks.validate.judge import MEANINGS, Judgement, Validation, attempt, judge
from lego_rl.tasks.validate.record import Lists, check_listing, is_unlisted, lists_of, write_lists


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
        known = self.known.known(folder.name, digest, self.grader.sandboxes, self.times)
        if known is None:
            known = await self._judged(folder, digest)
            self.known.add(known)
        return known

    async def _judged(self, folder: Path, digest: str) -> Validation:
        graded: dict[Variant, list[Graded]] = {variant: [] for variant in VARIANTS}
        unsteady: tuple[str, ...] = ()

        def ended(judgement: Judgement, reason: str, flaky: tuple[str, ...] = ()) -> Validation:
            return Validation(
                task=folder.name,
                digest=digest,
                sandboxes=self.grader.sandboxes,
                times=self.times,
                judgement=judgement,
                reason=reason,
                flaky=tuple(sorted({*flaky, *unsteady})),
                attempts=tuple(attempt(variant, each) for variant in VARIANTS for each in graded[variant]),
            )

        try:
            task = await asyncio.to_thread(Task.load_unlisted if self.record else Task.load, folder)
            if is_unlisted(task):
                lists = await self._recorded(task, graded)
                unsteady = lists.flaky
                if not lists.fail_to_pass:
                    return ended("nothing_decides", MEANINGS["nothing_decides"])
                await asyncio.to_thread(write_lists, folder, lists)
                graded = {variant: [] for variant in VARIANTS}
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
        return ended(*judge(spec, graded["empty"], graded["gold"]))

    async def _recorded(self, task: Task, graded: dict[Variant, list[Graded]]) -> Lists:
        """Find out which tests decide; the gradings are left in `graded`.

        Raises:
            TaskError: This kind of report names only tests that it is asked for.
        """
        assert isinstance(task.tests, TestSpec)
        check_listing(task)
        for variant in VARIANTS:
            for _ in range(self.times):
                graded[variant].append(await self._graded(task, variant))
        return lists_of(task.tests.parser, graded["empty"], graded["gold"])

    async def _graded(self, task: Task, variant: Variant) -> Graded:
        return await once_more(lambda: self.grader.grade(task, variant))
