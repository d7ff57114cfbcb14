"""The page that an exported policy carries: ``README.md``, filled from the run and from nothing else.

Invariant: every figure on it is recomputed from the run's records when it is written; what a run did not record is said
to be missing, and no path of the machine that it ran on is on it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import tomli_w

from lego_rl import __version__
from lego_rl.documents import read_json
from lego_rl.evaluate.heldout import Score
from lego_rl.evaluate.intervals import wilson
from lego_rl.report.files import RunFiles
from lego_rl.report.summary import Summary, in_order, summarise
from lego_rl.rollout.labels import TRAIN
from lego_rl.train.card import BASE_PAGE, FILE, PAGE, PolicyCard

if TYPE_CHECKING:
    from lego_rl.train.export.checkpoint import Checkpoint
    from lego_rl.train.export.folder import Exported

_SECTIONS = ("harness", "budget", "capture", "rollout", "train", "evaluate", "cluster")
"""What of a recipe a page shows: all that training depends on, no folder of the machine."""
VERL_METRICS = "verl.jsonl"
"""verl's figures in a run directory: one record a step."""
_VERL_PEARSON = "training/rollout_actor_probs_pearson_corr"
_PACKAGES = ("torch", "transformers")
_HEAD = """---
library_name: transformers
pipeline_tag: text-generation
tags: [lego-rl]
---
"""


@dataclass(frozen=True)
class ModelCard:
    """What is known of an exported policy.

    Attributes:
        kind: The trainer that wrote the checkpoint.
        step: Its finished steps; ``None`` if it is not known.
        base: Name of the policy that it started from, without its place.
        trained: How it was trained; ``None`` if it is not known.
        files: The run; ``None`` for a checkpoint that lies in none.
        summary: What the run came to; ``None`` likewise.
    """

    kind: str
    step: int | None
    base: str
    trained: PolicyCard | None
    files: RunFiles | None
    summary: Summary | None

    @classmethod
    def of(cls, checkpoint: "Checkpoint", base: Path) -> Self:
        """Gather it.

        Raises:
            RunError: A record of the run is damaged.
            ConfigError: The card of the checkpoint is damaged.
        """
        saved = None if checkpoint.policy is None else PolicyCard.read(checkpoint.policy)
        files = None if checkpoint.run is None else RunFiles.open(checkpoint.run)
        named = base.name if saved is None else saved.base
        trained = saved if saved is not None or files is None else _card_of(files.recipe)
        name = named if named.startswith("builtin:") else Path(named).name
        return cls(checkpoint.kind, checkpoint.step, name, trained, files, None if files is None else summarise(files))

    def write(self, folder: Path, exported: "Exported") -> None:
        """Write the page, and the card for programs, into a folder that has the small files of the base.

        Raises:
            OSError: The disk does not take them.
        """
        if self.trained is not None:
            self.trained.write(folder, self.step or 0)
        elif (folder / PAGE).exists() and not (folder / FILE).exists():
            (folder / PAGE).replace(folder / BASE_PAGE)
        more = (folder / BASE_PAGE).exists()
        (folder / PAGE).write_text(_HEAD + "\n\n".join(self._parts(exported, more)) + "\n", encoding="utf-8")

    def _parts(self, exported: "Exported", more: bool) -> Iterator[str]:
        steps = "an unknown number of" if self.step is None else str(self.step)
        inside = f", inside {self.trained.harness}" if self.trained is not None and self.trained.harness else ""
        yield f"# {self.base}, trained with Lego-RL"
        yield f"{steps} steps of reinforcement learning from `{self.base}`{inside}."
        if self.trained is not None:
            yield f"## Reasoning of earlier turns: {self.trained.reasoning_name()}\n\n{self.trained.reasoning_text()}"
        yield f"## Weights\n\n{_weights(exported)}"
        if self.files is not None and self.summary is not None:
            yield from _of_run(self.files, self.summary)
        else:
            yield "No run was at hand when this was exported: nothing is known of data, fidelity and evaluation."
        yield f"## Versions\n\n{self._versions()}"
        if more:
            yield f"The page of the policy that all this began with: [{BASE_PAGE}]({BASE_PAGE})."

    def _versions(self) -> str:
        rows = [f"| trainer | {self.kind} |", f"| exported by | lego-rl {__version__} |"]
        rows += [f"| {name}, at export | {_version(name)} |" for name in _PACKAGES]
        if self.summary is not None and self.summary.harness_version:
            rows.insert(0, f"| harness | {self.summary.harness} {self.summary.harness_version} |")
        return "\n".join(["| what | which |", "|---|---|", *rows])


def _of_run(files: RunFiles, summary: Summary) -> Iterator[str]:
    yield f"## Data\n\n{_data(files)}"
    yield f"## Fidelity\n\n{_fidelity(summary, files.directory.path / VERL_METRICS)}"
    yield f"## Evaluation\n\n{_evaluation(summary)}"
    recipe = {name: files.recipe[name] for name in _SECTIONS if name in files.recipe}
    yield f"## Recipe\n\n```toml\n{tomli_w.dumps(recipe).strip()}\n```"


def _data(files: RunFiles) -> str:
    tasks = files.recipe.get("tasks", {})
    trained = [trial for trial in files.trials if trial.spec.label.startswith(TRAIN)]
    pool = str(tasks.get("pool", "builtin"))
    return (
        f"Pool `{Path(pool).name}`, split `{tasks.get('train', 'train')}`: {len(trained)} trials of"
        f" {len({trial.task for trial in trained})} tasks in {len(files.trained_families)} families."
    )


def _fidelity(summary: Summary, verl: Path) -> str:
    if summary.pearson_min is None:
        return _fidelity_of_verl(verl)
    delivered = summary.delivered_fraction_min
    rows = [
        f"| smallest Pearson correlation of log-probs, engine and trainer | {summary.pearson_min:.6f} |",
        f"| largest mean difference, nats | {_figure(summary.mean_abs_max)} |",
        f"| smallest share of sampled tokens that could be trained on | {_figure(delivered)} |",
    ]
    return "\n".join([f"| over {summary.steps} steps | |", "|---|---|", *rows])


def _fidelity_of_verl(metrics: Path) -> str:
    found: list[float] = []
    if metrics.is_file():
        records = [read_json(line) for line in metrics.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        found = [record["data"][_VERL_PEARSON] for record in records if _VERL_PEARSON in record.get("data", {})]
    if not found:
        return "The run recorded no comparison of engine and trainer."
    return (
        f"Smallest Pearson correlation of probabilities, engine and trainer, of {len(found)} steps: {min(found):.6f}."
    )


def _evaluation(summary: Summary) -> str:
    if not summary.heldout_before.trials and not summary.heldout_after.trials:
        return "Held-out tasks were not evaluated."
    rows = ["| held-out tasks | before | after |", "|---|---|---|"]
    rows.append(f"| all trained families | {_score(summary.heldout_before)} | {_score(summary.heldout_after)} |")
    if summary.unseen_before.trials or summary.unseen_after.trials:
        rows.append(f"| all unseen families | {_score(summary.unseen_before)} | {_score(summary.unseen_after)} |")
    rows += [f"| {name} | {_score(each.before)} | {_score(each.after)} |" for name, each in in_order(summary.families)]
    text = "\n".join(rows)
    if summary.rise is not None:
        low, high = summary.rise.interval.low, summary.rise.interval.high
        text += f"\n\nRise {summary.rise.mean:+.3f}, 95 % interval over tasks {low:+.3f} to {high:+.3f}."
    return f"{text}\n\nUnfinished: {summary.missing}." if summary.missing else text


def _score(score: Score) -> str:
    if score.rate is None:
        return "–"
    interval = wilson(score)
    return f"{score.solved}/{score.trials} = {score.rate:.3f} ({interval.low:.3f} to {interval.high:.3f})"


def _weights(exported: "Exported") -> str:
    return (
        f"{exported.parameters:,} parameters under the names, shapes and dtypes of the policy that training began with:"
        f" {exported.changed} tensors changed, {exported.unchanged} were held by the trainer and did not change,"
        f" {exported.untouched} it never held and are copied bit by bit."
    )


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.6f}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _card_of(recipe: dict[str, Any]) -> PolicyCard:
    """Of a run whose checkpoints have no card, as those of verl have none."""
    base = str(recipe.get("policy", {}).get("path", ""))
    reasoning = recipe.get("capture", {}).get("reasoning")
    return PolicyCard("gspo", base, recipe.get("harness", {}).get("name"), reasoning)
