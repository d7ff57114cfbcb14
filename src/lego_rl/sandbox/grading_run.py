"""Running tests in a grading sandbox: their variables, their time, and how a run ended.

Invariant: whoever runs tests, for a reward or to make a task, runs them so; a sandbox that was taken away is an error,
and one that the tests ran into its limits is not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lego_rl.errors import SandboxError
from lego_rl.sandbox.limits import LimitHits
from lego_rl.sandbox.loss import lost
from lego_rl.sandbox.report import REPORT_FOLDER, REPORT_NAME
from lego_rl.sandbox.sandbox import Completed, Sandbox

GRADING_ENVIRONMENT = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": "-p no:cacheprovider",
    "CI": "1",
}
SHARE_OF_TIMEOUT = 0.75
"""How much of a task's verifier timeout the test command gets where stock Harbor's own ends the rest of grading."""

type RunEnd = Literal["completed", "timed_out", "died"]


@dataclass(frozen=True)
class Ended:
    """A run of tests.

    Attributes:
        end: How it ended.
        log: What the command printed, bounded, and why it ended early.
        returncode: See `Completed`.
    """

    end: RunEnd
    log: str
    returncode: int


def variables(own: Mapping[str, str]) -> dict[str, str]:
    """The variables of a test command, beside those that every command has.

    Args:
        own: The task's.
    """
    return {**GRADING_ENVIRONMENT, **own, "LEGO_REPORT": f"{REPORT_FOLDER}/{REPORT_NAME}"}


def seconds_for(timeout_sec: float, most: float | None, share: float = 1.0) -> float:
    """How long a test command may take.

    Args:
        timeout_sec: The task's verifier timeout.
        most: The recipe's cap, where it has one.
        share: How much of the timeout is for the command.
    """
    allowed = share * timeout_sec
    return allowed if most is None else min(allowed, most)


async def run_tests(box: Sandbox, argv: Sequence[str], env: Mapping[str, str], timeout_sec: float) -> Ended:
    """Run a test command; all that it leaves running is dead afterwards.

    Raises:
        SandboxLostError: The sandbox was taken away, by evidence that nothing in it can produce.
        SandboxError: It ended and nothing tells why, or its limits could not be measured.
    """
    done = await box.run_last(argv, env=env, timeout_sec=timeout_sec)
    if done.died and box.limit_hits().unmeasured:
        raise SandboxError(
            "the grading sandbox was killed because its limits could not be measured",
            "read the log of this run for what could not be measured",
        )
    if done.loss is not None:
        raise lost(done.loss)
    return Ended(_end(done), _log(done, box.limit_hits(), timeout_sec), done.returncode)


def _end(done: Completed) -> RunEnd:
    if done.timed_out:
        return "timed_out"
    return "died" if done.died else "completed"


def _log(done: Completed, hits: LimitHits, timeout: float) -> str:
    notes = [f"[the test command was killed after {timeout:.0f} s]"] if done.timed_out else []
    if done.died:
        reached = [name for name, hit in vars(hits).items() if hit]
        why = f"; it ran into its limit of {', '.join(reached)}" if reached else ""
        notes.append(f"[the grading sandbox ended before the test command did{why}]")
    return "\n".join([text for text in (done.stdout, done.stderr) if text] + notes)
