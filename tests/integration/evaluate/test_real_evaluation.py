"""An evaluation in real sandboxes and harnesses, killed half-way and gone on with, and graded again."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from lego_rl.rollout.journal import read_journal
from lego_rl.rollout.settled import SCORED

pytestmark = pytest.mark.timeout(300)
LEGO = [sys.executable, "-c", "from lego_rl.cli import main; main()"]
CONFIG = """
[evaluation]
dir = "{folder}/out"
attempts = 2
[protocol]
name = "demo"
[tasks]
split = "heldout"
count = 3
[[models]]
name = "demo"
path = "builtin:demo"
[[harnesses]]
name = "claude-code"
options = {{ bare = true }}
[[harnesses]]
name = "claude-code"
options = {{ bare = true }}
review = 1
"""
TRIALS = 6


def lego(*arguments: object, code: int = 0) -> str:
    done = subprocess.run([*LEGO, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def scored(out: Path) -> Counter[str]:
    """How often each trial of each cell was scored."""
    journals = out.glob("cells/*/*/journal")
    return Counter(f"{path.parent} {e.data['id']}" for path in journals for e in read_journal(path) if e.kind == SCORED)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an evaluation that was killed after its third trial, and then finished."""
    folder = tmp_path_factory.mktemp("evaluation")
    (folder / "evaluation.toml").write_text(CONFIG.format(folder=folder))
    process = subprocess.Popen([*LEGO, "eval", "run", str(folder / "evaluation.toml")], start_new_session=True)
    until = time.monotonic() + 120
    while time.monotonic() < until and sum(scored(folder / "out").values()) < 3:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert 3 <= sum(scored(folder / "out").values()) < 2 * TRIALS
    assert "not_run" in lego("eval", "report", folder / "out")
    lego("eval", "run", folder / "evaluation.toml")
    return folder


def test_no_trial_is_there_twice_and_none_is_missing(evaluated: Path) -> None:
    assert set(scored(evaluated / "out").values()) == {1}
    report = json.loads((evaluated / "out" / "report.json").read_text())
    cells = {cell["harness"]: cell for cell in report["cells"]}
    assert set(cells) == {"claude-code", "claude-code_review1", "claude-code_review1_draft"}
    assert all((cell["scored"], cell["launched"]) == (TRIALS, TRIALS) for cell in cells.values())


def test_a_review_costs_what_its_sessions_took(evaluated: Path) -> None:
    report = json.loads((evaluated / "out" / "report.json").read_text())
    cells = {cell["harness"]: cell for cell in report["cells"]}
    final, draft = cells["claude-code_review1"], cells["claude-code_review1_draft"]
    assert final["turns"] > draft["turns"]
    assert final["sampled"] > draft["sampled"]
    standing = json.loads(next((evaluated / "out").glob("cells/*review1/*/reviews.json")).read_text())
    assert len(standing) == TRIALS
    assert {word for each in standing for word in each["decisions"]} <= {"accepted", "sent_back", "undecided"}


@pytest.mark.parametrize(("source", "name"), [("patch", "regraded.json"), ("report", "regraded-from-report.json")])
def test_every_verdict_is_the_same_once_more(source: str, name: str, evaluated: Path) -> None:
    lego("regrade", evaluated / "out", "--from", source)
    found = list((evaluated / "out").glob(f"cells/*/*/{name}"))
    assert len(found) == 2
    for path in found:
        delta = json.loads(path.read_text())["delta"]
        assert delta["trials"] == delta["agree"] > 0
        assert (delta["false_zeros"], delta["false_ones"], delta["undecided"]) == ([], [], [])


def test_a_verdict_that_is_not_what_it_was_is_named(evaluated: Path) -> None:
    """A reward that the trial's report does not give, as an unlucky machine would have left it; a zero, if one is."""
    cell = next((evaluated / "out").glob("cells/demo--claude-code/*"))
    trials = {path.parent.name: json.loads(path.read_text()) for path in cell.glob("trials/*/outcome.json")}
    name, outcome = max(trials.items(), key=lambda each: each[1]["outcome"]["reward"])
    earned = outcome["outcome"]["reward"]
    outcome["outcome"]["reward"] = 1 - earned
    path = cell / "trials" / name / "outcome.json"
    kept = path.read_text()
    path.write_text(json.dumps(outcome))
    try:
        said = lego("regrade", evaluated / "out", "--from", "report", code=1)
    finally:
        path.write_text(kept)
    assert f"{name}: a false {'zero' if earned else 'one'}: it earns {earned} now" in said
    assert re.search(r"1 of \d+ verdicts are not what they were", said)
