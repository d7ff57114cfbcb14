"""The cells of an evaluation: what each is run with, seen to be there before a trial of any begins.

Invariant: a cell is an ordinary run directory of one policy, one harness, one seed, one kind of sandboxes and one part
of the tasks; what was begun as another is refused before anything runs. A cell of which nothing is left is not opened:
no weights are loaded, and no server or endpoint has to be there any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from lego_rl.commands.policies import policy_directory
from lego_rl.commands.rollout import Trials, trials_of
from lego_rl.commands.rollouts import SpecBuilder
from lego_rl.commands.vllm_servers import check_servers
from lego_rl.config.evaluation import EvaluatedHarness, EvaluationConfig, ModelSection, cell_recipe
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe, VllmSection
from lego_rl.engine.chat_settings import ChatSettings
from lego_rl.errors import ConfigError, RunError
from lego_rl.evaluate.folder import reviews_are_whole
from lego_rl.evaluate.trials import EvaluatedTrial, read_trials
from lego_rl.rollout.choice import Choice
from lego_rl.rollout.metrics_file import checkpoints_in
from lego_rl.rollout.spec import Shard, TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.tasks.task import Task
from lego_rl.train.card import PolicyCard

LABEL = "evaluation"
_ELSEWHERE = "name another evaluation.dir"
_SECTIONS = {"budget.": "protocol.", "rollout.": "running."}
"""Sections of a recipe, and where an evaluation has their keys."""


@dataclass(frozen=True)
class EvaluationCell:
    """One model in one harness, over one part of the tasks.

    Attributes:
        name: For people.
        recipe: What its trials are run by.
        specs: Its trials.
        review: Rounds of review.
        part: Which part of the tasks.
        temperature: Of the protocol.
    """

    name: str
    recipe: Recipe
    specs: tuple[TrialSpec, ...]
    review: int
    part: Shard
    temperature: float

    @property
    def directory(self) -> RunDirectory:
        """Where it is run."""
        return RunDirectory(self.recipe.run.dir)

    def ended(self) -> list[EvaluatedTrial]:
        """Its trials that have ended, further sessions of them included.

        Raises:
            RunError: Its journal or a record is damaged.
        """
        return read_trials(self.directory.path) if self.directory.journal.is_file() else []

    def is_finished(self) -> bool:
        """Whether every trial has a score, and with reviews every attempt's are over.

        Raises:
            RunError: Its journal or a record is damaged.
        """
        scored = {trial.id for trial in self.ended() if trial.reward is not None}
        if not all(spec.id in scored for spec in self.specs):
            return False
        return not self.review or reviews_are_whole(self.directory.path, [spec.id for spec in self.specs])

    def checked(self) -> Trials | None:
        """What answers, where it is there, fits, and is what the cell was begun with; ``None`` where nothing is left.

        Raises:
            LegoError: It is not, or does not.
        """
        self._check_parts()
        begun = read(Recipe, self.directory.recipe) if self.directory.recipe.is_file() else None
        if begun is not None and begun.sandbox.fingerprint != self.recipe.sandbox.fingerprint:
            raise RunError(f"{self.name} was begun with other [sandbox] settings", f"set them back, or {_ELSEWHERE}")
        finished = begun is not None and self.is_finished()
        if begun is not None and finished and self._is_the_endpoint_of(begun):
            return None
        try:
            trials = trials_of(self.recipe, self.temperature)
            if not finished and isinstance(self.recipe.engine, VllmSection):
                check_servers(self.recipe)
        except ConfigError as error:
            raise ConfigError(f"{self.name}: {_own_keys(error.problem)}", _own_keys(error.fix)) from error
        if begun is not None:
            self.choice(trials).check(self.directory)
        return None if finished else trials

    def choice(self, trials: Trials) -> Choice:
        """What its folder is of."""
        who = trials.who(self.temperature)
        return Choice(who.policy, who.harness, self.temperature, f"{self.part.index}/{self.part.count}")

    def _is_the_endpoint_of(self, begun: Recipe) -> bool:
        """Whether it asks an endpoint, as a recipe did; which weights a folder holds is not told by its name."""
        same = {name: getattr(begun, name) for name in ("run", "rollout", "sandbox", "tasks")}
        return isinstance(begun.engine, ChatSettings) and self.recipe.model_copy(update=same) == begun

    def _check_parts(self) -> None:
        """See that the tasks are shared out as they were.

        Raises:
            RunError: They were shared out otherwise.
        """
        others = (path.name for path in self.directory.path.parent.glob("*-of-*") if (path / "journal").is_file())
        if other := next((name for name in others if not name.endswith(f"-of-{self.part.count}")), None):
            count = other.rpartition("-")[2]
            again = "without --shard" if count == "1" else f"with --shard I/{count}"
            raise RunError(
                f"{self.name} was begun in parts of {count}, and not {self.part.count}: trials would be run twice",
                f"go on {again}, or {_ELSEWHERE}",
            )


def cells_of(
    config: EvaluationConfig, models: Sequence[ModelSection], tasks: Sequence[Task], part: Shard
) -> list[EvaluationCell]:
    """The cells of some models.

    Raises:
        ConfigError: A value does not fit, or a run has no checkpoint of the embedded trainer.
        TaskError: A task cannot be read.
    """
    return [_cell(config, model, harness, tasks, part) for model in models for harness in config.harnesses]


def _cell(
    config: EvaluationConfig, model: ModelSection, harness: EvaluatedHarness, tasks: Sequence[Task], part: Shard
) -> EvaluationCell:
    name = f"{model.name} in {harness.column}"
    policy, chat = _policy(model), isinstance(model.engine, ChatSettings)
    card = None if chat else PolicyCard.read(Path(policy))
    shard, trained = f"{part.index}-of-{part.count}", card.reasoning if card else None
    try:
        recipe = cell_recipe(config, model, harness, policy, shard=shard, trained_with=trained)
    except ValidationError as error:
        said = "; ".join(each["msg"].removeprefix("Value error, ") for each in error.errors())
        raise ConfigError(f"{name}: {said}", "change [protocol]; see docs/evaluation.md") from error
    specs = SpecBuilder(recipe)(tasks, LABEL, config.evaluation.attempts, config.protocol.temperature)
    return EvaluationCell(name, recipe, tuple(part.of(specs)), harness.review, part, config.protocol.temperature)


def _policy(model: ModelSection) -> str:
    """The directory of a model, or its name behind an endpoint.

    Raises:
        ConfigError: There is none, or the run has no checkpoint of the embedded trainer.
    """
    if isinstance(model.engine, ChatSettings):
        return model.engine.model
    if model.run is None:
        return str(policy_directory(model.path or ""))
    checkpoints = checkpoints_in(model.run / "checkpoints")
    if not checkpoints or not (checkpoints[-1][1] / "policy").is_dir():
        raise ConfigError(
            f"model {model.name!r}: {model.run} has no checkpoint with a policy",
            "name a run of the embedded trainer, or export the run (lego-rl export) and name the folder as path",
        )
    return str(checkpoints[-1][1] / "policy")


def _own_keys(text: str) -> str:
    """An error's words with the keys of an evaluation's sections."""
    for recipe, own in _SECTIONS.items():
        text = text.replace(recipe, own)
    return text
