"""Takes one step of a verl engine, and exports what it leaves behind."""

import os
import subprocess
import sys
from pathlib import Path

from tests.integration.cluster.verl_process import PYTHON, environment

_PROGRAM = Path(__file__).with_name("engine_step.py")
_SECONDS = 900.0


def take_step(backend: str, policy: Path, segments: Path, folder: Path, *, world: int) -> None:
    """One GSPO step on captured segments: ``values.npz`` and the checkpoint of step 1.

    Args:
        backend: ``fsdp2`` or ``veomni``.
        policy: What is trained.
        segments: As `captured.write_segments` writes them.
        folder: For what is left behind.
        world: Ranks, each a process that talks to the others by gloo.
    """
    ranks = []
    for rank in range(world):
        own = {"RANK": str(rank), "WORLD_SIZE": str(world), "STORE": str(folder / "store")}
        with (folder / f"rank-{rank}.log").open("wb") as log:
            command = [PYTHON, _PROGRAM, backend, policy, segments, folder]
            environ = environment(own)
            ranks.append(subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=subprocess.STDOUT))
    try:
        ended = [rank.wait(timeout=_SECONDS) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    log_text = (folder / "rank-0.log").read_text(errors="replace")
    assert ended == [0] * world, f"verl's side failed (if packages are missing: make setup-verl)\n{log_text}"


def export(folder: Path, base: Path, out: Path) -> str:
    """``lego-rl export`` of the checkpoint that `take_step` left; what it printed."""
    checkpoint = folder / "run" / "checkpoints" / "global_step_1"
    lego_rl = [sys.executable, "-c", "from lego_rl.cli import main; main()", "export", checkpoint]
    done = subprocess.run(
        [*lego_rl, "--out", out, "--base", base], env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
