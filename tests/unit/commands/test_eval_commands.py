"""``lego-rl eval``: what is run, what is not run again, what is said of it."""

import json
from collections import Counter
from pathlib import Path

import pytest
from eval_desk import CONFIG, TASKS, Desk, Stopped, desk_in

from lego_rl.rollout.journal import read_journal
from lego_rl.rollout.settled import SCORED
from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.task_grader import SandboxedGrader
from lego_rl.tasks.content import directory_digest

PATH = 'path = "builtin:demo"'
ENDPOINT = 'engine = { kind = "chat", url = "http://127.0.0.1:9/v1", model = "hosted" }'
EVERY = 2 * 2 * len(TASKS) * 4


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    return desk_in(tmp_path, monkeypatch, capsys)


def report(folder: str = "evaluation") -> dict:
    return json.loads((Path(folder) / "report.json").read_text())


def cells(folder: str = "evaluation") -> dict[str, dict]:
    return {f"{cell['model']}--{cell['harness']}": cell for cell in report(folder)["cells"]}


def scored_in(journal: Path) -> Counter[str]:
    """How often a journal says that each trial is scored."""
    return Counter(str(entry.data["id"]) for entry in read_journal(journal) if entry.kind == SCORED)


def test_every_model_is_tried_in_every_harness_and_the_report_says_so(desk: Desk) -> None:
    out = desk.run("eval", "run", "evaluation.toml")
    assert set(desk.ids().values()) == {1} and len(desk.ran) == EVERY
    found = cells()
    assert set(found) == {f"{m}--{h}" for m in ("weak", "strong") for h in ("claude-code", "opencode")}
    assert all((cell["scored"], cell["launched"], cell["coverage"]) == (20, 20, 1.0) for cell in found.values())
    assert found["strong--opencode"]["pass@1"] > found["weak--opencode"]["pass@1"]
    assert f"{found['weak--claude-code']['pass@1']:.3f} [" in out
    page = Path("evaluation/report.html").read_text()
    assert "<script" not in page and "strong--opencode" in page
    assert "| weak |" in Path("evaluation/report.md").read_text()
    again = desk.run("eval", "report", "evaluation")
    assert "pass@k and pass^k" in again


def test_a_killed_evaluation_goes_on_where_it_was(desk: Desk) -> None:
    desk.left[0] = 33
    with pytest.raises(Stopped):
        try:
            desk.run("eval", "run", "evaluation.toml")
        except ExceptionGroup as group:
            raise group.exceptions[0] from group
    assert "not_run" in desk.run("eval", "report", "evaluation")
    desk.left[0] = 10**9
    desk.run("eval", "run", "evaluation.toml")
    scored = [scored_in(path) for path in Path("evaluation/cells").glob("*/*/journal")]
    assert len(scored) == 4
    assert all(len(each) == 20 and set(each.values()) == {1} for each in scored), "none missing, no trial twice"
    assert all(cell["scored"] == 20 for cell in cells().values())


def test_only_trials_without_a_score_are_run_again(desk: Desk) -> None:
    desk.lost |= {(TASKS[0], 0), (TASKS[1], 2)}
    out = desk.run("eval", "run", "evaluation.toml")
    assert "sandbox_start 2" in out
    lost = [cell for cell in cells().values() if cell["coverage"] < 1]
    assert [(cell["scored"], cell["faults"]) for cell in lost] == [(18, {"sandbox_start": 2})]
    desk.ran.clear()
    desk.run("eval", "run", "evaluation.toml")
    assert sorted((spec.task.name, spec.attempt) for spec in desk.ran) == [(TASKS[0], 0), (TASKS[1], 2)]
    assert all(cell["coverage"] == 1.0 for cell in cells().values())


def test_more_attempts_and_tasks_may_be_asked_for_and_another_protocol_not(desk: Desk) -> None:
    desk.run("eval", "run", "evaluation.toml", "--set", "evaluation.attempts=2", "--set", "tasks.count=3")
    first = Counter(desk.ids())
    desk.run("eval", "run", "evaluation.toml")
    assert len(desk.ran) == EVERY
    assert set(first) <= set(desk.ids())
    said = desk.run("eval", "run", "evaluation.toml", "--set", "protocol.temperature=0.5", code=1)
    assert "holds an evaluation with another temperature" in said


def test_a_cap_stops_it_and_nothing_is_lost(desk: Desk) -> None:
    desk.run("eval", "run", "evaluation.toml", "--set", "caps.max_sampled_tokens=1000")
    assert 10 <= len(desk.ran) <= 12
    assert sum(cell["scored"] for cell in cells().values()) == len(desk.ran)
    assert cells()["strong--opencode"]["faults"] == {"not_run": 20}
    desk.run("eval", "run", "evaluation.toml")
    assert set(desk.ids().values()) == {1} and len(desk.ran) == EVERY


def test_shards_are_reported_together(desk: Desk) -> None:
    for shard in ("0/2", "1/2"):
        desk.run("eval", "run", "evaluation.toml", "--shard", shard)
    assert set(desk.ids().values()) == {1} and len(desk.ran) == EVERY
    assert all(cell["scored"] == 20 for cell in cells().values())


def test_tasks_whose_solution_fails_here_are_told_apart(desk: Desk) -> None:
    found("gold_fails", "test_a fails", *TASKS[:1])
    found("valid", "", *TASKS[1:])
    out = desk.run("eval", "run", "evaluation.toml")
    assert "pass@1 without 1 tasks whose own solution fails here" in out
    assert f"{TASKS[0]}  gold_fails: test_a fails" in out
    without = report()["cells_without_excluded"]
    assert [(cell["scored"], cell["launched"]) for cell in without] == [(16, 16)] * 4
    assert report()["excluded"] == {TASKS[0]: "gold_fails: test_a fails"}
    assert report()["unvalidated"] == 0


@pytest.mark.parametrize("changed", [{"digest": "of something else"}, {"sandboxes": "others"}, {"judgement": "fault"}])
def test_a_finding_of_another_content_or_sandbox_says_nothing(desk: Desk, changed: dict[str, str]) -> None:
    changed = dict(changed)
    found("gold_fails", "test_a fails", *TASKS[:2])
    found(changed.pop("judgement", "gold_fails"), "test_a fails", TASKS[0], **changed)
    desk.run("eval", "run", "evaluation.toml", "--set", "evaluation.attempts=1")
    assert set(report()["excluded"]) == {TASKS[1]}
    assert report()["unvalidated"] == 4
    assert "4 tasks whose own solution nobody has tried here" in Path("evaluation/report.md").read_text()


def found(judgement: str, reason: str, *tasks: str, **changed: str) -> None:
    """Write down what ``tasks validate`` would have found of tasks as they are, in sandboxes as they are by default."""
    settings = SandboxSettings()
    for task in tasks:
        known = {
            "task": task,
            "digest": directory_digest(Path("pool", task)),
            "sandboxes": SandboxedGrader(provider_of(settings), settings).sandboxes,
            "times": 1,
            "judgement": judgement,
            "reason": reason,
        }
        with Path("pool/validation.jsonl").open("a") as file:
            file.write(json.dumps(known | changed) + "\n")


def test_compare_says_what_can_be_told_apart(desk: Desk) -> None:
    desk.run("eval", "run", "evaluation.toml")
    out = desk.run("eval", "compare", "evaluation:weak--opencode", "evaluation:strong--opencode")
    assert "weak--opencode → strong--opencode: 5 tasks" in out
    same = desk.run("eval", "compare", "evaluation:weak--opencode", "evaluation:weak--opencode")
    assert "not distinguishable" in same
    both = json.loads(desk.run("eval", "compare", "evaluation", "evaluation", "--json"))
    assert set(both) == set(cells())
    assert all(not each["distinguishable"] and each["p_value_holm"] == 1.0 for each in both.values())
    assert "has no cell 'x'" in desk.run("eval", "compare", "evaluation:x", "evaluation", code=1)
    assert "holds no trials" in desk.run("eval", "compare", "pool", "evaluation", code=1)


def test_a_dry_run_counts_and_runs_nothing(desk: Desk) -> None:
    out = desk.run("eval", "run", "evaluation.toml", "--dry-run")
    assert "2 models × 2 harnesses × 5 tasks × 4 attempts = 80 trials" in out
    assert "output_tokens = 160" in out
    assert not desk.ran and not Path("evaluation").exists()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            CONFIG.replace('name = "demo"\n[tasks]', 'name = "swe-bench-verifed"\n[tasks]'),
            "did you mean swe-bench-verified",
        ),
        (CONFIG.replace('path = "builtin:demo"', "", 1), "model 'weak' needs either path or run"),
        (CONFIG.replace('"strong"', '"weak"'), "models has 'weak' twice"),
        (CONFIG.replace('"strong"', '"a/b"'), "models"),
        (CONFIG.replace("attempts = 4", "attempt = 4"), "unknown key evaluation.attempt"),
        (CONFIG.replace('pool = "pool"', 'pool = "nowhere"'), "there is no task pool at nowhere"),
        (CONFIG.replace('pool = "pool"', 'pool = "pool"\nsplit = "test"'), "the pool has no split 'test'"),
        (
            CONFIG.replace('pool = "pool"', 'pool = "pool"\nvalidation = "none.jsonl"'),
            "there are no findings at none.jsonl",
        ),
        (CONFIG.replace('path = "builtin:demo"', 'run = "pool"', 1), "has no checkpoint with a policy"),
    ],
)
def test_what_cannot_be_used_is_named_before_anything_runs(desk: Desk, changed: str, says: str) -> None:
    Path("evaluation.toml").write_text(changed)
    assert says in desk.run("eval", "run", "evaluation.toml", code=1)
    assert not desk.ran


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("evaluation.attempts=2", "holds an evaluation of 4 attempts, and not 2"),
        ("tasks.count=3", "holds an evaluation of 2 tasks that are not asked for now"),
        ("evaluation.seed=1", "holds an evaluation of seed 0, and not 1"),
        ("protocol.turns=3", "holds an evaluation with another turns"),
        ("sandbox.processes=99", "weak in claude-code was begun with other [sandbox] settings"),
    ],
)
def test_what_was_measured_is_not_mixed_with_what_is_other(desk: Desk, change: str, says: str) -> None:
    desk.run("eval", "run", "evaluation.toml")
    before = Path("evaluation/plan.json").read_bytes()
    assert says in desk.run("eval", "run", "evaluation.toml", "--set", change, code=1)
    assert len(desk.ran) == EVERY
    assert Path("evaluation/plan.json").read_bytes() == before


def test_another_model_of_the_same_name_is_refused_though_nothing_is_left(desk: Desk) -> None:
    desk.run("eval", "run", "evaluation.toml")
    desk.weights["weak"] = 2
    said = desk.run("eval", "run", "evaluation.toml", code=1)
    assert "holds rollouts of another policy: weak@1, and not weak@2" in said


def test_a_shard_is_not_gone_on_with_as_a_whole(desk: Desk) -> None:
    desk.run("eval", "run", "evaluation.toml", "--shard", "0/2")
    ran = len(desk.ran)
    said = desk.run("eval", "run", "evaluation.toml", code=1)
    assert "weak in claude-code was begun in parts of 2, and not 1" in said
    assert "with --shard I/2" in said
    assert len(desk.ran) == ran


def test_a_cell_that_is_no_more_asked_for_stays_in_the_report(desk: Desk) -> None:
    desk.run("eval", "run", "evaluation.toml")
    before = cells()
    Path("evaluation.toml").write_text(CONFIG.replace('[[harnesses]]\nname = "opencode"\n', ""))
    desk.run("eval", "run", "evaluation.toml")
    assert cells() == before


def test_nothing_is_opened_where_nothing_is_left(desk: Desk) -> None:
    Path("evaluation.toml").write_text(CONFIG.replace(PATH, ENDPOINT))
    desk.lost |= {(TASKS[0], 0)}
    desk.run("eval", "run", "evaluation.toml")
    desk.opened.clear()
    out = desk.run("eval", "run", "evaluation.toml")
    assert desk.opened == ["weak--claude-code"], "the one cell that a fault left a hole in"
    desk.opened.clear()
    assert desk.run("eval", "run", "evaluation.toml") == out
    assert not desk.opened
    Path("evaluation.toml").write_text(CONFIG.replace(PATH, ENDPOINT.replace("hosted", "other")))
    desk.run("eval", "run", "evaluation.toml")
    assert len(desk.opened) == 4, "what is asked now may be something else"


def test_what_earlier_commands_sampled_counts_for_a_cap(desk: Desk) -> None:
    for _ in range(3):
        desk.run("eval", "run", "evaluation.toml", "--set", "caps.max_sampled_tokens=1000")
    assert 10 <= len(desk.ran) <= 12


def test_a_value_of_the_protocol_that_cannot_be_is_one_line(desk: Desk) -> None:
    said = desk.run("eval", "run", "evaluation.toml", "--set", "protocol.output_tokens=999999", code=1)
    assert "output_tokens must be smaller than context_tokens" in said
    assert len(said.splitlines()) == 2


def test_a_folder_of_something_else_is_refused(desk: Desk) -> None:
    said = desk.run("eval", "run", "evaluation.toml", "--set", "evaluation.dir=pool", code=1)
    assert "pool holds something else than an evaluation" in said
    assert "holds no evaluation" in desk.run("eval", "report", "pool", code=1)
