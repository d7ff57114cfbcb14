"""The recipe of a training run: everything the run depends on, and nothing it does not.

A section is the settings class of the room that it configures, where that room has one. Importing this module imports
no torch, so that a recipe can be read, checked and printed anywhere.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lego_rl.config.cluster import ClusterSection
from lego_rl.engine.chat_settings import ChatSettings
from lego_rl.errors import ConfigError
from lego_rl.evaluate.heldout import EvaluateSettings
from lego_rl.gateway.settings import CaptureSettings
from lego_rl.harness.base import OptionValue
from lego_rl.policies import ENDPOINT_POLICY
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.settings import FolderPath, NameOrFolder, Settings
from lego_rl.train.settings import TrainSettings


class RunSection(Settings):
    """Where the run lives and what makes it reproducible."""

    dir: FolderPath
    """The run directory; relative to the working directory."""
    seed: int = Field(default=0, ge=0)
    """Seeds the order of the tasks and every draw of the engine."""
    steps: int = Field(default=8, ge=0)
    """Training steps."""
    keep_checkpoints: int = Field(default=2, ge=1)
    """How many of the latest checkpoints are kept; the last step's is always one of them."""


class PolicySection(Settings):
    """Which weights the run starts from and how their tool calls are read."""

    path: NameOrFolder
    """A Hugging Face directory, or ``builtin:NAME`` for a shipped one."""
    tool_parser: str = "qwen3_coder"
    """Format in which the policy writes tool calls, ``qwen3_coder`` or ``hermes``; it must be the chat template's."""


class HarnessSection(Settings):
    """The harness that the policy is trained in."""

    name: str
    """Registry name; ``lego-rl harness list`` shows them."""
    options: dict[str, OptionValue] = Field(default_factory=dict)
    """Official options of that harness."""


class TasksSection(Settings):
    """Which tasks are trained on; ``[evaluate.splits]`` names those that are only ever evaluated."""

    pool: NameOrFolder = "builtin"
    """``builtin``, a folder of Harbor task directories, or an index of them (``.parquet``)."""
    train: str = "train"
    """Split to train on."""


class EmbeddedSection(Settings):
    """The embedded engine: the policy is sampled in the process that trains it."""

    kind: Literal["embedded"] = "embedded"
    """What answers: weights that this process loads."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """What it computes in; the trainer always computes in float32."""
    device: str = "cpu"
    """A torch device of engine and trainer, such as ``cuda:0``."""
    max_running: int = Field(default=16, ge=1)
    """Calls decoded together; further calls wait."""
    prefill_tokens: int = Field(default=256, ge=1)
    """Most prompt tokens that a step feeds beside the decoding calls."""
    cache_tokens: int = Field(default=65_536, ge=0)
    """Tokens that the prefix cache has room for; 0 shares nothing."""
    threads: int = Field(default=1, ge=1)
    """Threads of one operator while sampling, on the CPU."""


class VllmSection(Settings):
    """vLLM servers, started with ``lego-rl serve policy``."""

    kind: Literal["vllm"]
    urls: tuple[str, ...] = Field(min_length=1)
    """Addresses of the servers, such as ``["http://127.0.0.1:8000"]``: all of one policy, on one file system with this
    process, which hands them weights by files."""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """What the servers compute in; it is checked. The trainer always computes in float32."""
    device: str = "cpu"
    """A torch device of the trainer, such as ``cuda:0``."""
    tries: int = Field(default=4, ge=1)
    """How often a call is asked for in all, where servers fail; then it is an infrastructure fault."""
    connect_sec: float = Field(default=10.0, gt=0)
    """Longest wait for a connection, in seconds. How long an answer takes is bounded by the budget alone."""


type EngineSection = Annotated[EmbeddedSection | VllmSection | ChatSettings, Field(discriminator="kind")]


class BudgetSection(Settings):
    """What one trial may spend: the gateway's budget, the same for every harness."""

    turns: int = Field(default=200, ge=1)
    """Answered model calls, of all roles together."""
    context_tokens: int = Field(default=200_000, ge=16)
    """Longest prompt plus response of one call, in tokens."""
    output_tokens: int = Field(default=32_768, ge=1)
    """Most tokens sampled in one call."""
    wall_clock_sec: float = Field(default=3_600.0, gt=0)
    """Seconds of the agent phase."""

    @model_validator(mode="after")
    def _output_fits_context(self) -> Self:
        if self.output_tokens >= self.context_tokens:
            raise ValueError("output_tokens must be smaller than context_tokens")
        return self


class RolloutSection(Settings):
    """What a step rolls out and how."""

    tasks_per_step: int = Field(default=4, ge=1)
    """Prompts of one training step."""
    group_size: int = Field(default=8, ge=2)
    """Trials a task: the group that advantages are relative to."""
    temperature: float = Field(default=1.0, ge=1e-3)
    """Sampling temperature of training trials; below a thousandth numbers of 32 bits hold no distribution."""
    concurrency: int = Field(default=4, ge=1)
    """Trials that run at the same time."""
    retries: int = Field(default=2, ge=0)
    """How often a trial that died of an infrastructure fault is run again, where the fault table allows so many."""
    retry_pause_sec: float = Field(default=5.0, ge=0)
    """Seconds before the first of these tries; the pause doubles with each further one, up to a minute."""


class Recipe(Settings):
    """A training run."""

    run: RunSection
    policy: PolicySection
    harness: HarnessSection
    tasks: TasksSection = TasksSection()
    sandbox: SandboxSettings = SandboxSettings()
    engine: EngineSection = EmbeddedSection()
    budget: BudgetSection = BudgetSection()
    capture: CaptureSettings = CaptureSettings()
    rollout: RolloutSection = RolloutSection()
    train: TrainSettings = TrainSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    cluster: ClusterSection | None = None

    @model_validator(mode="before")
    @classmethod
    def _engine_is_embedded(cls, raw: object) -> object:
        """An engine of which no kind is said is the embedded one."""
        engine = raw.get("engine") if isinstance(raw, Mapping) else None
        if not isinstance(raw, Mapping) or not isinstance(engine, Mapping) or "kind" in engine:
            return raw
        return {**raw, "engine": {"kind": "embedded", **engine}}

    @model_validator(mode="before")
    @classmethod
    def _an_endpoint_has_its_policy(cls, raw: object) -> object:
        """Behind an endpoint there is one policy, which the engine's section names."""
        engine = raw.get("engine") if isinstance(raw, Mapping) else None
        if not isinstance(raw, Mapping) or not isinstance(engine, Mapping) or engine.get("kind") != "chat":
            return raw
        named = {"path": f"{ENDPOINT_POLICY}{engine.get('model', '')}"}
        if raw.get("policy", named).get("path") != named["path"]:
            raise ValueError("the policy of a chat engine is engine.model: leave the section policy out")
        return {"policy": named, **raw}

    @model_validator(mode="after")
    def _updates_divide_prompts(self) -> Self:
        if self.rollout.tasks_per_step % self.train.updates:
            raise ValueError(
                f"rollout.tasks_per_step ({self.rollout.tasks_per_step}) must be divisible by "
                f"train.updates ({self.train.updates})"
            )
        return self

    @model_validator(mode="after")
    def _held_out_is_not_trained_on(self) -> Self:
        if self.tasks.train in self.evaluate.splits:
            raise ValueError(f"evaluate.splits names {self.tasks.train!r}, the split that is trained on")
        return self


def token_engine(recipe: Recipe) -> EmbeddedSection | VllmSection:
    """The section of an engine whose tokens can be trained on.

    Raises:
        ConfigError: Something answers that gives no tokens to train on.
    """
    if isinstance(recipe.engine, ChatSettings):
        raise ConfigError(
            'engine.kind = "chat" is for evaluation: an endpoint gives no tokens to train on',
            "leave engine.kind out to sample and train a policy here, or evaluate this one: lego-rl rollout",
        )
    return recipe.engine
