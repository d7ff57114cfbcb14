"""Of the processes that see a dead owner's folder only those die in whose sandbox it is.

Everything happens in a mount namespace of its own: what is wrongly killed there is part of this test.
"""

import subprocess
import sys
from pathlib import Path

from lego_rl.sandbox.state import State

ENDED = """
import subprocess, sys, time
from lego_rl.sandbox.lingering import end_users
name, bind, report, place = sys.argv[1:]
inside = subprocess.Popen(["unshare", "-m", "sh", "-c", f"mount --bind {report} {place} && echo in && exec sleep 60"],
                          stdout=subprocess.PIPE)
inside.stdout.readline()
# What a daemon mounts for a container lies in the namespace that it shares with everybody.
subprocess.run(["mount", "-t", "overlay", "overlay", "-o", bind, place], check=True)
beside = subprocess.Popen(["sleep", "60"])
end_users([name])
print(inside.wait(10), beside.poll())
beside.kill()
"""


def test_a_daemons_mount_of_a_work_tree_ends_nobody(tmp_path: Path) -> None:
    run = State(tmp_path / "state").new_run()
    lower, place = tmp_path / "lower", tmp_path / "place"
    lower.mkdir()
    place.mkdir()
    options = f"userxattr,lowerdir={lower},upperdir={run.upper},workdir={run.work}"
    argv = [sys.executable, "-c", ENDED, run.path.name, options, str(run.report), str(place)]
    done = subprocess.run(["unshare", "-Urm", *argv], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "-9 None"), done.stderr


HERE = """
import subprocess, sys
from lego_rl.sandbox.lingering import end_users
name, report, place = sys.argv[1:]
subprocess.run(["mount", "--bind", report, place], check=True)
beside = subprocess.Popen(["sleep", "60"])
end_users([name])
print(beside.poll())
beside.kill()
"""


def test_whoever_reaps_and_all_that_see_the_same_mounts_live_on(tmp_path: Path) -> None:
    run = State(tmp_path / "state").new_run()
    place = tmp_path / "place"
    place.mkdir()
    argv = [sys.executable, "-c", HERE, run.path.name, str(run.report), str(place)]
    done = subprocess.run(["unshare", "-Urm", *argv], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "None"), done.stderr
