"""An evaluation's configuration and pool in a folder, and the command line, with models whose trials are drawn by seed.

As in `rollout_desk`, sandboxes, harnesses and engines are what a function stands for; folders, journals, records and
seeds are real. The same with real ones: tests/integration/evaluate.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rollout_desk import Drawn

from lego_rl import cli
from lego_rl.commands import eval_cells, eval_run
from lego_rl.commands.rollouts import RolloutRunner
from lego_rl.commands.sampled_policy import SampledPolicy
from lego_rl.commands.trial_watcher import TrialWatcher
from lego_rl.config.recipe import Recipe
from lego_rl.gateway.trajectory import Accounting
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import Reward, TrialRecord
from lego_rl.rollout.spec import TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.sandbox.verdict import Patch, Verdict
from lego_rl.tasks.build import write_task
from lego_rl.tasks.generate import generate
from lego_rl.tasks.reports.junit import junit_key
from lego_rl.tasks.task import Task, TestSpec

TASKS = [f"comparison-train-{number:03d}" for number in range(5)]
CONFIG = """
[evaluation]
dir = "evaluation"
attempts = 4
regrade = 0
[protocol]
name = "demo"
[tasks]
pool = "pool"
[[models]]
name = "weak"
path = "builtin:demo"
[[models]]
name = "strong"
path = "builtin:demo"
[[harnesses]]
name = "claude-code"
[[harnesses]]
name = "opencode"
"""


class Stopped(Exception):
    """Stands for a kill: nothing after it is done."""


@dataclass
class Sampled(Drawn):
    """Trials of one cell, which sample 100 tokens each; after so many the process ends."""

    left: list[int] = field(default_factory=lambda: [10**9])
    salt: str = ""

    async def run(self, spec: TrialSpec) -> TrialRecord:
        if self.left[0] == 0:
            raise Stopped
        self.left[0] -= 1
        seed = int.from_bytes(hashlib.sha256(f"{self.salt}{spec.seed}".encode()).digest()[:7])
        record = await super().run(replace(spec, seed=seed))
        outcome = replace(record.outcome, verdict=verdict_of(Task.load(spec.task), record.outcome.reward))
        return replace(
            record, spec=spec, outcome=outcome, patch=Patch(), accounting=Accounting(calls=3, sampled_tokens=100)
        )


def verdict_of(task: Task, reward: Reward | None) -> Verdict | None:
    """What a task's tests leave where all of them pass, or none; ``None`` where they do not run."""
    if reward is None:
        return None
    assert isinstance(task.tests, TestSpec)
    failure = "" if reward else "<failure/>"
    cases = "".join(
        f'<testcase classname="{place}" name="{name}">{failure}</testcase>'
        for place, name in map(junit_key, (*task.tests.fail_to_pass, *task.tests.pass_to_pass))
    )
    return Verdict(reward, report=f"<testsuite>{cases}</testsuite>".encode(), exit_status=1 - reward)


@dataclass
class Desk:
    """The folder and the command line.

    Attributes:
        run: Calls it; returns standard output, or standard error where it fails.
        rates: Model → chance of a solution.
        weights: Model → which weights its name stands for.
        lost: Places whose first try is lost to the host.
        ran: Trials that were run.
        left: How many more are run before the process ends.
        opened: Cells that were seen to be there.
    """

    run: Callable[..., str]
    rates: dict[str, float] = field(default_factory=lambda: {"weak": 0.2, "strong": 0.8})
    weights: dict[str, int] = field(default_factory=lambda: {"weak": 1, "strong": 1})
    lost: set[tuple[str, int]] = field(default_factory=set)
    ran: list[TrialSpec] = field(default_factory=list)
    left: list[int] = field(default_factory=lambda: [10**9])
    opened: list[str] = field(default_factory=list)

    def ids(self) -> Counter[str]:
        """Which trials were run, by harness and model's place, and how often."""
        return Counter(spec.id for spec in self.ran)


def desk_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A desk, which the process is put to."""
    monkeypatch.chdir(tmp_path)
    for number in range(len(TASKS)):
        write_task(generate(0, "comparison", number), tmp_path / "pool")
    (tmp_path / "evaluation.toml").write_text(CONFIG)

    def run(*arguments: str, code: int = 0) -> str:
        monkeypatch.setattr("sys.argv", ["lego-rl", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        assert (ended.value.code or 0) == code, printed.err
        return printed.out if code == 0 else printed.err

    desk = Desk(run)

    @dataclass(frozen=True)
    class Trials:
        recipe: Recipe

        def who(self, _: float) -> SampledPolicy:
            model = self.recipe.run.dir.parent.name.partition("--")[0]
            return SampledPolicy(f"{model}@{desk.weights[model]}", f"{self.recipe.harness.name} 1")

        @contextmanager
        def opened(
            self, directory: RunDirectory, watcher: TrialWatcher, temperature: float
        ) -> Iterator[SimpleNamespace]:
            model = directory.path.parent.name.partition("--")[0]
            rates = dict.fromkeys(TASKS, desk.rates[model])
            trials = Sampled(directory.store, rates, desk.lost, desk.ran, desk.left, directory.path.parent.name)
            with Journal(directory.journal) as journal:
                runner = RolloutRunner(trials, journal, 2, 0, 0.0, watcher.trial)  # type: ignore[arg-type]

                async def batch(*arguments: object) -> list[TrialRecord]:
                    return await runner(*arguments)  # type: ignore[arg-type]

                yield batch  # type: ignore[misc]

    def trials_of(recipe: Recipe, _: float) -> Trials:
        desk.opened.append(recipe.run.dir.parent.name)
        return Trials(recipe)

    monkeypatch.setattr(eval_cells, "trials_of", trials_of)
    monkeypatch.setattr(eval_run, "check_tasks", lambda *_: None)
    monkeypatch.setattr(eval_run, "room_for", lambda *_: None)
    return desk
