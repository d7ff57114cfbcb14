"""A pool, a recipe and weights in a folder, and the command line, with a policy whose trials are drawn by seed.

Sandboxes, harness and engine are what a function stands for here; the journal, the records and the seeds are real. The
same with real ones: tests/integration/rollout/test_rollout_command.py.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from lego_rl import cli
from lego_rl.commands import engine_rollouts, rollout, sampling
from lego_rl.commands.rollouts import RolloutRunner
from lego_rl.config.recipe import Recipe
from lego_rl.harness.base import HarnessBundle
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, TrialRecord
from lego_rl.rollout.progress import ignore
from lego_rl.rollout.spec import TrialSpec
from lego_rl.rollout.store import RunDirectory, TrialStore
from lego_rl.tasks.build import write_task
from lego_rl.tasks.generate import generate

TASKS = [f"comparison-train-{number:03d}" for number in range(6)]
RECIPE = """
[run]
dir = "runs/unused"
[policy]
path = "weights"
[harness]
name = "claude-code"
[rollout]
retries = 0
"""


@dataclass
class Drawn:
    """Trials that earn what their seed says; the first try of some is lost to the host."""

    store: TrialStore
    rates: dict[str, float]
    lost: set[tuple[str, int]] = field(default_factory=set)
    ran: list[TrialSpec] = field(default_factory=list)

    def prepare(self) -> None:
        pass

    async def run(self, spec: TrialSpec) -> TrialRecord:
        self.ran.append(spec)
        place = (spec.task.name, spec.attempt)
        if place in self.lost:
            self.lost.remove(place)
            return TrialRecord(spec, Outcome(None, Ended.SANDBOX_START, None, "lost"), None, PhaseSeconds())
        reward = 1 if spec.seed / (1 << 56) < self.rates.get(spec.task.name, 0.5) else 0
        return TrialRecord(spec, Outcome(reward, Ended.FINISHED, None, ""), None, PhaseSeconds())


@dataclass
class Desk:
    """A folder with a pool, a recipe and weights, and the command line."""

    run: Callable[..., str]
    rates: dict[str, float] = field(default_factory=dict)
    lost: set[tuple[str, int]] = field(default_factory=set)
    ran: list[TrialSpec] = field(default_factory=list)

    def trials(self) -> Counter[str]:
        """Trials that were run since it was last asked, by task."""
        found = Counter(spec.task.name for spec in self.ran)
        self.ran.clear()
        return found


def desk_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A desk, which the process is put to."""
    monkeypatch.chdir(tmp_path)
    for number in range(len(TASKS)):
        write_task(generate(0, "comparison", number), tmp_path / "pool")
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "recipe.toml").write_text(RECIPE)

    def run(*arguments: str, code: int = 0) -> str:
        monkeypatch.setattr("sys.argv", ["lego-rl", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        assert (ended.value.code or 0) == code, printed.err
        return printed.out if code == 0 else printed.err

    desk = Desk(run)

    @contextmanager
    def parts(recipe: Recipe, _: object, directory: RunDirectory, __: object) -> Iterator[SimpleNamespace]:
        with Journal(directory.journal) as journal:
            trials = Drawn(directory.store, desk.rates, desk.lost, desk.ran)
            runner = RolloutRunner(trials, journal, 2, recipe.rollout.retries, 0.0, ignore)  # type: ignore[arg-type]
            yield SimpleNamespace(rollouts=runner)

    bundle = HarnessBundle("claude-code", "1.2", "a" * 64, tmp_path, 1, "MIT")
    policy = SimpleNamespace(source=tmp_path / "weights", parts=SimpleNamespace(bundle=bundle))
    monkeypatch.setattr(sampling, "sampling_parts", parts)
    monkeypatch.setattr(engine_rollouts, "check_sampling", lambda _: policy)
    monkeypatch.setattr(rollout, "check_tasks", lambda *_: None)
    monkeypatch.setattr(rollout, "room_for", lambda *_: None)
    run("tasks", "index", "pool", "--out", "all.parquet")
    return desk
