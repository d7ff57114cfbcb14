"""The exceptions a user of Lego-RL can rely on.

Every expected failure is a `LegoError`: one line that says what is wrong and one that says what to do. The command
line prints the two and exits with 1, and so it does for a fault of the host, such as a full disk; anything else is a
bug and keeps its traceback. Exceptions that only carry control
flow within a room, such as `SandboxDied` or `ContextOverflow`, are no `LegoError`, because somebody there handles each.
A fault of a *trial* is not an exception but a row of the fault table (`rollout/faults.py`).
"""


class LegoError(Exception):
    """Something the user can mend.

    Args:
        problem: What is wrong, in one line, without a full stop.
        fix: What to do about it, in one line; a command where there is one.
    """

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(f"{problem}; {fix}" if fix else problem)
        self.problem = problem
        self.fix = fix


class ConfigError(LegoError):
    """A recipe, a key or a value that cannot be used."""


class TaskError(LegoError):
    """A task directory that is incomplete or contradicts itself."""


class ExtraError(TaskError):
    """A task that needs a package which is not installed here: nothing is wrong with the task."""


class SandboxError(LegoError):
    """A sandbox that could not be built, and never a weaker one instead; or one that broke, or refused a transfer."""


class UnservedTaskError(SandboxError):
    """A task that asks for what sandboxes are not given here: an image build, an image, a network. It may be right,
    and another environment may have it."""


class HarnessError(LegoError):
    """A harness bundle that is missing, altered or cannot be installed."""


class TemplateError(LegoError):
    """A chat template or tokenizer that cannot represent a conversation."""


class CaptureError(LegoError):
    """A recorded generation that contradicts itself, such as a row count that is off."""


class RunError(LegoError):
    """A run directory that is missing, damaged or belongs to another recipe."""


class FidelityError(LegoError):
    """The fidelity gate or the auditor stopped the run.

    Args:
        reason: A short stable name of the reason, such as ``pearson`` or ``stale_weights``.
        problem: What was measured against what limit.
        fix: Where to look.
    """

    def __init__(self, reason: str, problem: str, fix: str = "") -> None:
        super().__init__(f"[{reason}] {problem}", fix)
        self.reason = reason
