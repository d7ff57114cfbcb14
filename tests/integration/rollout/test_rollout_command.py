"""Rollouts by their command: a real harness, real sandboxes, the shipped policy; in parts, and gone on with."""

from collections import Counter
from pathlib import Path

import pytest

from lego_rl.commands import rollout
from lego_rl.commands.run_outcomes import read_outcomes
from lego_rl.errors import RunError
from lego_rl.rollout.journal import read_journal
from lego_rl.tasks.build import build_pool
from tests.small_recipe import RECIPE


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(state=tmp_path / "state"))
    return path


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    build_pool(tmp_path / "pool", sizes={"unseen": 1})
    return tmp_path / "pool"


def events(run: Path) -> Counter[str]:
    return Counter(entry.kind for entry in read_journal(run / "journal"))


def test_parts_make_a_whole_and_nothing_that_has_a_reward_is_run_again(
    recipe: Path, pool: Path, tmp_path: Path
) -> None:
    runs = [tmp_path / "one", tmp_path / "two"]
    for part, run in enumerate(runs):
        rollout.run(recipe, [pool], run, n=2, temperature=1.0, shard=f"{part}/2", overrides=())
    assert len({read_outcomes([run]).parts()[0].policy for run in runs}) == 1
    found = read_outcomes([run / rollout.OUTCOMES for run in runs])
    tasks = sorted(path.name for path in pool.iterdir() if path.is_dir())
    assert Counter(found.table["task"].to_pylist()) == dict.fromkeys(tasks, 2)
    assert set(found.table["reward"].to_pylist()) <= {0, 1}
    assert found.table.equals(read_outcomes(runs).table)

    before, outcomes = events(runs[0]), (runs[0] / rollout.OUTCOMES).read_bytes()
    rollout.run(recipe, [pool], runs[0], n=2, temperature=1.0, shard="0/2", overrides=())
    assert events(runs[0]) == before
    assert (runs[0] / rollout.OUTCOMES).read_bytes() == outcomes
    with pytest.raises(RunError, match="holds rollouts of another temperature"):
        rollout.run(recipe, [pool], runs[0], n=2, temperature=0.5, shard="0/2", overrides=())
    with pytest.raises(RunError, match="holds rollouts of another policy"):
        rollout.run(recipe, [pool], runs[0], n=2, temperature=1.0, shard="0/2", overrides=["budget.turns=3"])
    with pytest.raises(RunError, match="another recipe"):
        rollout.run(recipe, [pool], runs[0], n=2, temperature=1.0, shard="0/2", overrides=["run.seed=3"])


def test_a_folder_grows_by_what_is_missing(recipe: Path, pool: Path, tmp_path: Path) -> None:
    run, task = tmp_path / "run", min(path for path in pool.iterdir() if path.is_dir())
    rollout.run(recipe, [task], run, n=1, temperature=1.0, shard="0/1", overrides=())
    first = events(run)
    rollout.run(recipe, [task], run, n=2, temperature=1.0, shard="0/1", overrides=())
    assert {kind: count - first[kind] for kind, count in events(run).items()} == dict.fromkeys(first, 1)
    rollout.run(recipe, [task], tmp_path / "other", n=1, temperature=1.0, shard="0/1", overrides=(), first_attempt=2)
    found = read_outcomes([run, tmp_path / "other"])
    assert found.table["attempt"].to_pylist() == [0, 1, 2]
    assert len(set(found.table["seed"].to_pylist())) == 3
    assert [part.trials for part in found.parts()] == [3]
