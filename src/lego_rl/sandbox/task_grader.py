"""Grades tasks outside of trials, as trials would: the same images, limits and times, no change or the task's solution.

Invariant: the solution is made on the host from its files or its patch, to the letter; no script of a task is run here.
"""

import asyncio
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from harbor.models.task.config import TaskConfig
from pydantic import ValidationError

from lego_rl.documents import read_toml
from lego_rl.errors import TaskError
from lego_rl.sandbox.grading import declared, grade
from lego_rl.sandbox.grading_run import seconds_for
from lego_rl.sandbox.provider import Provider, TaskImage
from lego_rl.sandbox.sandbox import Phase, Sandbox
from lego_rl.sandbox.seal import OF_TASK, SealError, verify_seal
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.verdict import Change, Patch, Verdict
from lego_rl.tasks.reports import Report
from lego_rl.tasks.task import Task, TestSpec
from lego_rl.tasks.test_patch import base_reader
from lego_rl.tasks.unified_diff import DiffError, apply_diff
from lego_rl.tasks.usable import check_usable
from lego_rl.tasks.validate.grader import Graded, Variant

METHOD = 4
"""Changes when the same task would be judged otherwise in the same sandboxes."""


@dataclass(frozen=True)
class SandboxedGrader:
    """See `lego_rl.tasks.validate.grader.Grader`.

    Attributes:
        provider: Of the sandboxes.
        settings: As a recipe would have them.
    """

    provider: Provider
    settings: SandboxSettings

    @cached_property
    def sandboxes(self) -> str:
        """See `Grader.sandboxes`: settings but for folders of this machine's own, and what reads reports."""
        said: dict[str, Any] = {"method": METHOD, "sandbox": self.settings.fingerprint}
        try:
            said["swebench"] = version("swebench")
        except PackageNotFoundError:
            said["swebench"] = None
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]

    async def look(self, task: Task) -> None:
        """See `Grader.look`."""
        await asyncio.to_thread(check_usable, task)
        self.provider.check_network(task.network)
        image = await asyncio.to_thread(self._image, task)
        box = await image.start(Phase.AGENT, limits=self.settings.limits(task.memory_mb, task.storage_mb))
        try:
            await asyncio.to_thread(_check_runner, task, image.pristine, box)
            await verify_seal(box, task)
        except SealError as error:
            if error.kinds and error.kinds <= OF_TASK:
                raise TaskError(error.problem, error.fix) from error
            raise
        finally:
            await box.close()

    async def grade(self, task: Task, variant: Variant) -> Graded:
        """See `Grader.grade`."""
        image = await asyncio.to_thread(self._image, task)
        patch = Patch() if variant == "empty" else await asyncio.to_thread(solution_of, task, image.pristine)
        verdict = await self.verdict(task, patch)
        report = Report(verdict.report, verdict.exit_status)
        return Graded(verdict.reward, verdict.ended, verdict.tests, verdict.seconds, report)

    async def verdict(self, task: Task, patch: Patch) -> Verdict:
        """What a task's tests say about a change, in a fresh sandbox; raises as `grading.grade` does.

        Args:
            task: The task.
            patch: The change.
        """
        config = await asyncio.to_thread(_config, task.path)
        image = await asyncio.to_thread(self._image, task)
        return await grade(
            task,
            patch,
            image,
            limits=self.settings.limits(task.memory_mb, task.storage_mb),
            timeout_sec=seconds_for(config.verifier.timeout_sec, self.settings.grading_sec),
        )

    def _image(self, task: Task) -> TaskImage:
        return self.provider.prepare(
            task.path / "environment", workdir=task.workdir, docker_image=task.docker_image, history=task.history
        )


def _check_runner(task: Task, pristine: Path, box: Sandbox) -> None:
    """Of a task that was made of somebody's data, what runs its tests has to be known by more than its name.

    Raises:
        TaskError: Its command leads neither to a runner whose configuration is the task's own nor to a script of the
            repository, so that an agent could say what the tests are.
    """
    if task.source is None or not isinstance(task.tests, TestSpec):
        return
    run = declared(task, pristine, box).run
    if not run.runners.names and not run.files:
        raise TaskError(
            f"what runs the tests of task {task.id} is not known, nor what configures it: {task.tests.command}",
            "grade it by a runner that docs/sandbox.md names, or by a tests/test.sh of your own",
        )


def solution_of(task: Task, pristine: Path) -> Patch:
    """A task's solution as the change that an agent would have left: ``gold.patch``, else ``solution/files/``.

    Raises:
        TaskError: There is neither, or the patch does not fit the work tree.
    """
    folder = task.path / "solution"
    gold = folder / "gold.patch"
    try:
        if gold.is_file():
            made = apply_diff(gold.read_bytes(), base_reader(pristine))
            return Patch(
                tuple(
                    Change(file.path, "deleted")
                    if file.content is None
                    else Change(file.path, "file", file.content, file.executable)
                    for file in sorted(made, key=lambda file: file.path)
                )
            )
        files = sorted(path for path in (folder / "files").rglob("*") if path.is_file() and not path.is_symlink())
        changes = [Change(path.relative_to(folder / "files").as_posix(), "file", path.read_bytes()) for path in files]
    except (DiffError, OSError) as error:
        raise TaskError(
            f"the solution of task {task.id} cannot be made: {error}", "mend solution/gold.patch"
        ) from error
    if not changes:
        raise TaskError(f"task {task.id} has no solution", "add solution/gold.patch, a diff of the work tree")
    return Patch(tuple(changes))


def _config(task: Path) -> TaskConfig:
    """``task.toml`` as Harbor reads it.

    Raises:
        TaskError: Harbor does not take it.
    """
    try:
        return TaskConfig.model_validate(read_toml((task / "task.toml").read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        said = " ".join(str(error).split())[:300]
        raise TaskError(f"Harbor does not take {task / 'task.toml'}: {said}", "mend the file") from error
