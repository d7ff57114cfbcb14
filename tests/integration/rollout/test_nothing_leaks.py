"""What one trial leaves behind is in no later one of the same task: what decides a set-up, a seal or a first request is
the task's and the host's alone."""

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from faulty_trials import Injection, faulty_trials
from rollout_kit import FIX, bash

from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.runner import run_trials

MARK = """
import ctypes, os, pathlib, subprocess
def find(*wanted):
    return subprocess.run(["find", "/", *wanted, "-not", "-path", "/proc/*"], capture_output=True, text=True).stdout
found = find("-name", "*leaked*")
libc = ctypes.CDLL(None)
shared = libc.shmget(0x1e60, 4096, 0o666)
report = found + ("shared memory\\n" if shared != -1 else "")
libc.shmget(0x1e60, 4096, 0o1666)
writable = find("-type", "d", "-writable").splitlines()
for folder in writable:
    for name in ("leaked", "conftest_leaked.py", ".leaked"):
        try:
            pathlib.Path(folder, name).write_text("raise SystemExit(1)")
        except OSError:
            pass
home = pathlib.Path.home()
for name in (".bashrc", ".profile", ".gitconfig", ".config/pip/pip.conf", ".claude/settings.json", ".npmrc"):
    try:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("exit 1 # leaked")
    except OSError:
        pass
pathlib.Path("/app/found.txt").write_text(report + "folders: " + str(len(writable) > 3))
"""


def content_of(tree: Path) -> str:
    """A digest of every file below a folder."""
    digest = hashlib.sha256()
    for path in sorted(tree.rglob("*")):
        digest.update(f"{path.relative_to(tree)}\0{path.lstat().st_mode}\0".encode())
        if path.is_file() and not path.is_symlink():
            digest.update(path.read_bytes())
    return digest.hexdigest()


async def test_a_trial_that_writes_everywhere_is_in_no_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = "the marker"
    marks = bash(f"cat > /tmp/mark.py <<'END'\n{MARK}\nEND\npython3 /tmp/mark.py")
    trials = faulty_trials(
        tmp_path, {part: Injection([FIX, marks, "Done."], spec={"output_tokens": 3000})}, monkeypatch
    )
    state = tmp_path / "state"
    specs = [replace(trials.specs[part], attempt=attempt, attempts=3) for attempt in range(3)]

    async def batch(attempts: slice) -> list[TrialRecord]:
        with Journal(trials.base.directory.journal) as journal:
            return await run_trials(specs[attempts], trials, journal, concurrency=2, retries=0)

    (first,) = await batch(slice(0, 1))
    caches = [path for path in state.iterdir() if path.name != "runs"]
    before = [await asyncio.to_thread(content_of, path) for path in caches]
    assert caches
    for record in [first, *await batch(slice(1, 3))]:
        assert (record.outcome.ended, record.outcome.reward) == (Ended.FINISHED, 1), record.outcome.detail
        assert record.patch is not None
        written = {change.path: change.content for change in record.patch.changes}
        assert written["found.txt"] == b"folders: True", written["found.txt"].decode()
    assert [await asyncio.to_thread(content_of, path) for path in caches] == before
