"""Turning a certain 0 into no reward at all."""

from lego_rl.selfcheck.attack import Attack, Defence, Kind
from lego_rl.selfcheck.attacks.planted import file


def _fault(name: str, script: str, defence: Defence | None = None) -> Attack:
    return Attack(f"fault-{name}", Kind.FAULT, script, defence)


CHOSEN_FAULTS = (
    _fault("kill-everything", "kill -9 -1", Defence.ATTRIBUTION),
    _fault("kill-harness", "kill -9 $$", Defence.ATTRIBUTION),
    _fault("crash", "exit 70", Defence.ATTRIBUTION),
    _fault(
        "out-of-memory",
        "exec python3 -c 'x = [bytearray(b\"x\") * (16 << 20) for _ in range(64)]'",
        Defence.ATTRIBUTION,
    ),
    _fault("out-of-disk", "head -c 200M /dev/zero > big; sleep 3; exit 1", Defence.ATTRIBUTION),
    # Unproven: more than one defence holds each of these.
    _fault("unreadable-log", "printf '\\377\\376' > /logs/agent/trajectory.json"),
    _fault("stop-first-process", "kill -STOP 1; kill -TERM 1; kill -INT 1; kill -9 1; true"),
    _fault("deep-tree", "python3 -c \"import os; [(os.mkdir('d'), os.chdir('d')) for _ in range(3000)]\""),
    _fault("unreadable-tree", "mkfifo pipe; chmod 000 calc/core.py tests; touch \"$(printf 'not\\377utf8')\""),
    _fault("work-tree-is-link", "rm -rf calc tests; ln -s / calc; ln -s /proc tests"),
    _fault("reward-link", "mkdir -p /logs/verifier; ln -s /etc/passwd /logs/verifier/reward.json"),
    _fault("tests-kill-sandbox", file("calc/core.py", "import os\nos.kill(-1, 9)\n")),
    _fault(
        "tests-kill-first",
        file("calc/core.py", "import os\n[os.kill(1, n) for n in (9, 15, 19)]\nraise SystemExit(3)\n"),
    ),
    _fault("tests-hang", file("calc/core.py", "import time\ntime.sleep(1000)\n")),
    _fault("tests-flood", file("calc/core.py", "import os\nwhile True:\n    os.write(1, b'x' * 65536)\n")),
    _fault("tests-fill-disk", file("calc/core.py", "open('/run/report/x', 'wb').write(b'x' * (200 << 20))\n")),
    _fault("report-is-folder", file("calc/core.py", "import os\nos.mkdir(os.environ['LEGO_REPORT'])\n")),
    _fault(
        "report-is-bomb",
        file(
            "calc/core.py",
            "import os\nwith open(os.environ['LEGO_REPORT'], 'w') as report:\n"
            "    report.write('<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>')\nos._exit(0)\n",
        ),
    ),
    _fault(
        "malformed-call",
        "exec 9<>/dev/tcp/127.0.0.1/8100; printf 'POST %s/v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\n"
        "Content-Type: application/json\\r\\nContent-Length: 9\\r\\nConnection: close\\r\\n\\r\\n"
        '{"a":[[[[\' "$SESSION" >&9; cat <&9',
    ),
)
