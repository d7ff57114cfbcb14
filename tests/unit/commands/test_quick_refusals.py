"""What a command refuses, and what it says of itself, needs no torch: it takes a moment, not half a minute."""

import subprocess
import sys
from pathlib import Path

import pytest

RECIPE = str(Path(__file__).parents[3] / "recipes" / "demo-claude-code.toml")
PROGRAM = """
import sys
from lego_rl.cli import main
sys.argv = ["lego-rl", *{arguments}]
try:
    main()
except SystemExit as ended:
    code = ended.code or 0
else:
    code = 0
heavy = sorted({{"torch", "transformers"}} & sys.modules.keys())
print("heavy:", heavy)
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--help"], 0, "selfcheck"),
        (["train", "--help"], 0, "again for several"),
        (["check", "sandbox", "--help"], 0, "section sandbox"),
        (["selfcheck", "sandbox", "--help"], 0, "section sandbox"),
        (["train"], 2, "--resume RUN"),
        (["train", RECIPE, "--resume", "x"], 2, "its directory"),
        (["train", "no-such.toml"], 1, "there is no recipe"),
        (["train", RECIPE, "--set", "run.stepz=1"], 1, "did you mean run.steps?"),
        (["train", RECIPE, "--set", "harness.name=nope"], 1, "there is no harness"),
        (["train", RECIPE, "--set", "tasks.pool=/nowhere", "--set", "sandbox.state={state}"], 1, "no task pool"),
        (["train", RECIPE, "--dry-run"], 0, "[run]"),
        (["train", "--resume", "no-such-run"], 1, "holds no run"),
        (["check", "recipe", RECIPE, "--set", "tasks.pool=/nowhere", "--set", "sandbox.state={state}"], 1, "no task"),
        (["sft", RECIPE], 1, "is a recipe of lego-rl train"),
        (["sft", "no-such.toml"], 1, "there is no recipe"),
        (["bench", "capture", "--dialect", "smoke"], 1, "does not speak smoke"),
        (["bench", "loop", "--recipe", "no-such.toml"], 1, "there is no recipe"),
        (["check", "sandbox", "--set", "processes=64"], 1, "such as sandbox.processes"),
        (["check", "sandbox", "--set", "train.x=1"], 1, "nothing from train"),
        (["selfcheck", "sandbox", "--set", "sandbox.nope=1"], 1, "unknown key sandbox.nope"),
        (["inspect", "no-such-trial"], 1, "there is no "),
    ],
    ids=lambda value: " ".join(value[:3]).replace(RECIPE, "recipe") if isinstance(value, list) else "",
)
def test_no_heavy_library_is_imported(arguments: list[str], code: int, said: str, tmp_path: Path) -> None:
    filled = [argument.replace("{state}", str(tmp_path)) for argument in arguments]
    command = [sys.executable, "-c", PROGRAM.format(arguments=filled)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert done.stdout.endswith("heavy: []\n")
