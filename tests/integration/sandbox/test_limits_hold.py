"""Limits, kills and clean-up, on real sandboxes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sandbox_tools import processes_named, python, shell

from lego_rl.errors import SandboxError
from lego_rl.sandbox.bubblewrap.image import BubblewrapImage
from lego_rl.sandbox.cgroups import Cgroups
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.provider import Provider, TaskImage
from lego_rl.sandbox.sandbox import Phase, Sandbox
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import State

LEFT_BEHIND = "(setsid setsid sleep {seconds} </dev/null >/dev/null 2>&1 &); (sleep {seconds} &) ; true"


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


def groups_of(box: Sandbox) -> list[str]:
    """The control groups that the sandbox's run folder answers for; Docker's own are the daemon's."""
    listing = box.run_folder.cgroups
    return listing.read_text().split() if listing.exists() else []


def still_there(paths: list[str]) -> list[str]:
    return [path for path in paths if Path(path).exists()]


async def test_memory_of_one_process(box: Sandbox) -> None:
    done = await python(box, "x = bytearray(1 << 30); x[::4096] = b'1' * len(x[::4096]); print('got it')")
    assert "got it" not in done.stdout
    assert done.returncode != 0
    if box.limit_report.memory != "rlimit":
        assert box.limit_hits().memory >= 1
    assert (await python(box, "x = bytearray(64 << 20); print('fine')")).stdout == "fine\n"


async def test_memory_of_many_processes(image: TaskImage) -> None:
    box = await image.start(Phase.AGENT, limits=Limits(memory_mb=128))
    code = """
        import mmap, os, time
        for _ in range(4):
            if os.fork() == 0:
                m = mmap.mmap(-1, 64 << 20)
                m.write(b"1" * (64 << 20))
                time.sleep(20)
                os._exit(0)
        while True:
            os.wait()
    """
    try:
        await python(box, textwrap.dedent(code), timeout_sec=15)
        assert box.limit_hits().memory >= 1
    finally:
        await box.close()


async def test_number_of_processes(box: Sandbox) -> None:
    code = """
        import os, time
        count = 0
        try:
            while count < 500:
                if os.fork() == 0:
                    time.sleep(30)
                    os._exit(0)
                count += 1
        except BlockingIOError:
            pass
        print(count)
    """
    done = await python(box, textwrap.dedent(code), timeout_sec=20)
    assert 10 < int(done.stdout) < 64
    await box.kill_processes()
    assert (await shell(box, "echo alive")).stdout == "alive\n"


async def test_disk(box: Sandbox) -> None:
    done = await shell(
        box, "for i in $(seq 1000); do head -c 1000000 /dev/zero > /app/f$i; sleep 0.005; done", timeout_sec=60
    )
    assert done.died
    assert box.limit_hits().disk
    large = box.run_folder.upper
    assert sum(path.stat().st_size for path in large.iterdir() if path.is_file()) < 500 << 20


HOLD_DESCRIPTORS = """
import os, time
held = os.open("/dev/null", os.O_RDONLY)
count = 1
try:
    while count < 10000:
        os.dup(held)
        count += 1
except OSError:
    print(count + 3, flush=True)
for _ in range(40):
    if os.fork() == 0:
        os.closerange(0, 3)
        time.sleep(60)
"""


async def test_descriptors_do_not_blind_the_host(box: Sandbox) -> None:
    done = await python(box, HOLD_DESCRIPTORS)
    assert 64 <= int(done.stdout) <= 4096
    done = await shell(box, "for i in $(seq 200); do head -c 1000000 /dev/zero > f$i; done; sleep 30", timeout_sec=20)
    assert done.died
    assert box.limit_hits().disk


MAP_UNLINKED = """
import mmap, os, time
held = []
for name in "fg":
    with open(name, "w+b") as file:
        file.write(bytes(40000000))
        file.flush()
        held.append(mmap.mmap(file.fileno(), 4096))
    os.unlink(name)
time.sleep(30)
"""
UNSEEN = """
import ctypes, os, time
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
held = []
for _ in range(4):
    held.append(open("/app/f", "wb"))
    os.unlink("/app/f")
    held[-1].write(bytes(40 << 20))
    held[-1].flush()
time.sleep(30)
"""


async def test_nobody_fills_the_disk_unseen(box: Sandbox) -> None:
    done = await python(box, UNSEEN, timeout_sec=20)
    assert done.died
    hits = box.limit_hits()
    assert hits.disk or hits.unmeasured  # an ordinary user is not shown what the process holds


async def test_who_is_not_seen_and_fills_nothing_lives_on(box: Sandbox) -> None:
    done = await python(box, "import ctypes, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); time.sleep(3); print('on')")
    assert done.stdout == "on\n"


BLINKING = """
import os
os.chdir("/app")
for _ in range(15):
    os.mkdir("d" * 240)
    os.chdir("d" * 240)
for number in range(70):
    open(f"{number:0255}", "wb").write(bytes(1 << 20))
while True:
    os.chmod(".", 0)
    os.chmod(".", 0o755)
"""
HIDING_PLACES = {
    "unreadable now and then, with names that are too long on the host": f"python3 -c '{BLINKING}'",
    "half in the report": "for n in 1 2 3; do for f in /app /run/report; do"
    " head -c 13000000 /dev/zero > $f/$n; done; done",
    "unreadable folder": "mkdir h; cd h; for i in $(seq 80); do head -c 1000000 /dev/zero > f$i; done; chmod 0 /app/h",
    "nested beyond any path": "d=$(printf %0200d 0); for i in $(seq 30); do mkdir $d; cd $d; done;"
    " head -c 1000000 /dev/zero > f",
    "unlinked and open": "exec 8> f 9> g; rm f g; for n in 8 9; do head -c 40000000 /dev/zero >&$n; done",
}
if os.geteuid() == 0:  # the kernel shows nobody else what such a mapping holds
    HIDING_PLACES["unlinked and mapped"] = f"python3 -c '{MAP_UNLINKED}'"


@pytest.mark.parametrize("script", HIDING_PLACES.values(), ids=HIDING_PLACES.keys())
async def test_nothing_on_disk_can_be_hidden(box: Sandbox, script: str) -> None:
    done = await shell(box, f"{script}; sleep 30", timeout_sec=20)
    assert done.died
    hits = box.limit_hits()
    assert hits.disk or hits.unmeasured


async def test_files_in_memory_are_not_on_the_disk(box: Sandbox) -> None:
    code = """
        import os, time
        held = [os.memfd_create("m"), os.open("/tmp/f", os.O_CREAT | os.O_RDWR)]
        os.unlink("/tmp/f")
        for descriptor in held:
            os.write(descriptor, bytes(40000000))
        time.sleep(2.5)
    """
    assert (await python(box, textwrap.dedent(code), timeout_sec=20)).returncode == 0
    assert not box.limit_hits().disk


async def test_one_file_and_temporary_files(image: TaskImage) -> None:
    box = await image.start(Phase.AGENT, limits=Limits(disk_mb=8, scratch_mb=4))
    try:
        done = await shell(box, "head -c 9000000 /dev/zero > /run/report/big; stat -c %s /run/report/big")
        assert int(done.stdout) == 8 << 20
        for place in ("/tmp", "/var/tmp", "/dev/shm", "/home/agent", "/logs"):
            done = await shell(box, f"head -c 7000000 /dev/zero > {place}/big; stat -c %s {place}/big")
            assert int(done.stdout) <= 4 << 20
    finally:
        await box.close()


async def test_a_timeout_kills_the_tree(box: Sandbox) -> None:
    started = time.monotonic()
    done = await shell(box, LEFT_BEHIND.format(seconds="4444.1") + "; echo before; sleep 4444.1", timeout_sec=0.5)
    assert (done.timed_out, done.stdout) == (True, "before\n")
    assert time.monotonic() - started < 5
    assert not processes_named("4444.1")
    assert (await shell(box, "echo still there")).stdout == "still there\n"


async def test_cancelling_kills_the_tree(box: Sandbox) -> None:
    task = asyncio.create_task(shell(box, LEFT_BEHIND.format(seconds="4444.2") + "; sleep 4444.2"))
    await asyncio.to_thread(wait_until, lambda: len(processes_named("4444.2")) >= 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not processes_named("4444.2")


async def test_a_process_left_behind_does_not_hold_a_command(box: Sandbox) -> None:
    started = time.monotonic()
    done = await shell(box, "sleep 4444.3 & echo done")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert time.monotonic() - started < 5
    await box.kill()
    assert not processes_named("4444.3")


async def test_no_snapshot_is_given_of_what_may_still_be_alive(
    bubblewrapped: BubblewrapImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = await bubblewrapped.start(Phase.AGENT)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Cgroups, "is_empty", lambda _: False)
            with pytest.raises(SandboxError, match="still has processes"):
                await box.kill()
            for read in (box.snapshot, box.report):
                with pytest.raises(SandboxError, match="kill it first"):
                    await read()
        await box.kill()
        assert (await box.snapshot()).upper.is_dir()
    finally:
        await box.close()


async def test_kill_leaves_nothing_and_close_removes_all(image: TaskImage) -> None:
    box = await image.start(Phase.AGENT)
    await shell(box, LEFT_BEHIND.format(seconds="4444.4"))
    with pytest.raises(SandboxError, match="kill it first"):
        await box.snapshot()
    await box.kill()
    assert not processes_named("4444.4")
    assert (await shell(box, "echo x")).died
    with pytest.raises(SandboxError, match="died"):
        await box.get("/app")
    assert (await box.snapshot()).upper.is_dir()
    groups = groups_of(box)
    await box.close()
    await box.close()
    assert not box.run_folder.path.exists()
    assert still_there(groups) == []


async def test_output_is_bounded_and_statuses_are_a_shells(image: TaskImage) -> None:
    box = await image.start(Phase.AGENT, limits=Limits(output_bytes=1000))
    try:
        done = await shell(box, "echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last; exit 3")
        assert done.returncode == 3
        assert done.stdout.startswith("first\n")
        assert done.stdout.endswith("last\n")
        assert len(done.stdout) < 1200
        assert (await shell(box, "kill -9 $$")).returncode == 128 + signal.SIGKILL
        missing = await box.exec(["/no/such/program"])
        assert (missing.returncode, missing.stderr) == (127, "/no/such/program: No such file or directory\n")
        echoed = await box.exec(["cat"], stdin="ä" * 100)
        assert echoed.stdout == "ä" * 100
    finally:
        await box.close()


async def test_many_commands_at_once(box: Sandbox) -> None:
    done = await asyncio.gather(*(shell(box, f"sleep 0.1; echo {number}") for number in range(12)))
    assert [result.stdout for result in done] == [f"{number}\n" for number in range(12)]


OWNER = """
import asyncio, json, sys
from pathlib import Path
from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.settings import SandboxSettings

async def main():
    provider = provider_of(SandboxSettings.model_validate(json.loads(sys.argv[1])))
    box = await provider.prepare(Path(sys.argv[2]), workdir="/app").start(Phase.AGENT)
    await box.exec(["bash", "-c", sys.argv[3]])
    groups = box.run_folder.cgroups
    print(json.dumps([box.run_folder.path.name, groups.read_text().split() if groups.exists() else []]), flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


def test_kill_9_of_the_owner_leaves_nothing(
    settings: SandboxSettings, provider: Provider, task_dir: Path, state: State
) -> None:
    script = LEFT_BEHIND.format(seconds="4444.5")
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, settings.model_dump_json(), str(task_dir / "environment"), script],
        stdout=subprocess.PIPE, text=True,
    ) as owner:  # fmt: skip
        assert owner.stdout is not None
        name, groups = json.loads(owner.stdout.readline())
        assert len(processes_named("4444.5")) >= 2
        assert provider.reap() == []
        owner.kill()
    wait_until(lambda: not processes_named("4444.5"))
    wait_until(lambda: not processes_named(name))
    assert (state.runs / name).is_dir()
    assert provider.reap() == [name]
    assert not (state.runs / name).exists()
    assert still_there(groups) == []
    assert name not in Path("/proc/self/mounts").read_text()
