"""The task of docs/tasks.md is trained on by its recipe, as both stand on the page."""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "sandbox"))

from test_documented_task import PAGE, documented_task

OWN = PAGE[PAGE.index("## Your own tasks") :]
REST = """
[run]
dir = "run"
steps = 1

[policy]
path = "builtin:demo"

[harness]
name = "claude-code"
options = { bare = true }

[budget]
turns = 2
context_tokens = 4096
output_tokens = 96

[sandbox]
state = "state"
"""


def test_a_step_is_trained_on_it(tmp_path: Path) -> None:
    documented_task(tmp_path)
    (recipe,) = re.findall(r"(?:^    .*\n|^\n)+", OWN[OWN.index("    [tasks]\n") :], flags=re.MULTILINE)[:1]
    part = textwrap.dedent(recipe).replace("[rollout]\n", "[rollout]\ngroup_size = 4\n")
    (tmp_path / "mine.toml").write_text(part + REST)
    command = [sys.executable, "-c", "from lego_rl.cli import main; main()", "train", "mine.toml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = [json.loads(path.read_text()) for path in (tmp_path / "run" / "trials").glob("*/outcome.json")]
    assert len(outcomes) == 4
    assert {outcome["outcome"]["reward"] for outcome in outcomes} <= {0, 1}, "each was graded"
    (line,) = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["step"] == 0
