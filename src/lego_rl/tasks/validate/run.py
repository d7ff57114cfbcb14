"""Validates the tasks of a pool: several at a time, as often as it is asked for, what is known already not again."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from lego_rl.errors import ExtraError, SandboxError, TaskError
from lego_rl.tasks.at_once import all_of, once_more
from lego_rl.tasks.content import directory_digest
from lego_rl.tasks.reports import parser_named
from lego_rl.tasks.task import Task, TestSpec
from lego_rl.tasks.validate.grader import VARIANTS, Graded, Grader, Variant
from lego_rl.tasks.validate.journal import Validations
from lego_rl.tasks.validate.judge import MEANINGS, Judgement, Validation, attempt, judge
from lego_rl.tasks.validate.record import Listing, check_listing, is_unlisted, lists_of, not_listing


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
            before = self.known.recorded_over(folder.name, digest)
            known = await self._judged(folder, digest)
            known = known.model_copy(update={"before": before if known.digest != before else ""})
            self.known.add(known)
        return known

    async def _judged(self, folder: Path, digest: str) -> Validation:
        trying = _Trying(folder, digest, self.grader.sandboxes, self.times)
        try:
            task = await asyncio.to_thread(Task.load_unlisted if self.record else Task.load, folder)
            if isinstance(task.tests, TestSpec):
                parser_named(task.tests.parser).check_usable()
            if is_unlisted(task):
                return await self._recorded(task, trying)
            return await self._verdict(task, trying)
        except ExtraError as error:
            return trying.ended("fault", str(error))
        except TaskError as error:
            return trying.ended("unusable", str(error))
        except SandboxError as error:
            return trying.ended("fault", str(error))

    async def _verdict(self, task: Task, trying: "_Trying") -> Validation:
        await once_more(lambda: self.grader.look(task))
        empty, gold = await self._graded(task, trying)
        return trying.ended(*judge(task.tests if isinstance(task.tests, TestSpec) else None, empty, gold))

    async def _recorded(self, task: Task, trying: "_Trying") -> Validation:
        """Find out which tests decide, and whether the task is valid with them; only then are they written down.

        Raises:
            TaskError: This kind of report names only tests that it is asked for.
        """
        assert isinstance(task.tests, TestSpec)
        check_listing(task)
        empty, gold = await self._graded(task, trying)
        if (why := not_listing(empty, gold)) is not None:
            return trying.ended("not_graded", why)
        lists = lists_of(task.tests.parser, empty, gold)
        trying.flaky = lists.flaky
        if not lists.fail_to_pass:
            return trying.ended("nothing_decides", MEANINGS["nothing_decides"])
        listing = await asyncio.to_thread(Listing, trying.folder, lists)
        found = None
        try:
            await asyncio.to_thread(self._begun, trying)
            listed = await asyncio.to_thread(Task.load_unlisted, trying.folder)
            found = await self._verdict(listed, trying)
        finally:
            known = found is not None and found.judgement == "valid"
            await asyncio.to_thread(listing.keep if known else listing.take_back)
        digest = await asyncio.to_thread(directory_digest, trying.folder)
        return found.model_copy(update={"digest": digest})

    def _begun(self, trying: "_Trying") -> None:
        """Write down what a task held before there were lists in it, so that an index of it is known for one even where
        this process is killed."""
        before = self.known.recorded_over(trying.folder.name, trying.digest)
        begun = trying.ended("fault", "its tests were being recorded")
        self.known.add(begun.model_copy(update={"before": before, "digest": directory_digest(trying.folder)}))

    async def _graded(self, task: Task, trying: "_Trying") -> tuple[list[Graded], list[Graded]]:
        """Gradings without a change and with the solution."""
        trying.graded = {variant: [] for variant in VARIANTS}
        for variant in VARIANTS:
            for _ in range(self.times):
                trying.graded[variant].append(await once_more(partial(self.grader.grade, task, variant)))
        return trying.graded["empty"], trying.graded["gold"]


@dataclass
class _Trying:
    """A task that is being judged.

    Attributes:
        folder: Its directory.
        digest: Of every byte of it, before.
        sandboxes: Names the sandboxes that it is graded in.
        times: How often each variant is graded.
        graded: The gradings so far.
        flaky: Tests that are on no list.
    """

    folder: Path
    digest: str
    sandboxes: str
    times: int
    graded: dict[Variant, list[Graded]] = field(default_factory=dict)
    flaky: tuple[str, ...] = ()

    def ended(self, judgement: Judgement, reason: str, flaky: tuple[str, ...] = ()) -> Validation:
        """What is found."""
        return Validation(
            task=self.folder.name,
            digest=self.digest,
            sandboxes=self.sandboxes,
            times=self.times,
            judgement=judgement,
            reason=reason,
            flaky=tuple(sorted({*flaky, *self.flaky})),
            attempts=tuple(attempt(variant, each) for variant in self.graded for each in self.graded[variant]),
        )
