"""``lego-rl tasks index`` to ``decontaminate``: from task and run directories to indexes, through the command line."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lego_rl import cli
from lego_rl.commands import tasks_filter
from lego_rl.commands.run_outcomes import read_outcomes
from lego_rl.commands.tasks_validate import valid_index
from lego_rl.errors import RunError, TaskError
from lego_rl.gateway.budget import Budget
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, Reward, TrialRecord
from lego_rl.rollout.settled import FAULTED, REOPENED, SCORED, STARTED
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.tasks.build import write_task
from lego_rl.tasks.generate import generate
from lego_rl.tasks.index.file import Index
from lego_rl.tasks.index.outcomes import Outcomes
from lego_rl.tasks.validate.journal import locked

type Run = Callable[..., str]


@pytest.fixture
def lego(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs a command in a folder of its own and returns what it printed; one that fails must be asked to."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, code: int = 0) -> str:
        monkeypatch.setattr("sys.argv", ["lego-rl", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        assert (ended.value.code or 0) == code, printed.err
        return printed.out if code == 0 else printed.err

    return run


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    for number in range(4):
        path = write_task(generate(0, "comparison", number), tmp_path / "pool")
        repository = "sympy/sympy" if number == 3 else f"made/repository-{number}"
        text = (path / "task.toml").read_text()
        (path / "task.toml").write_text(text.replace("[metadata]\n", f'[metadata]\nrepo = "{repository}"\n'))
    return tmp_path / "pool"


def run_directory(folder: Path, rewards: dict[str, list[Reward | None]], label: str = "pool") -> RunDirectory:
    """A run as it lies on the disk: ``None`` is what a fault of the infrastructure left."""
    directory = RunDirectory.make(folder)
    with Journal(directory.journal) as journal:
        for task, row in rewards.items():
            for attempt, reward in enumerate(row):
                spec = TrialSpec(
                    Path("/elsewhere") / task, label, attempt, len(row), 7, 1.0, Budget(), HarnessChoice("claude-code")
                )
                ended = Ended.SANDBOX_START if reward is None else Ended.FINISHED
                directory.store.save(TrialRecord(spec, Outcome(reward, ended, None, ""), None, PhaseSeconds()))
                kind = FAULTED if reward is None else SCORED
                journal.append(STARTED, {"id": spec.id})
                journal.append(kind, {"id": spec.id, "ended": ended.value})
    return directory


TASKS = [f"comparison-train-{number:03d}" for number in range(4)]


def test_from_a_pool_and_a_run_to_an_index_of_what_teaches(lego: Run, pool: Path, tmp_path: Path) -> None:
    assert lego("tasks", "index", "pool", "--out", "index.parquet") == "4 tasks in index.parquet\n"
    run_directory(
        tmp_path / "run",
        {TASKS[0]: [0, 0, 0, 0], TASKS[1]: [1, 0, None, 0], TASKS[2]: [None, None, 0, 0], TASKS[3]: [1, 0, 1, 0]},
    )
    printed = lego(
        *("tasks", "filter", "index.parquet", "--outcomes", "run", "--solved", "1..3", "--of", "4"),
        *("--out", "kept.parquet", "--undecided", "more.parquet", "--decisions", "all.parquet"),
    )
    assert "2 of 4 tasks have 4 trials with a reward, 2 have fewer" in printed
    assert "16 trials: 13 counted, 0 more than 4 of a task, 3 unknown (infrastructure)" in printed
    assert "kept: 2 of 4 (solved 1..3 of 4)" in printed
    assert "undecided: 1; 2 more trials decide all of them, 1 at best" in printed
    assert Index.read(Path("kept.parquet")).ids == [TASKS[1], TASKS[3]]
    assert Index.read(Path("more.parquet")).ids == [TASKS[2]]
    assert pq.read_table("all.parquet")["decision"].to_pylist() == ["below", "in", "undecided", "in"]

    printed = lego(
        "tasks", "decontaminate", "kept.parquet", "--against", "swe-bench-verified", "--out", "clean.parquet"
    )
    assert f"{TASKS[3]}: repository: is of sympy/sympy, a repository of the reference" in printed
    assert "1 of 2 tasks are contaminated\n1 tasks in clean.parquet\n" in printed
    assert Index.read(Path("clean.parquet")).ids == [TASKS[1]]


def test_many_undecided_tasks_are_listed_in_part(lego: Run, pool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_filter, "MOST_UNDECIDED", 1)
    lego("tasks", "index", "pool", "--out", "index.parquet")
    run_directory(Path("run"), {TASKS[0]: [0]})
    assert "and 3 more: --decisions FILE" in lego("tasks", "filter", "index.parquet", "--outcomes", "run")


def test_a_check_fails_where_something_is_left_and_passes_where_it_is_relaxed(lego: Run, pool: Path) -> None:
    lego("tasks", "index", "pool", "--out", "index.parquet")
    command = ("tasks", "decontaminate", "index.parquet", "--against", "swe-bench-verified")
    said = lego(*command, "--check", code=1)
    assert "lego-rl: index.parquet has 1 tasks that are, or may be, of swe-bench-verified" in said
    assert "--out CLEAN" in said
    assert "(relaxed)" in lego(*command, "--check", "--relax", "repository")
    assert "there is no rule all" in lego(*command, "--relax", "all", code=1)
    lego(*command, "--out", "clean.parquet", "--report", "hits.parquet")
    lego("tasks", "decontaminate", "clean.parquet", "--against", "swe-bench-verified", "--check")
    assert pq.read_table("hits.parquet").to_pylist()[0]["rule"] == "repository"


def test_a_check_needs_a_reference_that_names_repositories(lego: Run, pool: Path) -> None:
    lego("tasks", "index", "pool", "--out", "index.parquet")
    Path("commits.json").write_text(json.dumps([{"instance_id": "one", "base_commit": "0" * 40}]))
    command = ("tasks", "decontaminate", "index.parquet", "--against", "commits.json", "--check")
    said = lego(*command, code=1)
    assert "no row of commits.json names a repository" in said
    printed = lego(*command, "--relax", "repository")
    assert "issue texts and patches were not compared: commits.json has none" in printed
    Path("ids.csv").write_text("instance_id,repo\nsympy__sympy-1,sympy/sympy\n")
    said = lego("tasks", "decontaminate", "index.parquet", "--against", "ids.csv", "--check", code=1)
    assert "ids.csv is of no kind that is known" in said


def test_an_index_is_shown_counted_split_and_merged(lego: Run, pool: Path) -> None:
    lego("tasks", "index", "pool", "--out", "index.parquet", "--data-source", "mine")
    assert f"{TASKS[0]}  mine    train  made/repository-0" in lego("tasks", "show", "index.parquet")
    row = json.loads(lego("tasks", "show", "index.parquet", TASKS[3]))
    assert (row["repo"], row["extra_info"]["harbor_task_path"]) == ("sympy/sympy", str(pool / TASKS[3]))
    assert "has no task nothing" in lego("tasks", "show", "index.parquet", "nothing", code=1)
    assert lego("tasks", "stats", "index.parquet").startswith("4 tasks\n")
    said = lego("tasks", "split", "index.parquet", "--out", "few", "--part", "a=1", "--part", "b=1e-12", "--by", "task")
    assert "nothing fell into b: there are few tasks for its weight" in said
    lego("tasks", "split", "index.parquet", "--out", "parts", "--part", "a=1", "--part", "b=1", "--by", "task")
    lego("tasks", "merge", "parts/a.parquet", "parts/b.parquet", "--out", "again.parquet")
    again = Index.read(Path("again.parquet"))
    assert again.ids == TASKS
    assert [Index.read(Path(f"parts/{part}.parquet")).ids for part in ("a", "b")] == [
        [name for name, of in zip(TASKS, again.info("split"), strict=True) if of == part] for part in ("a", "b")
    ]
    assert "both have the task" in lego("tasks", "merge", "again.parquet", "index.parquet", "--out", "x", code=1)
    assert "cannot go by colour" in lego(
        "tasks", "split", "index.parquet", "--out", "parts", "--part", "a=1", "--by", "colour", code=1
    )
    for parts in (["../a=1"], ["a=nan"], ["a=1", "b=inf"], ["a=-1"], ["a=0"], ["a=1", "b=1", "a=2"]):
        words = [word for part in parts for word in ("--part", part)]
        assert "--part" in lego("tasks", "split", "index.parquet", "--out", "refused", *words, code=1)
    assert not Path("refused").exists()
    shutil.copy("index.parquet", "a.parquet")
    assert "is a.parquet, which is read" in lego("tasks", "split", "a.parquet", "--out", ".", "--part", "a=1", code=1)


def test_a_task_that_cannot_be_used_is_left_out_or_stops(lego: Run, pool: Path) -> None:
    shutil.rmtree(pool / TASKS[1] / "environment")
    assert lego("tasks", "index", "pool", "--out", "index.parquet") == "3 tasks in index.parquet, 1 left out\n"
    said = lego("tasks", "index", "pool", "--out", "strict.parquet", "--strict", code=1)
    assert "left out: pool/comparison-train-001: " in said
    assert "1 of 4 task directories cannot be used" in said
    assert not Path("strict.parquet").exists()


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("--out=./x.parquet", "are one file"),
        ("--label=nothing", "no trial of the label nothing"),
        ("--solved=3..1", "is no band"),
        ("--solved=many", "is no range"),
        ("--signal=2", "is no advantage"),
    ],
)
def test_what_cannot_be_filtered_by_is_refused(option: str, problem: str, lego: Run, pool: Path) -> None:
    lego("tasks", "index", "pool", "--out", "index.parquet")
    run_directory(Path("run"), {TASKS[0]: [0]})
    command = ("tasks", "filter", "index.parquet", "--outcomes", "run", "--undecided", "x.parquet", option)
    assert problem in lego(*command, code=1)


@pytest.mark.parametrize("repo", ["work", "n/a", "a b/c"])
def test_tasks_are_made_of_a_repository_that_is_named_as_one(repo: str, lego: Run) -> None:
    said = lego("tasks", "make", "pool", "--out", "made", "--repo", repo, code=1)
    assert f"--repo {repo} is no repository" in said
    assert "OWNER/NAME" in said


def test_only_what_the_journal_says_counts(tmp_path: Path) -> None:
    directory = run_directory(tmp_path / "run", {"a": [1, 0], "b": [None]})
    with Journal(directory.journal) as journal:
        first = journal.entries[0].data["id"]
        journal.append(REOPENED, {"ids": [first]})  # its record still lies there
    found = read_outcomes([tmp_path / "run"])
    assert found.table.select(["task", "attempt", "reward", "ended"]).to_pylist() == [
        {"task": "a", "attempt": 1, "reward": 0, "ended": "finished"},
        {"task": "b", "attempt": 0, "reward": None, "ended": "sandbox_start"},
    ]


def test_runs_and_outcomes_files_go_together(tmp_path: Path) -> None:
    run_directory(tmp_path / "one", {"a": [1]}, "train/step-0000")
    run_directory(tmp_path / "two", {"a": [0, 1]}, "heldout/before")
    read_outcomes([tmp_path / "two"]).write(tmp_path / "two.parquet")
    both = read_outcomes([tmp_path / "one", tmp_path / "two.parquet", tmp_path / "two"])
    assert both.table["reward"].to_pylist() == [0, 1, 1]
    assert len(both.chosen(labels=["heldout"])) == 2
    assert both.repeated == 2
    assert Outcomes.read(tmp_path / "two.parquet").table.equals(read_outcomes([tmp_path / "two"]).table)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="there is no run at"):
        read_outcomes([tmp_path / "nowhere"])
    with pytest.raises(RunError, match="cannot read the journal"):
        read_outcomes([tmp_path])


def test_what_an_index_says_of_its_tasks_is_said_of_them_when_they_are_valid(lego: Run, pool: Path) -> None:
    lego("tasks", "index", "pool", "--out", "index.parquet", "--data-source", "mine")
    lego("tasks", "split", "index.parquet", "--out", "parts", "--part", "heldout=1", "--by", "task")
    found = valid_index([Path("parts/heldout.parquet")], TASKS[:3])
    assert found.ids == TASKS[:3]
    assert (set(found.info("split")), set(found.column("data_source").to_pylist())) == ({"heldout"}, {"mine"})
    text = (pool / TASKS[0] / "instruction.md").read_text()
    (pool / TASKS[0] / "instruction.md").write_text(f"{text}\nIt is another text now.\n")
    before, after = (each.column("issue_digest").to_pylist() for each in (found, valid_index([pool], TASKS[:3])))
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, True, True]


WRITTEN_OVER = {
    "an index of itself": ("index", "pool", "--out", "pool"),
    "an index in a task": ("index", "pool", "--out", f"pool/{TASKS[0]}/instruction.md"),
    "a part of itself": ("split", "index.parquet", "--out", ".", "--part", "index=1"),
    "a part of a link": ("split", "link.parquet", "--out", ".", "--part", "index=1"),
    "two parts but for case": ("split", "index.parquet", "--out", "parts", "--part", "a=1", "--part", "A=1"),
    "merged into one of them": ("merge", "index.parquet", "--out", "hard.parquet"),
    "kept over the index": ("filter", "index.parquet", "--outcomes", "outcomes.parquet", "--out", "./index.parquet"),
    "kept over outcomes": ("filter", "index.parquet", "--outcomes", "outcomes.parquet", "--out", "outcomes.parquet"),
    "decisions over outcomes": (
        *("filter", "index.parquet", "--outcomes", "outcomes.parquet", "--decisions", "pool/../outcomes.parquet"),
    ),
    "undecided over a run": ("filter", "index.parquet", "--outcomes", "run", "--undecided", "run/journal"),
    "clean over the reference": ("decontaminate", "index.parquet", "--against", "ids.txt", "--out", "ids.txt"),
    "hits over the index": ("decontaminate", "index.parquet", "--against", "ids.txt", "--report", "link.parquet"),
    "hits and clean": ("decontaminate", "index.parquet", "--against", "ids.txt", "--report", "x", "--out", "X"),
    "valid over the index": ("validate", "index.parquet", "--out", "index.parquet"),
    "findings over the index": ("validate", "index.parquet", "--journal", "link.parquet"),
    "findings and valid": ("validate", "index.parquet", "--journal", "x", "--out", "x"),
    "findings in a task": ("validate", "pool", "--journal", f"pool/{TASKS[0]}/x"),
    "tasks into rows": ("convert", "swebench", "pool", "--out", "pool"),
    "skipped rows over rows": ("convert", "swebench", "pool/skipped.jsonl", "--out", "pool"),
    "tasks into their source": ("make", "pool", "--out", "pool"),
    "tasks below rows": ("convert", "swebench", "pool", "--out", "pool/tasks/new"),
    "tasks below rows, by a link": ("convert", "swebench", "linked", "--out", "pool/tasks"),
    "tasks below their source": ("make", "pool", "--out", "pool/tasks"),
}


@pytest.mark.parametrize("command", WRITTEN_OVER.values(), ids=WRITTEN_OVER.keys())
def test_what_is_read_is_never_written(command: tuple[str, ...], lego: Run, pool: Path, tmp_path: Path) -> None:
    lego("tasks", "index", "pool", "--out", "index.parquet")
    run_directory(tmp_path / "run", {TASKS[0]: [1, 0]})
    read_outcomes([tmp_path / "run"]).write(tmp_path / "outcomes.parquet")
    Path("ids.txt").write_text("sympy__sympy-1\n")
    Path("pool/skipped.jsonl").write_text("{}\n")
    Path("link.parquet").symlink_to("index.parquet")
    Path("linked").symlink_to("pool")
    Path("hard.parquet").hardlink_to("index.parquet")
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    error = lego("tasks", *command, code=1)
    assert "which is read" in error or "are one file" in error or "all of which is read" in error
    assert {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()} == before


@pytest.mark.parametrize("out", ["pool", "index.parquet"])
def test_a_run_is_never_written_over_its_tasks(out: str, lego: Run, pool: Path) -> None:
    lego("tasks", "index", "pool", "--out", "index.parquet")
    Path("recipe.toml").write_text("")
    assert "which is read" in lego("rollout", "recipe.toml", "pool", "index.parquet", "--out", out, code=1)


def test_a_folder_is_no_file_to_write(lego: Run, pool: Path) -> None:
    Path("folder").mkdir()
    assert "folder is a folder\n  fix: name a file" in lego("tasks", "index", "pool", "--out", "folder", code=1)


def test_one_process_at_a_time_validates_into_a_file(lego: Run, pool: Path) -> None:
    with locked(pool / "validation.jsonl"):
        said = lego("tasks", "validate", "pool", "--times", "1", code=1)
    assert "another process is validating into pool/validation.jsonl" in said
