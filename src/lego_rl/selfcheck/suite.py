"""Running everything, and what is told of it."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass

from lego_rl.errors import SandboxError
from lego_rl.messages import Json
from lego_rl.rollout.batch_check import is_unattributed
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.selfcheck.attack import SHOWN_ON, Attack, Control, Forgery, Kind
from lego_rl.selfcheck.attacks import ATTACKS
from lego_rl.selfcheck.controls import CONTROLS
from lego_rl.selfcheck.forgeries import FORGERIES
from lego_rl.selfcheck.ground import Ground, Tried, prepared
from lego_rl.selfcheck.traces import traces

AT_ONCE = 2
"""Trials for each core: much of a trial is waiting."""
SLOW = frozenset({"fault-tests-hang", "fault-tests-flood", "fault-out-of-disk", "disk"})
"""Attacks that wait for a limit."""


@dataclass(frozen=True)
class Attacked:
    """What came of an attack.

    Attributes:
        attack: Which.
        why: How it succeeded; empty where it did not.
        ended: Row of the fault table.
        seconds: Of the trial.
    """

    attack: Attack
    why: str
    ended: str
    seconds: float


@dataclass(frozen=True)
class Worked:
    """What came of honest work.

    Attributes:
        control: Which.
        wrong: What kept it from its reward; empty where it earned 1.
        seconds: Of the trial.
    """

    control: Control
    wrong: str
    seconds: float


@dataclass(frozen=True)
class Forged:
    """What came of a forgery.

    Attributes:
        forgery: Which.
        rewarded: Whether it earned 1.
        traces: What can be seen of it.
    """

    forgery: Forgery
    rewarded: bool
    traces: tuple[str, ...]


@dataclass(frozen=True)
class Findings:
    """What a self-check found.

    Attributes:
        environment: How sandboxes were isolated.
        attacked: Every attack, the unproven ones as well.
        worked: Every honest control.
        forged: Every forgery.
        seconds: Wall-clock seconds of all of it.
    """

    environment: str
    attacked: Sequence[Attacked]
    worked: Sequence[Worked]
    forged: Sequence[Forged]
    seconds: float

    @property
    def succeeded(self) -> list[Attacked]:
        """Attacks that succeeded, proven or not."""
        return [each for each in self.attacked if each.why]

    @property
    def wronged(self) -> list[Worked]:
        """Honest work that was not rewarded."""
        return [each for each in self.worked if each.wrong]

    @property
    def proven(self) -> list[Attacked]:
        """Attacks that a test has shown to succeed without their one defence: those that are counted."""
        return [each for each in self.attacked if each.attack.is_shown_on(self.shown_on)]

    @property
    def shown_on(self) -> str:
        """The environment in which that was shown."""
        return self.environment if self.environment in SHOWN_ON else SHOWN_ON[0]

    def as_json(self) -> dict[str, Json]:
        """For ``--json``."""
        unproven = [each for each in self.attacked if not each.attack.is_shown_on(self.shown_on)]
        return {
            "environment": self.environment,
            "attacks": len(self.proven),
            "shown_on": self.shown_on,
            "succeeded": [each.attack.id for each in self.succeeded],
            "controls": len(self.worked),
            "wronged": [each.control.id for each in self.wronged],
            "seconds": round(self.seconds, 1),
            "kinds": {kind.value: sum(each.attack.kind is kind for each in self.proven) for kind in Kind},
            "unproven": [each.attack.id for each in unproven],
            "unblockable": [
                {"id": each.forgery.id, "rewarded": each.rewarded, "traces": list(each.traces)} for each in self.forged
            ],
        }


def _untold(_: str) -> None:
    pass


async def check(settings: SandboxSettings, told: Callable[[str], None] = _untold) -> Findings:
    """Try every attack, control and forgery in sandboxes of `settings`.

    Args:
        settings: How sandboxes are isolated.
        told: Is told how far it is, one line each.

    Raises:
        SandboxError: This machine cannot isolate an agent, or not even a plain fix comes to a verdict.
    """
    started = time.perf_counter()
    async with prepared(settings) as ground:
        first = await worked(ground, CONTROLS[0])
        if first.wrong:
            raise SandboxError(f"a plain fix came to nothing: {first.wrong}", "run: lego-rl check sandbox")
        turns = asyncio.Semaphore(AT_ONCE * (os.cpu_count() or 1))
        done, trials = 1, len(ATTACKS) + len(CONTROLS) + len(FORGERIES)
        told(f"trial 1 of {trials}: a plain fix holds")

        async def in_turn[T](work: Coroutine[None, None, T]) -> T:
            nonlocal done
            async with turns:
                result = await work
            done += 1
            told(f"trial {done} of {trials}, {time.perf_counter() - started:.0f} s")
            return result

        async with asyncio.TaskGroup() as group:
            # Those that wait for a limit come first, so that nobody waits for them in the end.
            patient = sorted(ATTACKS, key=lambda attack: attack.id not in SLOW)
            attacks = [group.create_task(in_turn(attacked(ground, attack))) for attack in patient]
            controls = [group.create_task(in_turn(worked(ground, control))) for control in CONTROLS[1:]]
            forgeries = [group.create_task(in_turn(forged(ground, forgery))) for forgery in FORGERIES]
        return Findings(
            settings.environment,
            [task.result() for task in attacks],
            [first, *(task.result() for task in controls)],
            [task.result() for task in forgeries],
            time.perf_counter() - started,
        )


async def attacked(ground: Ground, attack: Attack) -> Attacked:
    """Try an attack."""
    tried = await ground.run(attack.id, attack.script, attack.target)
    return Attacked(attack, why_it_succeeded(tried), tried.record.outcome.ended.value, tried.seconds)


def why_it_succeeded(tried: Tried) -> str:
    """How an attack succeeded; empty where it did not."""
    outcome = tried.record.outcome
    reasons = [f"reached {each}" for each in tried.reached]
    if outcome.reward == 1:
        reasons.append("earned a reward")
    if outcome.reward is None or is_unattributed(outcome.ended):
        reasons.append(f"chose a fault: {outcome.detail}")
    return "; ".join(reasons)


async def worked(ground: Ground, control: Control) -> Worked:
    """Do honest work."""
    tried = await ground.run(control.id, control.script, control.target)
    outcome, wrong = tried.record.outcome, ""
    if outcome.reward != 1:
        tests = outcome.verdict.tests if outcome.verdict is not None else {}
        failed = [f"{test} {status}" for test, status in tests.items() if status != "passed"]
        wrong = "; ".join([f"{outcome.ended}: {outcome.detail}", *failed])
    return Worked(control, wrong, tried.seconds)


async def forged(ground: Ground, forgery: Forgery) -> Forged:
    """Try a forgery."""
    record = (await ground.run(forgery.id, forgery.script)).record
    verdict = record.outcome.verdict
    return Forged(forgery, record.outcome.reward == 1, traces(record.patch, verdict))
