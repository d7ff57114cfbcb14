"""Probe, filter, roll out what decides, filter: through the commands, with a policy whose trials are drawn by seed."""

import re
import shlex
from pathlib import Path

import pytest
from rollout_desk import TASKS, Desk

from lego_rl.commands.run_outcomes import read_outcomes
from lego_rl.tasks.index.file import Index

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
