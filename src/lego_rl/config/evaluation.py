"""The configuration of an evaluation: models × harnesses over tasks, by a protocol.

Invariant: a cell of the table is one model in one harness, and runs as a recipe would: what decides its trials is in
`cell_recipe` and nowhere else. Importing this module imports no torch.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, StringConstraints, model_validator

from lego_rl.config.recipe import (
    BudgetSection,
    EmbeddedSection,
    EngineSection,
    HarnessSection,
    PolicySection,
    Recipe,
    RolloutSection,
    RunSection,
    TasksSection,
)
from lego_rl.engine.chat_settings import ChatSettings
from lego_rl.evaluate.protocol import Protocol, protocol_values
from lego_rl.gateway.settings import CaptureSettings, Reasoning
from lego_rl.harness.base import OptionValue
from lego_rl.policies import ENDPOINT_POLICY
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.settings import FilePath, FolderPath, NameOrFolder, Settings
from lego_rl.train.settings import TrainSettings

CELLS = "cells"
"""Folder of an evaluation that holds one folder a cell, which holds one run directory a shard."""
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._]*(-[A-Za-z0-9._]+)*$", max_length=64)]
"""A name that is part of a folder's: letters, digits, '.', '_', and '-' but not two of them."""


class EvaluationSection(Settings):
    """Where the evaluation lives and how large it is."""

    dir: FolderPath
    """Its folder; one that was begun is continued."""
    attempts: int = Field(default=1, ge=1)
    """Trials of each task in every cell: the k of pass@k and pass^k."""
    seed: int = Field(default=0, ge=0)
    """Seeds every draw."""
    regrade: int = Field(default=20, ge=0)
    """Trials of each cell that are graded again at the end, in fresh sandboxes: the report says what changed."""


class EvaluatedTasks(Settings):
    """Which tasks are tried."""

    pool: NameOrFolder = "builtin"
    """``builtin``, a folder of Harbor task directories, or an index of them (``.parquet``)."""
    split: str | None = None
    """One split of the pool; all of them if unset."""
    count: int | None = Field(default=None, ge=1)
    """At most so many, spread evenly over the families; all if unset."""
    validation: FilePath | None = None
    """Findings of ``lego-rl tasks validate`` (``validation.jsonl``): results are given with and without the tasks
    whose own solution fails here. Unset, those beside the pool are read where there are some."""


class ModelSection(Settings):
    """One model: a policy that is sampled here or by vLLM, a run's last checkpoint, or an endpoint."""

    name: Word
    """Its name in the table."""
    path: NameOrFolder | None = None
    """A Hugging Face folder such as an export, or ``builtin:NAME``."""
    run: FolderPath | None = None
    """A run directory of the embedded trainer, for its last checkpoint."""
    tool_parser: str = "qwen3_coder"
    """Format in which it writes tool calls."""
    reasoning: Reasoning | None = None
    """What becomes of the reasoning of earlier turns, as ``capture.reasoning`` of a recipe says; unset, as the policy
    was trained, and ``as_sent``, as with a plain model server, where its folder does not tell."""
    engine: EngineSection = EmbeddedSection()
    """What answers: ``embedded``, ``vllm``, or ``chat`` for an endpoint, which has neither path nor run."""

    @model_validator(mode="before")
    @classmethod
    def _engine_is_embedded(cls, raw: object) -> object:
        """An engine of which no kind is said is the embedded one."""
        engine = raw.get("engine") if isinstance(raw, Mapping) else None
        if not isinstance(raw, Mapping) or not isinstance(engine, Mapping) or "kind" in engine:
            return raw
        return {**raw, "engine": {"kind": "embedded", **engine}}

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        named = [name for name in ("path", "run") if getattr(self, name) is not None]
        if isinstance(self.engine, ChatSettings):
            if named:
                raise ValueError(f"model {self.name!r} is behind an endpoint, which has no {named[0]}")
        elif len(named) != 1:
            raise ValueError(f"model {self.name!r} needs either path or run")
        return self


class EvaluatedHarness(Settings):
    """One harness."""

    name: str
    """Registry name; ``lego-rl harness list`` shows them."""
    label: Word | None = None
    """Its name in the table; by default the registry's, which two columns of one harness cannot share."""
    options: dict[str, OptionValue] = Field(default_factory=dict)
    """Official options of that harness."""
    review: int = Field(default=0, ge=0)
    """Rounds in which a fresh session reads the change and may send it back; the last change stands."""

    @property
    def column(self) -> str:
        """Its name in the table."""
        return self.label or (f"{self.name}+review{self.review}".replace("+", "_") if self.review else self.name)


class CapsSection(Settings):
    """Where the evaluation stops beginning trials; what has ended stays, and the report says what is missing."""

    max_sampled_tokens: int | None = Field(default=None, ge=1)
    """Tokens sampled over all cells."""
    max_hours: float | None = Field(default=None, gt=0)
    """Hours since the command began."""


class RunningSection(Settings):
    """How trials are run, which decides no result."""

    concurrency: int = Field(default=4, ge=1)
    """Trials that run at the same time."""
    retries: int = Field(default=2, ge=0)
    """How often a trial that died of an infrastructure fault is run again, where the fault table allows so many."""
    retry_pause_sec: float = Field(default=5.0, ge=0)
    """Seconds before the first of these tries."""


class EvaluationConfig(Settings):
    """An evaluation."""

    evaluation: EvaluationSection
    protocol: Protocol
    """``protocol.name`` takes the values of a named one; single values beside it change it."""
    tasks: EvaluatedTasks = EvaluatedTasks()
    models: tuple[ModelSection, ...] = Field(min_length=1)
    harnesses: tuple[EvaluatedHarness, ...] = Field(min_length=1)
    sandbox: SandboxSettings = SandboxSettings()
    caps: CapsSection = CapsSection()
    running: RunningSection = RunningSection()

    @model_validator(mode="before")
    @classmethod
    def _named_protocol(cls, raw: object) -> object:
        """A named protocol gives the values that are not said."""
        said = raw.get("protocol") if isinstance(raw, Mapping) else None
        if not isinstance(raw, Mapping) or not isinstance(said, Mapping) or "name" not in said:
            return raw
        own = {key: value for key, value in said.items() if key != "name"}
        return {**raw, "protocol": protocol_values(str(said["name"])) | own}

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        for kind, names in (
            ("models", [model.name for model in self.models]),
            ("harnesses", [harness.column for harness in self.harnesses]),
        ):
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"{kind} has {twice[0]!r} twice: give one of them another name")
        return self


def cell_name(model: ModelSection, harness: EvaluatedHarness) -> str:
    """The folder of a cell."""
    return f"{model.name}--{harness.column}"


def cell_recipe(
    config: EvaluationConfig,
    model: ModelSection,
    harness: EvaluatedHarness,
    policy: str,
    *,
    shard: str = "0-of-1",
    trained_with: Reasoning | None = None,
) -> Recipe:
    """What a cell's trials are run by.

    Args:
        config: The evaluation.
        model: The row.
        harness: The column.
        policy: Directory of the model, or its name behind an endpoint.
        shard: Folder of the part of the tasks that is run here.
        trained_with: What became of earlier turns' reasoning when the policy was trained, if it says.
    """
    running = config.running
    folder = config.evaluation.dir / CELLS / cell_name(model, harness) / shard
    chat = isinstance(model.engine, ChatSettings)
    return Recipe(
        run=RunSection(dir=folder, seed=config.evaluation.seed),
        policy=PolicySection(path=f"{ENDPOINT_POLICY}{policy}" if chat else policy, tool_parser=model.tool_parser),
        harness=HarnessSection(name=harness.name, options=harness.options),
        tasks=TasksSection(pool=config.tasks.pool),
        sandbox=config.sandbox,
        engine=model.engine,
        budget=BudgetSection(**config.protocol.model_dump(exclude={"temperature"})),
        capture=CaptureSettings(reasoning=model.reasoning or trained_with or "as_sent"),
        rollout=RolloutSection(
            concurrency=running.concurrency, retries=running.retries, retry_pause_sec=running.retry_pause_sec
        ),
        train=TrainSettings(routing="own"),  # nothing is trained: dense policies are evaluated, too
    )


def plain_protocol(config: EvaluationConfig) -> dict[str, Any]:
    """The protocol as plain data, for reports."""
    return config.protocol.model_dump(mode="json")
