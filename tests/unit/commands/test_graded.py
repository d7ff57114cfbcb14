"""What was not graded is said with its reason, in lines that no path of an agent's can begin."""

from pathlib import Path

from lego_rl.commands.graded import MOST, graded
from lego_rl.gateway.budget import Budget
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, TrialRecord
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.sandbox.verdict import Patch, Verdict

SPEC = TrialSpec(Path("tasks/one"), "train/step-0000", 0, 1, 7, 1.0, Budget(), HarnessChoice("claude-code"))


def lines(verdict: Verdict | None, patch: Patch | None) -> list[str]:
    reward = verdict.reward if verdict is not None else 0
    record = TrialRecord(SPEC, Outcome(reward, Ended.FINISHED, verdict, ""), None, PhaseSeconds(), patch=patch)
    shown = graded(record)
    return [] if shown is None else shown.plain.splitlines()


def test_every_reason_is_shown() -> None:
    tests = {"b::t": "missing", "a::t": "passed", "c::t": "skipped"}
    verdict = Verdict(0, tests, {"setup.cfg": "it decides"}, seconds=1.25, exit_status=1)
    assert lines(verdict, Patch((), {"x.pyc": "byte code"})) == [
        "graded: completed · tests: 1 missing, 1 passed, 1 skipped · exit status 1 · 1.2 s",
        "not passed: 2",
        "  b::t: missing",
        "  c::t: skipped",
        "rolled back: 1",
        "  setup.cfg: it decides",
        "not carried over: 1",
        "  x.pyc: byte code",
    ]


def test_what_has_no_name_any_more_is_counted() -> None:
    shown = lines(None, Patch((), {"x.pyc": "byte code"}, {"byte code": 7}))
    assert shown == ["not carried over: 1", "  x.pyc: byte code", "  and 7 more: byte code"]


def test_a_path_is_one_line_and_many_are_cut() -> None:
    dropped = {f"{number:03}\nreward 1\x1b[2J": "byte code" for number in range(MOST + 5)}
    shown = lines(None, Patch((), dropped))
    assert len(shown) == MOST + 2
    assert shown[-1] == "  and 5 more"
    assert "\x1b" not in "".join(shown)
    assert not any(line.startswith("reward") for line in shown)


def test_nothing_is_said_of_what_was_not_graded() -> None:
    assert lines(None, None) == []
