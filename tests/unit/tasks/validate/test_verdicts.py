"""From gradings to verdicts: every way a task can be wrong has a name and a reason."""

import importlib.util
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from lego_rl.commands.tasks_validate import indexed_contents
from lego_rl.errors import SandboxError, TaskError
from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.task_grader import SandboxedGrader
from lego_rl.tasks.content import directory_digest
from lego_rl.tasks.directory import EnvironmentPart, SolutionPart, TaskDirectory, TestsPart
from lego_rl.tasks.index.task_row import index_row
from lego_rl.tasks.provenance import Provenance
from lego_rl.tasks.reports import Report, TestStatus
from lego_rl.tasks.task import Task, TestSpec
from lego_rl.tasks.validate.grader import Graded, Variant
from lego_rl.tasks.validate.journal import Validations
from lego_rl.tasks.validate.judge import MEANINGS, Judgement, Validation, judge
from lego_rl.tasks.validate.run import Validator

SPEC = TestSpec(("t::new", "t::other"), ("t::old",), "true", "pytest-junit", ("t",))
FAILED: dict[str, TestStatus] = {"t::new": "failed", "t::other": "missing", "t::old": "passed"}
PASSED: dict[str, TestStatus] = {"t::new": "passed", "t::other": "passed", "t::old": "passed"}


def graded(tests: Mapping[str, TestStatus], reward: int | None = None, ended: str = "completed") -> Graded:
    solved = int(all(status == "passed" for status in tests.values()))
    return Graded(solved if reward is None else reward, ended, tests, 0.1)


EMPTY, GOLD = graded(FAILED), graded(PASSED)


@pytest.mark.parametrize(
    ("empty", "gold", "judgement", "reason"),
    [
        ([EMPTY, EMPTY], [GOLD, GOLD], "valid", ""),
        ([GOLD, GOLD], [GOLD, GOLD], "empty_solves", "every FAIL_TO_PASS passes"),
        ([graded({**FAILED, "t::new": "passed"})], [GOLD], "passes_before", "t::new"),
        ([graded({**FAILED, "t::old": "failed"})], [GOLD], "fails_before", "t::old"),
        ([EMPTY], [graded({**PASSED, "t::other": "skipped"})], "gold_fails", "t::other"),
        ([EMPTY, graded({**FAILED, "t::old": "failed"})], [GOLD], "flaky", "t::old"),
        ([EMPTY], [GOLD, graded({**PASSED, "t::new": "error"})], "flaky", "t::new"),
        ([graded(FAILED, ended="timed_out")], [GOLD], "not_graded", "without a change: timed out"),
        ([EMPTY], [graded({}, 0, "no_report")], "not_graded", "with its solution: no report"),
        ([EMPTY, graded({}, 0, "timed_out")], [GOLD, GOLD], "not_graded", "without a change: timed out"),
        ([EMPTY, EMPTY], [GOLD, graded({}, 0, "no_report")], "not_graded", "with its solution: no report"),
    ],
)
def test_every_verdict(empty: list[Graded], gold: list[Graded], judgement: Judgement, reason: str) -> None:
    found, said, flaky = judge(SPEC, empty, gold)
    assert found == judgement
    assert reason in said
    assert bool(flaky) == (judgement == "flaky")


@pytest.mark.parametrize(
    ("empty", "gold", "judgement"),
    [([0, 0], [1, 1], "valid"), ([1], [1], "empty_solves"), ([0], [0], "gold_fails"), ([0, 1], [1, 1], "flaky")],
)
def test_a_task_with_a_script_is_judged_by_its_rewards(empty: list[int], gold: list[int], judgement: Judgement) -> None:
    found, _, _ = judge(None, [graded({}, each) for each in empty], [graded({}, each) for each in gold])
    assert found == judgement


def test_failing_otherwise_is_not_flaky() -> None:
    other = graded({**FAILED, "t::new": "error"})
    assert judge(SPEC, [EMPTY, other], [GOLD])[0] == "valid"


def test_every_verdict_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Judgement.__value__.__args__)


def write_task(pool: Path, name: str, **changed: object) -> Path:
    fields: dict[str, object] = {
        "id": name,
        "name": f"me/{name}",
        "description": "d",
        "instruction": "Mend it.\n",
        "environment": EnvironmentPart("/app", files={"repo/a.py": b"a = 1\n"}),
        "tests": TestsPart(
            ("t::new", "t::other"), ("t::old",), "true", "pytest-junit", "#!/bin/sh\n", files={"t": b"x"}
        ),
        "solution": SolutionPart(b"", "#!/bin/sh\n", {"a.py": b"a = 2\n"}),
    }
    return TaskDirectory(**{**fields, **changed}).write(pool)  # type: ignore[arg-type]


class Scripted:
    """Grades as it is told, and counts."""

    def __init__(self, empty: Graded = EMPTY, gold: Graded = GOLD, *, faults: int = 0, leak: bool = False) -> None:
        self.answers: dict[Variant, Graded] = {"empty": empty, "gold": gold}
        self.first: dict[Variant, Graded] = {}
        self.faults, self.leak = faults, leak
        self.looked, self.graded = 0, 0
        self.sandboxes = "these"

    async def look(self, task: Task) -> None:
        self.looked += 1
        if self.leak:
            raise TaskError(f"task {task.id} shows its hidden test", "remove it")

    async def grade(self, task: Task, variant: Variant) -> Graded:
        if self.faults:
            self.faults -= 1
            raise SandboxError("no sandbox", "mend the host")
        self.graded += 1
        return self.first.pop(variant, self.answers[variant])


class Silent:
    def found(self, validation: Validation, done: int, total: int) -> None:
        assert done <= total


async def validate(
    grader: Scripted, pool: Path, *tasks: Path, times: int = 3, record: bool = False
) -> list[Validation]:
    validator = Validator(grader, Validations(pool / "found.jsonl"), times, 2, record)
    return await validator.validate(list(tasks), Silent())


async def test_each_variant_is_graded_as_often_as_asked_and_the_agents_sandbox_looked_at(tmp_path: Path) -> None:
    grader = Scripted()
    (found,) = await validate(grader, tmp_path, write_task(tmp_path, "one"))
    assert (found.judgement, found.times, grader.graded, grader.looked) == ("valid", 3, 6, 1)
    assert [each.reward for each in found.attempts] == [0, 0, 0, 1, 1, 1]


async def test_what_is_known_is_not_graded_again_unless_the_task_is_another(tmp_path: Path) -> None:
    task, grader = write_task(tmp_path, "one"), Scripted()
    await validate(grader, tmp_path, task)
    with (tmp_path / "found.jsonl").open("a") as file:
        file.write('{"task": "one", "dig')  # a run that was killed while it wrote
    await validate(grader, tmp_path, task, times=2)
    assert grader.graded == 6
    await validate(grader, tmp_path, task, times=4)
    assert grader.graded == 6 + 8
    await validate(grader, tmp_path, task, times=4)
    assert grader.graded == 6 + 8
    (task / "instruction.md").write_text("Mend it now.\n")
    await validate(grader, tmp_path, task)
    assert grader.graded == 6 + 8 + 6


async def test_a_sandbox_that_could_not_be_had_is_asked_for_once_more_and_is_no_verdict(tmp_path: Path) -> None:
    task = write_task(tmp_path, "one")
    (found,) = await validate(Scripted(faults=1), tmp_path, task)
    assert found.judgement == "valid"

    other = write_task(tmp_path, "two")
    (found,) = await validate(Scripted(faults=2), tmp_path, other)
    assert (found.judgement, found.reason) == ("fault", "no sandbox; mend the host")
    (found,) = await validate(Scripted(), tmp_path, other)
    assert found.judgement == "valid"


async def test_a_task_that_gives_its_tests_away_or_cannot_be_read_is_unusable_and_the_rest_goes_on(
    tmp_path: Path,
) -> None:
    good, bad = write_task(tmp_path, "good"), write_task(tmp_path, "bad")
    (bad / "tests" / "spec.json").write_text("[]")
    found = await validate(Scripted(), tmp_path, bad, good)
    assert [each.judgement for each in found] == ["unusable", "valid"]
    assert "spec.json" in found[0].reason

    (leaking,) = await validate(Scripted(leak=True), tmp_path, write_task(tmp_path, "leaking"))
    assert leaking.judgement == "unusable"
    assert "hidden test" in leaking.reason


def log(*lines: str) -> Report:
    return Report("\n".join(lines).encode() + b"\n", 1 if any(line.startswith("FAILED") for line in lines) else 0)


async def test_lists_are_recorded_from_what_every_run_says(tmp_path: Path) -> None:
    unlisted = TestsPart((), (), "true", "pytest-log", "#!/bin/sh\n", files={"t.py": b"x"})
    source = Provenance(format="OpenSWE", instance_id="1", unmeasured=("tests", "lists"))
    task = write_task(tmp_path, "one", tests=unlisted, source=source)
    before = log("FAILED t.py::new - no", "PASSED t.py::old", "PASSED t.py::gone")
    unsteady = log("FAILED t.py::new - no", "PASSED t.py::old", "FAILED t.py::gone - no")
    after = log("PASSED t.py::new", "PASSED t.py::old", "FAILED t.py::gone - no")
    tests: dict[str, TestStatus] = {"t.py::new": "failed", "t.py::old": "passed"}
    solved: dict[str, TestStatus] = {"t.py::new": "passed", "t.py::old": "passed"}
    grader = Scripted(Graded(0, "completed", tests, 0.1, before), Graded(1, "completed", solved, 0.1, after))
    grader.first["empty"] = Graded(0, "completed", tests, 0.1, unsteady)

    (untold,) = await validate(grader, tmp_path, task)
    assert untold.judgement == "unusable"
    assert "lego-rl tasks validate --record" in untold.reason

    before_any = directory_digest(task)
    (found,) = await validate(grader, tmp_path, task, record=True)

    loaded = Task.load(task)
    assert isinstance(loaded.tests, TestSpec)
    assert (loaded.tests.fail_to_pass, loaded.tests.pass_to_pass) == (("t.py::new",), ("t.py::old",))
    assert loaded.source is not None
    assert loaded.source.unmeasured == ("tests",)
    assert (found.judgement, found.flaky) == ("valid", ("t.py::gone",))
    assert found.digest == directory_digest(task)
    known = Validations(tmp_path / "found.jsonl")
    assert indexed_contents([task, tmp_path / "gone"], known) == {task: before_any}
    (again,) = await validate(grader, tmp_path, task, times=4)
    assert again.judgement == "valid"
    assert indexed_contents([task], Validations(tmp_path / "found.jsonl")) == {task: before_any}
    (task / "instruction.md").write_text("Another.")
    assert indexed_contents([task], known) == {task: directory_digest(task)}


async def test_a_run_that_is_killed_while_lists_are_tried_leaves_an_index_that_is_known(tmp_path: Path) -> None:
    unlisted = TestsPart((), (), "true", "pytest-log", "#!/bin/sh\n", files={"t.py": b"x"})
    task = write_task(tmp_path, "one", tests=unlisted)
    before = directory_digest(task)
    found: list[dict[Path, str]] = []

    class Looked(Scripted):
        async def look(self, task: Task) -> None:
            shutil.copytree(tmp_path, tmp_path.with_name("killed"))
            killed = tmp_path.with_name("killed")
            found.append(indexed_contents([killed / "one"], Validations(killed / "found.jsonl")))

    gold = Graded(1, "completed", {"t.py::new": "passed"}, 0.1, log("PASSED t.py::new"))
    empty = Graded(0, "completed", {"t.py::new": "failed"}, 0.1, log("FAILED t.py::new - no"))
    await validate(Looked(empty, gold), tmp_path, task, record=True)
    assert found == [{tmp_path.with_name("killed") / "one": before}]


async def test_a_task_whose_lists_would_be_empty_is_left_as_it_is(tmp_path: Path) -> None:
    unlisted = TestsPart((), (), "true", "pytest-log", "#!/bin/sh\n", files={"t.py": b"x"})
    task = write_task(tmp_path, "one", tests=unlisted)
    same = Graded(0, "completed", {}, 0.1, log("PASSED t.py::old"))
    digest = directory_digest(task)
    (found,) = await validate(Scripted(same, same), tmp_path, task, record=True)
    assert (found.judgement, len(found.attempts)) == ("nothing_decides", 6)
    assert "no test fails without the solution" in found.reason
    assert directory_digest(task) == digest

    other = Scripted(same, same)
    (again,) = await validate(other, tmp_path, task, record=True)
    assert (again, other.graded) == (found, 0)


@pytest.mark.parametrize(
    ("empty", "gold", "judgement", "reason"),
    [
        (
            Graded(0, "timed_out", {}, 0.1, log("FAILED t.py::new - no")),
            None,
            "not_graded",
            "without a change: timed out",
        ),
        (None, Graded(0, "no_report", {}, 0.1, log("PASSED t.py::new")), "not_graded", "with its solution: no report"),
        (Graded(0, "completed", {}, 0.1, Report(b"")), None, "not_graded", "too long to be kept"),
        (
            None,
            Graded(0, "completed", {"t.py::new": "failed"}, 0.1, log("PASSED t.py::new")),
            "gold_fails",
            "t.py::new",
        ),
    ],
)
async def test_lists_are_kept_only_if_the_task_is_valid_with_them(
    empty: Graded | None, gold: Graded | None, judgement: Judgement, reason: str, tmp_path: Path
) -> None:
    unlisted = TestsPart((), (), "true", "pytest-log", "#!/bin/sh\n", files={"t.py": b"x"})
    source = Provenance(format="OpenSWE", instance_id="1", unmeasured=("tests", "lists"))
    task = write_task(tmp_path, "one", tests=unlisted, source=source)
    before = Graded(0, "completed", {"t.py::new": "failed"}, 0.1, log("FAILED t.py::new - no"))
    after = Graded(1, "completed", {"t.py::new": "passed"}, 0.1, log("PASSED t.py::new"))
    digest = directory_digest(task)
    (found,) = await validate(Scripted(empty or before, gold or after), tmp_path, task, record=True)
    assert found.judgement == judgement
    assert reason in found.reason
    assert (directory_digest(task), found.digest) == (digest, digest)

    if judgement == "gold_fails":  # it was graded with lists, and is known
        return
    good = Scripted(before, after)
    (found,) = await validate(good, tmp_path, task, times=4, record=True)
    assert (found.judgement, good.graded) == ("valid", 16)


async def test_lists_of_a_run_that_was_killed_are_found_out_again(tmp_path: Path) -> None:
    half = TestsPart(("t.py::old",), (), "true", "pytest-log", "#!/bin/sh\n", files={"t.py": b"x"})
    source = Provenance(format="OpenSWE", instance_id="1", unmeasured=("lists",))
    task = write_task(tmp_path, "one", tests=half, source=source)
    before = Graded(0, "completed", {"t.py::new": "failed"}, 0.1, log("FAILED t.py::new - no"))
    after = Graded(1, "completed", {"t.py::new": "passed"}, 0.1, log("PASSED t.py::new"))
    (untold,) = await validate(Scripted(), tmp_path, task)
    assert (untold.judgement, "is not known yet" in untold.reason) == ("unusable", True)
    (found,) = await validate(Scripted(before, after), tmp_path, task, record=True)
    loaded = Task.load(task)
    assert isinstance(loaded.tests, TestSpec)
    assert (found.judgement, loaded.tests.fail_to_pass) == ("valid", ("t.py::new",))


async def test_a_report_that_lists_no_tests_is_said_before_any_test_is_run(tmp_path: Path) -> None:
    unlisted = TestsPart((), (), "true", "pytest-junit", "#!/bin/sh\n", files={"t.py": b"x"})
    grader = Scripted()
    (found,) = await validate(grader, tmp_path, write_task(tmp_path, "one", tests=unlisted), record=True)
    assert (found.judgement, grader.graded) == ("unusable", 0)
    assert "finds only tests that it is asked for" in found.reason


async def test_what_is_missing_here_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = TestsPart(("t::new",), (), "true", "swebench:parse_log_pytest", "#!/bin/sh\n", files={"t": b"x"})
    task, grader = (
        write_task(tmp_path, "one", tests=parsed),
        Scripted(graded({"t::new": "failed"}), graded({"t::new": "passed"})),
    )
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "swebench" else there(name))
    for record in (False, True):
        (found,) = await validate(grader, tmp_path, task, record=record)
        assert (found.judgement, grader.looked, grader.graded) == ("fault", 0, 0)
    assert index_row(task, "made").instance_id == "one"  # it can be listed, filtered and compared all the same
    assert "pip install 'lego-rl[swebench]'" in found.reason
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if name == "swebench" else there(name))
    (found,) = await validate(grader, tmp_path, task)
    assert found.judgement == "valid"


async def test_what_was_found_in_other_sandboxes_is_found_out_again(tmp_path: Path) -> None:
    task = write_task(tmp_path, "one")
    (found,) = await validate(Scripted(gold=EMPTY), tmp_path, task)
    assert found.judgement == "gold_fails"
    others = Scripted()
    others.sandboxes = "with an image"
    (found,) = await validate(others, tmp_path, task)
    assert (found.judgement, found.sandboxes) == ("valid", "with an image")


def test_sandboxes_have_a_name_of_their_settings() -> None:
    def named(**settings: object) -> str:
        chosen = SandboxSettings.model_validate(settings)
        return SandboxedGrader(provider_of(chosen), chosen).sandboxes

    same = {named(), named(), named(state="/elsewhere")}
    assert len(same) == 1
    assert len(same | {named(rootfs="/images/one"), named(grading_sec=5), named(environment="docker")}) == 4
