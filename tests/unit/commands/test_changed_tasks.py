"""A task directory that holds something else under the same name is noticed by whatever goes by what it held before."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from rollout_desk import TASKS, Desk

from lego_rl.commands.rollouts import SpecBuilder
from lego_rl.config.load import dump, read
from lego_rl.config.recipe import Recipe
from lego_rl.durable import write_text
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, TrialRecord
from lego_rl.rollout.settled import SCORED
from lego_rl.rollout.store import RunDirectory
from lego_rl.tasks.index.file import Index
from lego_rl.tasks.task import Task

ROW = {
    "instance_id": "acme__tool-7",
    "repo": "acme/tool",
    "base_commit": "1" * 40,
    "problem_statement": "The total of an empty basket is none, and it should be zero.",
    "patch": "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-total = None\n+total = 0\n",
    "test_patch": "--- a/test_x.py\n+++ b/test_x.py\n@@ -1 +1 @@\n-pass\n+import x\n",
    "FAIL_TO_PASS": '["test_x.py::test_total"]',
    "PASS_TO_PASS": "[]",
    "version": "1.0",
    "eval_script": "cd /testbed\n: '>>>>> Start Test Output'\npytest -rA test_x.py\n: '>>>>> End Test Output'\n",
    "log_parser": "parse_log_pytest",
    "eval_type": "pass_and_fail",
    "image": "made/tool:1",
}
VERIFIED = "swe-bench-verified"


def edited(name: str) -> Callable[[Path], int]:
    """Changes a file of a task by a line."""
    return lambda task: (task / name).write_text((task / name).read_text() + "\n")


CHANGES = {
    "what it says": edited("instruction.md"),
    "its tests": lambda task: (task / "tests" / "spec.json").write_bytes(
        (task / "tests" / "spec.json").read_bytes() + b" "
    ),
    "its repository": lambda task: (task / "environment" / "repo" / "new.py").write_text(""),
    "its solution": lambda task: (task / "solution" / "more.txt").write_text(""),
}


def older(name: str, file: str = "all.parquet") -> str:
    return f"{file} is older than its tasks: 1 of 6, {name}; run lego-rl tasks index DIR --out FILE again"


def one_line(said: str) -> str:
    return said.replace("\n  fix: ", "; ").replace("\n", " ")


def test_a_row_that_was_converted_again_is_not_called_clean_by_the_old_index(desk: Desk) -> None:
    def convert(**changed: str) -> str:
        Path("rows.jsonl").write_text(json.dumps(ROW | changed) + "\n")
        return desk.run("tasks", "convert", "swebench", "rows.jsonl", "--out", "converted")

    check = ("tasks", "decontaminate", "clean.parquet", "--against", VERIFIED, "--check")
    convert()
    desk.run("tasks", "index", "converted", "--out", "i.parquet")
    desk.run("tasks", "decontaminate", "i.parquet", "--against", VERIFIED, "--out", "clean.parquet")
    desk.run(*check)
    convert()
    desk.run(*check)
    convert(repo="django/django")
    said = one_line(desk.run(*check, code=1))
    assert (
        "the index is older than its tasks: 1 of 1, acme__tool-7; run lego-rl tasks index DIR --out FILE again" in said
    )
    desk.run("tasks", "index", "converted", "--out", "i.parquet")
    said = desk.run("tasks", "decontaminate", "i.parquet", "--against", VERIFIED, "--check", code=1)
    assert "1 tasks that are, or may be, of swe-bench-verified" in said


@pytest.mark.parametrize("file", ["instruction.md", "solution/gold.patch", "task.toml", "tests/config.json"])
def test_texts_are_compared_with_the_index_where_they_are_read(file: str, desk: Desk) -> None:
    task = Path("pool") / TASKS[0]
    reference = [{**ROW, "instance_id": "other__thing-1", "repo": "other/thing"}]
    Path("rows.json").write_text(json.dumps(reference))
    command = ("tasks", "decontaminate", "all.parquet", "--against", "rows.json", "--out", "out.parquet")
    desk.run(*command)
    (task / file).write_text((task / file).read_text() + "\n" if (task / file).exists() else "{}")
    assert f"the index is older than its tasks: 1 of 6, {TASKS[0]}" in desk.run(*command, code=1)
    said = desk.run("tasks", "decontaminate", "all.parquet", "--against", "all.parquet", code=1)
    assert f"all.parquet is older than its tasks: 1 of 6, {TASKS[0]}" in said
    assert "tasks index DIR --out FILE again" in said


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_no_trial_is_run_by_an_index_that_is_older(change: Callable[[Path], int], desk: Desk) -> None:
    change(Path("pool") / TASKS[2])
    said = one_line(desk.run("rollout", "recipe.toml", "all.parquet", "--out", "run", code=1))
    assert older(TASKS[2]) in said
    assert not desk.ran
    assert not Path("run").exists()
    desk.run("rollout", "recipe.toml", "pool", "--out", "run", "-n", "1")
    desk.run("tasks", "index", "pool", "--out", "all.parquet")
    desk.run("rollout", "recipe.toml", "all.parquet", "--out", "again", "-n", "1")


@pytest.mark.parametrize("command", ["train", "check"])
def test_no_run_is_begun_by_an_index_that_is_older(command: str, desk: Desk) -> None:
    recipe = str(Path(__file__).parents[3] / "recipes" / "demo-claude-code.toml")
    settings = [
        "tasks.pool=all.parquet",
        "evaluate.splits={}",
        "run.dir=run",
        f"sandbox.state={Path('state').absolute()}",
    ]
    edited("instruction.md")(Path("pool") / TASKS[2])
    words = [word for setting in settings for word in ("--set", setting)]
    arguments = ["train", recipe] if command == "train" else ["check", "recipe", recipe]
    assert older(TASKS[2]) in one_line(desk.run(*arguments, *words, code=1))


def test_tasks_are_not_validated_by_an_index_that_is_older(desk: Desk) -> None:
    edited("instruction.md")(Path("pool") / TASKS[2])
    state = f"sandbox.state={Path('state').absolute()}"
    said = one_line(desk.run("tasks", "validate", "all.parquet", "--out", "valid.parquet", "--set", state, code=1))
    assert older(TASKS[2]) in said
    assert not Path("valid.parquet").exists()


PROBE = ("rollout", "recipe.toml", "pool", "--out", "run", "-n", "2")
FILTER = ("tasks", "filter", "all.parquet", "--solved", "1..2", "--of", "2", "--undecided", "more.parquet")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_folder_with_rewards_of_a_task_that_was_changed_is_not_gone_on_with(
    change: Callable[[Path], int], desk: Desk
) -> None:
    desk.run(*PROBE)
    desk.ran.clear()
    shutil.copytree("pool", "as-it-was")
    change(Path("pool") / TASKS[2])
    said = one_line(desk.run(*PROBE, code=1))
    assert f"run has trials of 1 of 6 tasks that were changed since: {TASKS[2]}; put those tasks back" in said
    more = desk.run(*PROBE[:-1], "4", code=1)
    assert "that were changed since" in more
    assert not desk.ran

    desk.run("rollout", "recipe.toml", *(f"pool/{name}" for name in TASKS if name != TASKS[2]), *PROBE[3:])
    desk.run("rollout", "recipe.toml", "as-it-was", *PROBE[3:])
    assert not desk.ran, "all of them have ended before"


def test_the_filter_counts_no_trial_of_what_a_task_was(desk: Desk) -> None:
    desk.rates |= dict.fromkeys(TASKS, 1.0)
    desk.run(*PROBE)
    edited("instruction.md")(Path("pool") / TASKS[2])
    desk.run("tasks", "index", "pool", "--out", "all.parquet")
    printed = desk.run(*FILTER, "--outcomes", "run", "--out", "kept.parquet")
    assert f"2 trials are of 1 tasks as they were before they were changed, and are not counted: {TASKS[2]}" in printed
    assert "12 trials: 10 counted, 0 more than" in printed
    assert "0 of tasks that are not in the index, 2 of tasks that were changed since" in printed
    assert "THE-SAME-FOLDER" not in printed
    assert "--out ANOTHER -n 2 --first-attempt 0" in printed
    assert Index.read(Path("more.parquet")).ids == [TASKS[2]]
    assert Index.read(Path("kept.parquet")).ids == [name for name in TASKS if name != TASKS[2]]

    desk.rates[TASKS[2]] = 0.0
    desk.run("rollout", "recipe.toml", "more.parquet", "--out", "further", "-n", "2")
    printed = desk.run(*FILTER, "--outcomes", "run", "--outcomes", "further/outcomes.parquet", "--out", "kept.parquet")
    assert "undecided:" not in printed
    assert TASKS[2] not in Index.read(Path("kept.parquet")).ids
    Path("one").mkdir()
    desk.run("tasks", "index", f"pool/{TASKS[2]}", "--out", "all.parquet")
    desk.run("rollout", "recipe.toml", f"pool/{TASKS[2]}", "--out", "further", "-n", "2")
    old = ["rollout", "recipe.toml", f"pool/{TASKS[2]}", "--out", "one", "-n", "2"]
    desk.run(*old)
    edited("instruction.md")(Path("pool") / TASKS[2])
    desk.run("tasks", "index", f"pool/{TASKS[2]}", "--out", "all.parquet")
    said = desk.run(*FILTER, "--outcomes", "one", code=1)
    assert "none of 2 trials is of a task as the index has it" in said


def test_a_trial_without_a_reward_is_run_again_of_what_the_task_is_now(desk: Desk) -> None:
    desk.lost |= {(TASKS[2], attempt) for attempt in range(2)}
    desk.run(*PROBE)
    desk.ran.clear()
    edited("instruction.md")(Path("pool") / TASKS[2])
    desk.run(*PROBE)
    assert desk.trials() == {TASKS[2]: 2}


def test_a_run_of_training_whose_tasks_were_changed_is_not_resumed(desk: Desk) -> None:
    demo = Path(__file__).parents[3] / "recipes" / "demo-claude-code.toml"
    settings = ("tasks.pool=pool", "evaluate.splits={}", "run.dir=run", f"sandbox.state={Path('state').absolute()}")
    directory = RunDirectory.make(Path("run"))
    recipe = read(Recipe, demo, (*settings, "rollout.tasks_per_step=6"))
    write_text(directory.recipe, dump(recipe))
    (spec, *_) = SpecBuilder(recipe)([Task.load(Path("pool") / TASKS[2])], "train/step-0000", 1, 1.0)
    directory.store.save(TrialRecord(spec, Outcome(1, Ended.FINISHED, None, ""), None, PhaseSeconds()))
    with Journal(directory.journal) as journal:
        journal.append(SCORED, {"id": spec.id, "try": 1, "ended": "finished"})
    edited("instruction.md")(Path("pool") / TASKS[2])
    said = one_line(desk.run("train", "--resume", "run", code=1))
    assert f"run has trials of 1 of 6 tasks that were changed since: {TASKS[2]}; put those tasks back" in said


def test_a_pool_that_was_moved_or_copied_is_what_it_was(desk: Desk) -> None:
    Path("elsewhere").mkdir()
    shutil.move("pool", "elsewhere/pool")
    shutil.move("all.parquet", "elsewhere/all.parquet")
    shutil.copytree("elsewhere", "copied", copy_function=shutil.copyfile)
    for place in ("elsewhere", "copied"):
        desk.run("tasks", "decontaminate", f"{place}/all.parquet", "--against", VERIFIED, "--relax", "provenance")
        desk.run("rollout", "recipe.toml", f"{place}/all.parquet", "--out", f"run-{place}", "-n", "1")


def test_an_index_without_its_pool_is_taken_at_its_word_and_that_is_said(desk: Desk) -> None:
    shutil.move(Path("pool") / TASKS[0], "gone")
    printed = desk.run("tasks", "decontaminate", "all.parquet", "--against", VERIFIED)
    assert "1 of 6 task directories are not there: of those, the index was taken at its word" in printed
    assert len(Index.read(Path("all.parquet"))) == 6
