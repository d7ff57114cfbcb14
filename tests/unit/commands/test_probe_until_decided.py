"""Probe, filter, roll out what decides, filter: through the commands, with a policy whose trials are drawn by seed.

Sandboxes, harness and engine are what a function stands for here; the journal, the records and the seeds are real. The
same with real ones: tests/integration/rollout/test_rollout_command.py.
"""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from lego_rl import cli
from lego_rl.commands import rollout, sampling
from lego_rl.commands.rollouts import RolloutRunner
from lego_rl.commands.run_outcomes import read_outcomes
from lego_rl.config.recipe import Recipe
from lego_rl.harness.base import HarnessBundle
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, TrialRecord
from lego_rl.rollout.runner import ignore
from lego_rl.rollout.spec import TrialSpec
from lego_rl.rollout.store import RunDirectory, TrialStore
from lego_rl.tasks.build import write_task
from lego_rl.tasks.generate import generate
from lego_rl.tasks.index.file import Index

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


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Desk:
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
    monkeypatch.setattr(rollout, "check_sampling", lambda _: policy)
    monkeypatch.setattr(rollout, "check_tasks", lambda *_: None)
    monkeypatch.setattr(rollout, "room_for", lambda *_: None)
    run("tasks", "index", "pool", "--out", "all.parquet")
    return desk


FILTER = ("tasks", "filter", "all.parquet", "--solved", "1..3", "--of", "4", "--undecided", "more.parquet")


def advised(printed: str) -> list[list[str]]:
    """The two commands that the filter names, in its own folder and in another."""
    same, other = re.search(r"run them with: (.*), or: (.*)", printed).groups()  # type: ignore[union-attr]
    first = shlex.split(same)[1:]
    return [first, [*first[: first.index("--out")], *shlex.split(other)]]


def given(words: list[str], **names: str) -> list[str]:
    return [names.get(word, word) for word in words]


def counts(*runs: str) -> dict[str, tuple[int, int]]:
    """Task → samples that are known, and different seeds among them."""
    table = read_outcomes([Path(run) for run in runs]).table.to_pylist()
    return {
        task: (len(rows), len({row["seed"] for row in rows}))
        for task in TASKS
        if (rows := [row for row in table if row["task"] == task and row["reward"] is not None])
    }


@pytest.mark.parametrize("place", ["same folder", "another folder"])
def test_what_the_probe_leaves_open_is_decided_by_exactly_as_many_more_trials(desk: Desk, place: str) -> None:
    desk.rates |= {TASKS[0]: 0.0, TASKS[1]: 1.0}
    desk.run("rollout", "recipe.toml", "all.parquet", "--out", "probe", "-n", "2")
    assert desk.trials() == dict.fromkeys(TASKS, 2)
    printed = desk.run(*FILTER, "--outcomes", "probe")
    undecided = Index.read(Path("more.parquet")).ids
    assert set(TASKS[:2]) <= set(undecided) < set(TASKS)
    in_place, elsewhere = advised(printed)
    assert in_place[-2:] == ["-n", "4"]
    assert elsewhere[-4:] == ["-n", "2", "--first-attempt", "2"]

    command = in_place if place == "same folder" else elsewhere
    names = {"RECIPE": "recipe.toml", "THE-SAME-FOLDER": "probe", "ANOTHER": "further"}
    desk.run(*given(command, **names))
    assert desk.trials() == dict.fromkeys(undecided, 2)
    runs = ["probe"] if place == "same folder" else ["probe", "further"]
    outcomes = [word for run in runs for word in ("--outcomes", run)]
    printed = desk.run(*FILTER, *outcomes, "--out", "band.parquet")
    assert "undecided:" not in printed
    assert f"policy {read_outcomes([Path('probe')]).table['policy'][0]} in claude-code 1.2, label rollout: " in printed
    assert counts(*runs) == {task: (4, 4) if task in undecided else (2, 2) for task in TASKS}
    assert not {TASKS[0], TASKS[1]} & set(Index.read(Path("band.parquet")).ids)

    desk.run(*given(command, **names))
    assert not desk.trials()


def test_what_the_host_took_is_run_again_by_the_same_command_and_stands_in_for_nothing(desk: Desk) -> None:
    desk.rates |= dict.fromkeys(TASKS, 0.0)
    desk.lost |= {(TASKS[0], 1), (TASKS[1], 3)}
    probe = ("rollout", "recipe.toml", "all.parquet", "--out", "probe", "-n", "4")
    printed = desk.run(*probe)
    assert "2 have no reward" in printed
    desk.trials()
    in_place, elsewhere = advised(desk.run(*FILTER, "--outcomes", "probe"))
    assert Index.read(Path("more.parquet")).ids == TASKS[:2]
    assert (in_place[-1], elsewhere[-3:]) == ("4", ["1", "--first-attempt", "4"])
    desk.run(*given(in_place, RECIPE="recipe.toml", **{"THE-SAME-FOLDER": "probe"}))
    assert desk.trials() == dict.fromkeys(TASKS[:2], 1)
    assert "undecided:" not in desk.run(*FILTER, "--outcomes", "probe")


def test_the_same_trials_in_another_folder_are_the_same_samples(desk: Desk) -> None:
    desk.run("rollout", "recipe.toml", "all.parquet", "--out", "one", "-n", "2")
    desk.run("rollout", "recipe.toml", "all.parquet", "--out", "two", "-n", "3")
    assert counts("one", "two") == dict.fromkeys(TASKS, (3, 3))
    printed = desk.run(*FILTER, "--outcomes", "one", "--outcomes", "two")
    assert "12 stand in more than one of the runs, and count once" in printed


def test_shards_keep_their_tasks_when_fewer_are_left(desk: Desk) -> None:
    desk.rates |= dict.fromkeys(TASKS, 0.0)
    for part in range(2):
        desk.run("rollout", "recipe.toml", "all.parquet", "--out", f"part{part}", "-n", "2", "--shard", f"{part}/2")
    desk.trials()
    desk.run(*FILTER, "--outcomes", "part0", "--outcomes", "part1")
    for part in range(2):
        desk.run("rollout", "recipe.toml", "more.parquet", "--out", f"part{part}", "-n", "4", "--shard", f"{part}/2")
    assert desk.trials() == dict.fromkeys(TASKS, 2)
    assert counts("part0", "part1") == dict.fromkeys(TASKS, (4, 4))


def test_two_policies_are_one_only_if_both_are_named(desk: Desk) -> None:
    for run, temperature in (("warm", "1.0"), ("cool", "0.5")):
        desk.run("rollout", "recipe.toml", "all.parquet", "--out", run, "-n", "2", "--temperature", temperature)
    both = ("--outcomes", "warm", "--outcomes", "cool")
    said = desk.run(*FILTER, *both, code=1)
    assert "the trials are of 2 policies: weights@" in said
    names = sorted({read_outcomes([Path(run)]).table["policy"][0].as_py() for run in ("warm", "cool")})
    assert "6 of 6 tasks have 4 trials" in desk.run(*FILTER, *both, "--policy", names[0], "--policy", names[1])
    assert "0 of 6 tasks have 4 trials" in desk.run(*FILTER, *both, "--policy", names[0])
    (Path("weights") / "model.safetensors").write_bytes(b"trained")
    said = desk.run("rollout", "recipe.toml", "all.parquet", "--out", "warm", "-n", "4", code=1)
    assert "holds rollouts of another policy" in said
