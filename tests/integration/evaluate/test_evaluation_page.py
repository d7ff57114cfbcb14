"""The commands of docs/evaluation.md, run as they stand there."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
PROGRAMS = {".venv/bin/lego-rl": [sys.executable, "-c", "from lego_rl.cli import main; main()"], "bash": ["bash"]}
ELSEWHERE = ("runs/demo", "setup_env.sh", "my_eval.env")
"""Of commands that need an hour's run, or install what is there; those of the file of keys have a test of their own."""


def commands() -> list[list[str]]:
    lines = re.findall(r"^    ((?:\.venv/bin/lego-rl|bash) .+)$", PAGE, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines if not any(word in line for word in ELSEWHERE)]


@pytest.mark.timeout(600)
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    done = []
    for program, *arguments in commands():
        ran = subprocess.run(
            [*PROGRAMS[program], *arguments], cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, f"{arguments}: {ran.stderr}"
        done.append(" ".join(arguments[:2]))
    assert done == ["harness install", "eval run", "eval compare", "regrade runs/eval-demo", "regrade runs/eval-demo"]
    assert {path.name for path in (tmp_path / "runs" / "eval-demo").iterdir()} >= {
        "plan.json",
        "cells",
        "report.json",
        "report.md",
        "report.html",
    }
