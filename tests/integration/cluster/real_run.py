"""A run of verl with real trials: what it is given, and what is found afterwards.

The policy is the demo's, the harness Claude Code in bubblewrap. Every group's first trial finds long files, so that its
context is exceeded and the harness summarises: it has several segments. Some trials lose their inference server.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lego_rl.cluster.overrides import RunFiles, overrides
from lego_rl.cluster.rows import prove
from lego_rl.config.load import dump, read
from lego_rl.config.recipe import Recipe
from lego_rl.policies import policy_directory
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.store import RunDirectory
from lego_rl.tasks.build import build_pool
from lego_rl.tasks.index.build import build_index
from tests.integration.cluster.verl_process import MAIN, ROOT, VerlRun, environment, run

STEPS = 3
PROMPTS, TRIALS = 2, 4
LONG = "".join(f"# line {number} of what nobody needs\n" for number in range(240))
SETTINGS = (
    f"run.steps={STEPS}",
    f"rollout.tasks_per_step={PROMPTS}",
    f"rollout.group_size={TRIALS}",
    "rollout.retries=0",
    "budget.context_tokens=5900",
    "cluster.prompt_tokens=2048",
    "cluster.response_tokens=3852",
    "cluster.checkpoint_every=1000",
)


@dataclass(frozen=True)
class Batch:
    """A training batch as verl's trainer had it."""

    step: int
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class Prepared:
    """A run that may begin.

    Attributes:
        folder: Where everything of it is.
        names: Its tasks in the order in which they are given out.
        files: What verl is told of.
    """

    folder: Path
    names: list[str]
    files: RunFiles

    @property
    def environment(self) -> dict[str, str]:
        """What verl and Ray have to find in their environment."""
        return environment({"LEGO_TEST_BATCHES": str(self.folder / "batches")})

    def issue(self, place: int) -> str:
        """The issue of a task."""
        return (self.folder / "pool" / self.names[place] / "instruction.md").read_text(encoding="utf-8").strip()


@dataclass(frozen=True)
class RealRun:
    """A run that has ended.

    Attributes:
        folder: Where everything of it is.
        verl: Its metrics and output.
        batches: What it trained on.
    """

    folder: Path
    verl: VerlRun
    batches: list[Batch]

    def record(self, row: dict[str, Any]) -> TrialRecord:
        """The record of a row's trial."""
        extra = row["extra"]
        return RunDirectory(self.folder / "run" / "workers" / extra["worker"]).store.load(extra["trial"])

    def prove_rows(self) -> int:
        """Compare every row with its trial folder; how many rows there were."""
        trials: dict[str, list[dict[str, Any]]] = {}
        for batch in self.batches:
            for row in batch.rows:
                trials.setdefault(row["extra"]["trial"], []).append(row)
        for trial, rows in trials.items():
            trained = [row for row in rows if any(row["response_mask"])]
            trajectory = self.record(rows[0]).trajectory
            assert trajectory is not None
            if trained:
                prove(sorted(trained, key=lambda row: row["extra"]["segment"]), trajectory, trial)
        return sum(map(len, trials.values()))

    def lost(self) -> list[TrialRecord]:
        """Trials that had no inference server."""
        store = RunDirectory(self.folder / "broken" / "workers" / "broken").store
        return [store.load(path.name) for path in sorted((self.folder / "broken/workers/broken/trials").iterdir())]

    def records(self) -> Iterator[TrialRecord]:
        """Of every trial of the run that has ended, trained or not."""
        for worker in sorted((self.folder / "run" / "workers").iterdir()):
            store = RunDirectory(worker).store
            yield from map(store.load, store.ids())

    def figure(self, name: str) -> list[float]:
        """A metric of every step that has it."""
        return [record[name] for record in self.verl.metrics if name in record]


def real_run(
    prepared: Prepared, settings: tuple[str, ...], *extra: str, timeout: float, environment: Mapping[str, str]
) -> RealRun:
    """Run verl.

    Args:
        prepared: Where everything of it is, and its tasks.
        settings: Of the recipe, beside `SETTINGS`.
        extra: Hydra overrides beside the recipe's.
        timeout: Seconds.
        environment: What verl finds there.
    """
    return finished(prepared, command_of(prepared, settings, *extra), timeout=timeout, environment=environment)


def command_of(prepared: Prepared, settings: tuple[str, ...], *extra: str) -> list[str]:
    """Write what a run is given; the line that starts it, arguments as for `real_run`."""
    folder, names, files = prepared.folder, prepared.names, prepared.files
    recipe_of = [*SETTINGS, *settings, f"tasks.pool={folder / 'index.parquet'}"]
    published = ROOT / "recipes" / "cluster-cpu.toml"
    recipe = read(Recipe, published, [*recipe_of, f"run.dir={files.run}"])
    files.recipe.write_text(dump(recipe), encoding="utf-8")
    broken = read(Recipe, published, [*recipe_of, f"run.dir={folder / 'broken'}", "budget.wall_clock_sec=6"])
    (folder / "broken.toml").write_text(dump(broken), encoding="utf-8")
    loop = {
        "name": "lego_rl",
        "_target_": "observed.EventfulLoop",
        "recipe": str(files.recipe),
        "broken_recipe": str(folder / "broken.toml"),
        "long_tasks": str(folder / "long"),
        "victims": {names[0]: [1], names[2]: [1, 2, 3]},
    }
    files.loops.write_text(json.dumps([loop]), encoding="utf-8")
    asynchronous = "separate_async" in " ".join(settings)
    observed = (
        "data.shuffle=False",
        "trainer.v1.sampler.custom_sampler.path=pkg://observed",
        f"trainer.v1.sampler.custom_sampler.name=WrittenBuffer{'Async' * asynchronous}",
    )
    return [*MAIN, *_without(overrides(recipe, files), observed), *observed, *extra]


def finished(prepared: Prepared, line: Sequence[str], *, timeout: float, environment: Mapping[str, str]) -> RealRun:
    """Run a line of `command_of` to its end; what it has trained on, in earlier starts too."""
    folder, files = prepared.folder, prepared.files
    ended = run(folder, line, files.run / "verl.jsonl", timeout=timeout, env=environment)
    written = sorted((folder / "batches").glob("*.json"), key=lambda path: int(path.stem))
    return RealRun(folder, ended, [Batch(**json.loads(path.read_text(encoding="utf-8"))) for path in written])


def _without(own: list[str], others: tuple[str, ...]) -> list[str]:
    keys = {other.partition("=")[0] for other in others}
    return [override for override in own if override.partition("=")[0] not in keys]


def prepared(folder: Path) -> Prepared:
    """Build the tasks, their long variants and verl's dataset."""
    files = RunFiles(folder / "run", str(policy_directory("builtin:demo")))
    for name in ("run", "broken", "batches"):
        (folder / name).mkdir()
    build_pool(folder / "pool", sizes={"train": 4, "heldout": 1, "unseen": 1})
    index, _ = build_index([folder / "pool"], data_source="made")
    index.write(folder / "index.parquet")
    splits = {"train": files.train, "heldout": files.evaluated}
    for split, target in splits.items():
        rows = [row for row in index.table.to_pylist() if row["extra_info"]["split"] == split]
        rows = rows if split == "train" else rows[:1]
        pq.write_table(pa.Table.from_pylist(rows, schema=index.table.schema), target)
    rows = pq.read_table(files.train).to_pylist()
    names = [row["extra_info"]["instance_id"] for row in rows]
    for name in names:
        shutil.copytree(folder / "pool" / name, folder / "long" / name)
        for path in (folder / "long" / name / "environment" / "repo").rglob("*.py"):
            path.write_text(path.read_text(encoding="utf-8") + LONG, encoding="utf-8")
    return Prepared(folder, names, files)
