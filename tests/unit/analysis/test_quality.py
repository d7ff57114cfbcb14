import json
from pathlib import Path
from typing import Any

import pytest
from recorded import record, write_run
from stories import STORIES, conversation
from typer.testing import CliRunner

from lego_rl.analysis.quality import QualitySettings, figures_of_record, judge_by
from lego_rl.analysis.read import figures_at, trial_places
from lego_rl.cli import app
from lego_rl.errors import ConfigError
from lego_rl.rollout.labels import AFTER, ROLLOUT
from lego_rl.rollout.selection import select

READ = ("Read", {"file_path": "/app/a.py"}, "1\tx = 1")
EDIT = ("Edit", {"file_path": "/app/a.py", "old_string": "1", "new_string": "2"}, "The file was edited.")
TEST = ("Bash", {"command": "pytest -q"}, "1 passed")
GOOD = [READ, EDIT, TEST]


@pytest.mark.parametrize(
    ("told", "rule", "settings"),
    [
        (GOOD, None, {}),
        ([*GOOD, *[TEST] * 2], "loops", {}),
        ([*GOOD, *[TEST] * 2], None, {"max_repeats": 3}),
        ([*GOOD, ("Edit", {}, "<tool_use_error>x</tool_use_error>")], "malformed", {}),
        ([*GOOD, ("Edit", {}, "<tool_use_error>x</tool_use_error>")], None, {"well_formed": False}),
        ([READ, EDIT], "tests_not_run", {"min_test_runs": 1}),
        (GOOD, "too_many_tokens", {"max_tokens": 299}),
        (GOOD, None, {"max_tokens": 300}),
        ([EDIT, TEST], "too_little_read", {"min_inspected": 1}),
        ([*GOOD, ("Write", {"file_path": "/app/tests/test_a.py", "content": ""}, "File created")], None, {}),
        (
            [*GOOD, ("Write", {"file_path": "/app/tests/test_a.py", "content": ""}, "File created")],
            "edits_tests",
            {"max_test_edits": 0},
        ),
    ],
)
def test_each_rule_leaves_out_its_own(told: Any, rule: str | None, settings: dict[str, Any]) -> None:
    one = record(ROLLOUT, "one", 0, 1, conversation(told))
    wanted = QualitySettings(**settings)
    found = select([one], wanted, judge_by(wanted))
    assert (len(found.chosen), dict(found.left_out)) == ((1, {}) if rule is None else (0, {rule: 1}))


def test_a_test_file_that_only_the_patch_names_is_edited_too() -> None:
    one = record(ROLLOUT, "one", 0, 1, conversation(GOOD), changed=["conftest.py"])
    assert judge_by(QualitySettings(max_test_edits=0))(one) == "edits_tests"


def test_what_is_read_whole_has_the_figures_of_what_is_read_from_the_disk(tmp_path: Path) -> None:
    records = [record(ROLLOUT, name, 0, 1, conversation(told()), harness=name) for name, told in STORIES.items()]
    places = trial_places(write_run(tmp_path / "run", records))
    assert [figures_at(place) for place in places] == sorted(map(figures_of_record, records), key=lambda f: f.trial.id)


def test_the_command_leaves_out_loops_and_evaluations(tmp_path: Path) -> None:
    looping = conversation([*GOOD, *[TEST] * 2])
    run = write_run(
        tmp_path / "run",
        [
            record(ROLLOUT, "good", 0, 1, conversation(GOOD), changed=["a.py"]),
            record(ROLLOUT, "loops", 0, 1, looping, changed=["b.py"]),
            record(ROLLOUT, "fails", 0, 0, conversation(GOOD)),
            record(AFTER, "good", 0, 1, conversation(GOOD)),
        ],
    )
    out = tmp_path / "chat.jsonl"
    arguments = ["export-sft", str(run), "--out", str(out), "--format", "chat"]
    shown = CliRunner().invoke(app, arguments, catch_exceptions=False).stdout
    assert [line.split()[0] for line in shown.splitlines() if "left out" in line] == ["1"] * 3
    (chat,) = map(json.loads, out.read_text().splitlines())
    assert [message["role"] for message in chat["messages"]][:3] == ["system", "user", "assistant"]
    with pytest.raises(ConfigError, match="max_repeat"):
        CliRunner().invoke(app, ["export-sft", str(run), "--out", "x", "--set", "max_repeat=3"], catch_exceptions=False)
