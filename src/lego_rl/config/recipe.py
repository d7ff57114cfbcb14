"""The recipe of a training run: everything the run depends on, and nothing it does not.

Each section is the settings class of the room that it configures.
"""

from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from lego_rl.settings import Settings


class RunSection(Settings):
    """Where the run lives and what makes it reproducible."""

    dir: Path
    """The run directory; relative to the working directory."""
    seed: int = Field(default=0, ge=0)
    """Seeds the order of the tasks and every draw of the engine."""


class PolicySection(Settings):
    """Which weights the run starts from."""

    path: str
    """A Hugging Face directory, or ``builtin:NAME`` for one that is shipped."""


class HarnessSection(Settings):
    """The harness that the policy is trained in."""

    name: str
    """Registry name; ``lego-rl harness list`` shows them."""
    options: dict[str, Any] = {}
    """Official options of that harness."""


class TasksSection(Settings):
    """Which tasks are trained on and which are only evaluated."""

    pool: str = "builtin"
    """``builtin``, or a folder of Harbor task directories."""
    train: str = "train"
    """Split to train on."""
    heldout: list[str] = ["heldout", "unseen"]
    """Splits that are only ever evaluated."""


class BudgetSection(Settings):
    """What one trial may spend: the gateway's budget, the same for every harness."""

    turns: int = Field(default=200, ge=1)
    """Model calls, sub-agents included."""
    context_tokens: int = Field(default=200_000, ge=16)
    """Longest prompt plus response of one call, in tokens."""
    output_tokens: int = Field(default=32_768, ge=1)
    """Most tokens sampled in one call."""
    wall_clock_sec: float = Field(default=3_600.0, gt=0)
    """Seconds of the agent phase."""

    @model_validator(mode="after")
    def _output_fits_context(self) -> Self:
        if self.output_tokens >= self.context_tokens:
            raise ValueError("budget.output_tokens must be smaller than budget.context_tokens")
        return self


class RolloutSection(Settings):
    """How trials are run."""

    tasks_per_step: int = Field(default=4, ge=1)
    """Prompts of one training step."""
    group_size: int = Field(default=8, ge=2)
    """Trials a task: the group that advantages are relative to."""
    concurrency: int = Field(default=4, ge=1)
    """Trials that run at the same time."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature of training trials."""
    retries: int = Field(default=2, ge=0)
    """How often a trial that died of an infrastructure fault is run again."""


class EvaluateSection(Settings):
    """Held-out evaluation, the same tasks before and after training."""

    tasks: int = Field(default=48, ge=0)
    """How many held-out tasks, spread evenly over the families; 0 switches evaluation off."""
    trials: int = Field(default=4, ge=1)
    """Trials a task."""
    temperature: float = Field(default=1.0, ge=0)
    """Sampling temperature."""
