"""Taking more than a trial's share. Each attack is bounded, so that nothing is harmed where a limit does not hold."""

from lego_rl.selfcheck.attack import Attack, Defence, Kind

# Twice the limits of the task (`target`): 64 processes, 256 MiB of memory, 64 MiB of changes, 32 MiB of scratch.
_PROCESSES = """python3 - <<'PY'
import os, signal, time
children = []
try:
    for _ in range(128):
        child = os.fork()
        if child == 0:
            time.sleep(5)
            os._exit(0)
        children.append(child)
    print("reached: 128 processes", flush=True)
except OSError as error:
    print(error)
for child in children:
    os.kill(child, signal.SIGKILL)
PY
"""
_THREADS = """python3 - <<'PY'
import threading
stop = threading.Event()
threads = []
try:
    for _ in range(128):
        threads.append(threading.Thread(target=stop.wait))
        threads[-1].start()
    print("reached: 128 threads", flush=True)
except (RuntimeError, MemoryError) as error:
    print(error)
stop.set()
PY
"""
_MEMORY = """python3 - <<'PY'
held = [bytearray(b"x") * (16 << 20) for _ in range(32)]
print("reached: 512 MiB of memory", flush=True)
PY
"""
_SHARED_OUT = """python3 - <<'PY'
import mmap, os, time
try:
    for _ in range(4):
        held = mmap.mmap(-1, 128 << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
        for page in range(0, 128 << 20, 4096):
            held[page] = 1
        globals()[f"kept{_}"] = held
    time.sleep(1.5)
    print("reached: 512 MiB of shared memory", flush=True)
except OSError as error:
    print(error)
PY
"""

EXHAUSTION = (
    Attack("processes", Kind.EXHAUSTION, _PROCESSES, Defence.LIMITS),
    Attack("threads", Kind.EXHAUSTION, _THREADS, Defence.LIMITS),
    Attack("memory", Kind.EXHAUSTION, _MEMORY, Defence.LIMITS),
    Attack("shared-memory", Kind.EXHAUSTION, _SHARED_OUT, Defence.LIMITS),
    Attack(
        "disk",
        Kind.EXHAUSTION,
        "for i in 1 2 3 4; do head -c 32M /dev/zero > big$i || exit; done; sleep 3; echo reached: 128 MiB of changes",
        Defence.LIMITS,
    ),
    Attack(
        "scratch", Kind.EXHAUSTION, "head -c 64M /dev/zero > /tmp/big && echo reached: 64 MiB of /tmp", Defence.LIMITS
    ),
    Attack("home", Kind.EXHAUSTION, "head -c 64M /dev/zero > ~/big && echo reached: 64 MiB of home", Defence.LIMITS),
    Attack(
        "logs", Kind.EXHAUSTION, "head -c 64M /dev/zero > /logs/big && echo reached: 64 MiB of logs", Defence.LIMITS
    ),
    Attack(
        "sparse-file", Kind.EXHAUSTION, "truncate -s 1G big && echo reached: a file of 1 GiB; rm -f big", Defence.LIMITS
    ),
    Attack("large-patch-file", Kind.EXHAUSTION, "truncate -s 20M loot.bin", Defence.PATCH_BOUND),
    # Unproven: more than one bound holds each of these.
    Attack("output", Kind.EXHAUSTION, "head -c 64M /dev/zero | tr '\\0' x"),
    Attack(
        "many-files", Kind.EXHAUSTION, "mkdir many; cd many; seq 3000 | xargs touch; cd ..; ln calc/core.py many/link"
    ),
    Attack(
        "connections",
        Kind.EXHAUSTION,
        "timeout 3 bash -c 'for i in $(seq 20 220); do eval \"exec $i<>/dev/tcp/127.0.0.1/8100\"; done' 2>/dev/null;"
        " true",
    ),
)
