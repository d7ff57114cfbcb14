"""Reads a log with one parser of ``swebench`` and prints what it found; run as a program of its own.

The log is hostile and the parsers' regular expressions can take the square of its length, during which a Python process
can do nothing else: so the process that reads it is one that can be killed. Only the parsers are imported, not the
package around them, which imports Docker's client, data sets and more, and takes seconds.

Usage: ``python -P -m lego_rl.tasks.reports.swebench_program NAME [--untimed]``. On standard input a line of JSON, the
ids that are asked for or ``null``, and the log after it; on standard output pairs of a test and swebench's word for its
status, as JSON, and of tests that nobody asks for one that failed, if there is any, and no more.
"""

import importlib
import importlib.util
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path

from lego_rl.tasks.reports.lines import FAILED, STATUSES, Wanted, untimed
from lego_rl.tasks.reports.swebench import NOT_INSTALLED, UNTIMED_OPTION


def main(name: str, called: Callable[[str], str]) -> int:
    """Read standard input with the parser called `name`; its tests are `called` something."""
    spec = importlib.util.find_spec("swebench")
    if spec is None or spec.origin is None:
        return NOT_INSTALLED
    package = types.ModuleType("swebench.harness")
    package.__path__ = [str(Path(spec.origin).parent / "harness")]
    sys.modules["swebench.harness"] = package
    try:
        parse = importlib.import_module("swebench.harness.log_parsers").PARSER_REGISTRY[name]
    except (ImportError, AttributeError, KeyError):
        return NOT_INSTALLED
    asked = json.loads(sys.stdin.buffer.readline())
    text = sys.stdin.buffer.read().decode("utf-8", errors="replace")
    try:
        found = [(called(str(test)), str(status)) for test, status in parse(text, None).items()]
    except Exception:  # noqa: BLE001  another's parser on a hostile text: what it chokes on names no test
        found = []
    if asked is not None:
        wanted = Wanted(asked)
        other = next((pair for pair in found if STATUSES.get(pair[1]) in FAILED and pair[0] not in wanted), None)
        found = [pair for pair in found if pair[0] in wanted] + ([other] if other is not None else [])
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], untimed if UNTIMED_OPTION in sys.argv[2:] else str))
