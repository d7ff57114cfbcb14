"""``lego-rl bench analyse`` at a small size: every command that it measures runs."""

import json
import subprocess
import sys
from pathlib import Path


def test_the_command_prints_what_it_measured(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from lego_rl.cli import main; main()", "bench", "analyse"]
    options = ["--trials", "16", "--turns", "20", "--folder", str(tmp_path / "made")]
    done = subprocess.run([*program, *options], check=True, capture_output=True, text=True)
    printed = json.loads(done.stdout)
    assert printed["seconds"].keys() == printed["peak_mb"].keys() == {"report", "compare", "analyse"}
    assert all(printed["peak_mb"].values())
    assert (tmp_path / "made" / "report.json").is_file()
