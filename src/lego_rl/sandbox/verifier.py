"""Lego-RL's grader as a verifier of stock Harbor.

Invariant: the agent phase is dead before its files are read, and the reward that Harbor is told is computed from the
verdict alone; nothing that the agent could write is read as one.

Use by import path: ``lego_rl.sandbox.verifier:FreshVerifier``.
"""

import asyncio
import json
from dataclasses import asdict
from typing import Any, override

from harbor.models.verifier.result import VerifierResult
from harbor.verifier.base import BaseVerifier

from lego_rl.errors import SandboxError
from lego_rl.sandbox.codec import patch_to_json, verdict_to_json
from lego_rl.sandbox.environment import SealedEnvironment
from lego_rl.sandbox.grading import grade
from lego_rl.sandbox.grading_run import SHARE_OF_TIMEOUT, seconds_for
from lego_rl.tasks.task import Task

PATCH_FILE = "patch.json"
VERDICT_FILE = "verdict.json"
LIMITS_FILE = "limits.json"


class FreshVerifier(BaseVerifier):  # type: ignore[misc]  # Harbor has no types
    """Kill, snapshot, diff, grade in a fresh sandbox; the patch and the verdict go to the trial's verifier folder.

    Args:
        grading_sec: Caps the seconds of the test command (Harbor's ``VerifierConfig.kwargs``).
        share_of_timeout: How much of the task's verifier timeout the test command may take. Slow code must be a 0 and
            never Harbor's timeout, so all of it only where Harbor's is later (``verifier_timeout_multiplier``).
    """

    def __init__(
        self,
        *args: Any,
        grading_sec: float | None = None,
        share_of_timeout: float = SHARE_OF_TIMEOUT,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.grading_sec = seconds_for(self.task.config.verifier.timeout_sec, grading_sec, share_of_timeout)
        """Seconds that the test command gets."""

    @override
    async def verify(self) -> VerifierResult:
        environment = self.environment
        if not isinstance(environment, SealedEnvironment):
            raise SandboxError(
                f"FreshVerifier cannot snapshot a {environment.type()} environment", "use one of lego_rl.sandbox"
            )
        folder = self.trial_paths.verifier_dir
        folder.mkdir(parents=True, exist_ok=True)
        await environment.kill()
        evidence = {"in_force": asdict(environment.limit_report), "hits": asdict(environment.limit_hits())}
        (folder / LIMITS_FILE).write_text(json.dumps(evidence, indent=1))
        snapshot = await environment.snapshot()
        patch = await asyncio.to_thread(snapshot.diff, environment.image.pristine)
        await asyncio.to_thread(lambda: (folder / PATCH_FILE).write_text(patch_to_json(patch)))  # It may be large.
        verdict = await grade(
            await asyncio.to_thread(Task.load, self.task.paths.task_dir),
            patch,
            environment.image,
            limits=environment.limits,
            timeout_sec=self.grading_sec,
        )
        await asyncio.to_thread(lambda: (folder / VERDICT_FILE).write_text(verdict_to_json(verdict)))
        return VerifierResult(rewards={"reward": verdict.reward})
