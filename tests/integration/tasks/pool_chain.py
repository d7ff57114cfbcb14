"""The commands of a pool as a user gives them, and what they left behind."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from lego_rl.commands.run_outcomes import read_outcomes
from lego_rl.tasks.index.file import Index
from tests.small_recipe import RECIPE

VERIFIED = "swe-bench-verified"


class Chain:
    """Runs commands in a folder of their own.

    Args:
        folder: Theirs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._state = f"sandbox.state={folder / 'state'}"
        (folder / "recipe.toml").write_text(RECIPE.format(state=folder / "state"))

    def lego(self, *arguments: str | Path, code: int = 0) -> str:
        """What a command printed; its exit status has to be `code`."""
        command = [sys.executable, "-c", "from lego_rl.cli import main; main()", *map(str, arguments)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def make(self, *source: Path, inject: int, mine: int, repo: str | None = None) -> str:
        """Tasks of a source, in ``pool``, and what the command printed."""
        counts = ("--inject", str(inject), "--mine", str(mine))
        named = ("--repo", repo) if repo is not None else ()
        return self.lego("tasks", "make", *source, "--out", "pool", *counts, *named, "--set", self._state)

    def validated(self, times: int) -> dict[str, Counter[int]]:
        """Index the pool, validate it, and return the rewards of either change: variant → reward → gradings."""
        self.lego("tasks", "index", "pool", "--out", "all.parquet", "--strict")
        self.lego(
            "tasks", "validate", "all.parquet", "--times", str(times), "--out", "valid.parquet", "--set", self._state
        )
        lines = [json.loads(line) for line in (self.folder / "validation.jsonl").read_text().splitlines()]
        rewards: dict[str, Counter[int]] = {"empty": Counter(), "gold": Counter()}
        for attempt in (attempt for line in lines for attempt in line["attempts"]):
            rewards[attempt["variant"]][attempt["reward"]] += 1
        return rewards

    def rolled_out(self, trials: int) -> Counter[int | None]:
        """Let the shipped policy try what is valid, and return its rewards."""
        self.lego("rollout", "recipe.toml", "valid.parquet", "--out", "run", "-n", str(trials))
        found = read_outcomes([self.folder / "run"]).table
        assert found.equals(read_outcomes([self.folder / "run" / "outcomes.parquet"]).table)
        assert set(found["task"].to_pylist()) == set(self.index("valid").ids)
        return Counter(found["reward"].to_pylist())

    def filtered(self, solved: str, of: int) -> Index:
        """What of it is in a band, compared with SWE-bench Verified."""
        band = ("--solved", solved, "--of", str(of), "--out", "band.parquet")
        self.lego("tasks", "filter", "valid.parquet", "--outcomes", "run", *band)
        self.lego("tasks", "decontaminate", "band.parquet", "--against", VERIFIED, "--out", "train.parquet", "--check")
        assert self.index("train").ids == self.index("band").ids
        return self.index("train")

    def index(self, name: str) -> Index:
        """An index of the folder."""
        return Index.read(self.folder / f"{name}.parquet")
