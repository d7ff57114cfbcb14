"""Faults that look alike from inside, or from the other side: whoever did it decides the row."""

import errno

from fault_injections import (
    LARGE,
    TIME_UP,
    failing,
    kill_bwrap,
    kill_first,
    kill_grader,
    lose_before_it_is_read,
    short_of,
    with_engine,
)
from faulty_engines import Loaded
from faulty_trials import Injection
from hostile_commands import FLOOD, SMALL_HOG, appending
from rollout_kit import FIX, bash

from lego_rl.rollout.faults import Ended

GONE = FileNotFoundError(errno.ENOENT, "bwrap")
FULL = OSError(errno.ENOSPC, "No space left on device")

TWINS: dict[str, tuple[Ended, Injection]] = {
    "bubblewrap is killed by the host": (
        Ended.SANDBOX_KILLED,
        Injection([FIX, bash("sleep 20"), "never asked for"], host=kill_bwrap),
    ),
    "the grading sandbox is killed by the host": (
        Ended.SANDBOX_KILLED,
        Injection([FIX, appending('__import__("time").sleep(20)'), "Mended."], host=kill_grader),
    ),
    "what runs the sandbox is gone when its files are read": (
        Ended.RUNTIME_LOST,
        Injection(host=lose_before_it_is_read),
    ),
    "the grading sandbox starts at the third try": (Ended.FINISHED, Injection(reward=1, host=failing(2, GONE))),
    "the grading sandbox does not start": (Ended.GRADING_START, Injection(host=failing(99, GONE))),
    "the grading sandbox starts late, when others have left it room": (
        Ended.FINISHED,
        Injection(reward=1, host=failing(4, FULL)),
    ),
    "others leave the grading sandbox no room": (Ended.VERIFIER_CRASHED, Injection(reward=0, host=failing(99, FULL))),
    "others fill the disk, and the host would be full without them": (
        Ended.HOST_DISK_FULL,
        Injection(runtime=short_of(disk_bytes=LARGE), host=failing(99, FULL)),
    ),
    "the agent kills its process group": (
        Ended.HARNESS_KILLED,
        Injection([FIX, bash("kill -9 0"), "never asked for"], 1),
    ),
    "the agent floods the gateway and hangs up": (Ended.FINISHED, Injection([FIX, bash(FLOOD), "Mended."], 1)),
    "all sessions together ask for so much that the time is up": (
        Ended.WALL_CLOCK_BUDGET,
        Injection(reward=1, spec=TIME_UP, runtime=with_engine(lambda engine: Loaded(engine, 1), step_sec=0.2)),
    ),
    "the agent fills its disk on a host with room": (
        Ended.OUT_OF_DISK,
        Injection([FIX, bash("head -c 60M /dev/zero > a; cp a b; cp a c; sleep 20"), "Full."], 1, runtime=short_of()),
    ),
    "the agent kills its sandbox for memory, then the host does": (
        Ended.OUT_OF_MEMORY,
        Injection([FIX, bash(SMALL_HOG), bash("sleep 20"), "never asked for"], 1, host=kill_first, turn=2),
    ),
}
"""Pairs of the above that look alike from the other side."""
