"""Prints 1 or 0 for a log that the tests of a converted task left; run by ``tests/test.sh`` under stock Harbor.

A copy of this file lies in ``tests/`` beside ``lines.py`` and ``spec.json``; it runs with an image's own Python, 3.8 or
later, and imports nothing of Lego-RL. For logs that need a parser of the package ``swebench`` it installs that package
into a folder of its own, which needs a network. Exit status 2: the log cannot be read here.

Usage: ``python3 judge.py EXIT_STATUS LOG``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SWEBENCH = "swebench==5.0.2"


def main(exit_status: int, log: str) -> int:
    """Judge a log."""
    sys.path.insert(0, str(HERE))
    import lines  # type: ignore[import-not-found]  # lies beside the copy that is run

    spec = json.loads((HERE / "spec.json").read_text(encoding="utf-8"))
    text = lines.between_markers(Path(log).read_text(encoding="utf-8", errors="replace"))
    kind, _, name = spec["parser"].partition(":")
    runner = lines.PYTEST if kind in ("pytest-log", "r2e-log") or name in lines.OF_PYTEST else lines.OTHER
    if kind == "pytest-log":
        said = lines.pytest_tests(text)
    elif kind == "r2e-log":
        said = lines.r2e_tests(text)
    else:
        said = with_swebench(name, text)
        if kind == "swebench-untimed":
            said = [(lines.untimed(test), status) for test, status in said]
    wanted = [*spec["FAIL_TO_PASS"], *spec["PASS_TO_PASS"]]
    found = lines.Found(said, lines.Wanted(wanted))
    statuses = {} if found.contradicts(exit_status, runner) else found.statuses
    names = sorted(statuses)
    passed = bool(wanted) and all(lines.status_of(test, statuses, names) == "passed" for test in wanted)
    print(1 if passed else 0)
    return 0


def with_swebench(name: str, text: str) -> list[tuple[str, str]]:
    """The tests that a parser of the package finds."""
    import lines

    with tempfile.TemporaryDirectory() as folder:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, SWEBENCH]
        subprocess.run(install, check=True, stdout=sys.stderr)
        program = (
            "import json, sys; from swebench.harness.log_parsers import PARSER_REGISTRY as known; "
            "print(json.dumps(known[sys.argv[1]](sys.stdin.read(), None)))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, name],
            input=text,
            capture_output=True,
            encoding="utf-8",
            env={"PYTHONPATH": folder, "PATH": "/usr/bin:/bin", "HOME": folder},
            check=True,
        )
    return [(test, lines.STATUSES[word]) for test, word in json.loads(done.stdout).items() if word in lines.STATUSES]


if __name__ == "__main__":
    try:
        sys.exit(main(int(sys.argv[1]), sys.argv[2]))
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        print(f"the log cannot be read here: {error}", file=sys.stderr)
        sys.exit(2)
