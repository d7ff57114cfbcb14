"""What agents do to run into a limit, or to take something from the host. Shell text for `rollout_kit.bash`."""

from rollout_kit import bash

OVERFLOW = """python3 - <<'END'
import json, os, urllib.request
prompt = [{"role": "user", "content": " ".join(map(str, range(30000)))}]
body = json.dumps({"model": "policy", "messages": prompt}).encode()
for _ in range(32):
    try:
        urllib.request.urlopen(os.environ["GATEWAY"] + "/v1/chat/completions", body)
    except urllib.error.HTTPError:
        pass
END"""
FLOOD = """python3 - <<'END'
import os, socket
sockets = []
for number in range(100):
    sockets.append(socket.create_connection(("127.0.0.1", 8100)))
    sockets[-1].sendall(os.urandom(100) if number % 2 else b"POST / HTTP/1.1\\r\\nContent-Length: 9\\r\\n\\r\\n")
    if number % 3 == 0:
        sockets[-1].close()
END"""
FORKS = """python3 - <<'END'
import os, time
if os.fork() == 0:
    os.closerange(0, 3)
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)
time.sleep(1)
END"""
HOG = """echo 1000 > /proc/$PPID/oom_score_adj
for each in 1 2 3 4; do python3 -c 'import time; kept = bytearray(90 << 20); time.sleep(4)' & done; wait"""

SMALL_HOG = HOG.replace("1000", "0")
"""Kills itself and not the harness, where a control group counts it."""


def appending(line: str) -> str:
    """A change of the module under test."""
    return bash(f"echo {line!r} >> calc.py")
