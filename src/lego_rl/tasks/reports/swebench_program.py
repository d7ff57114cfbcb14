"""Reads a log with one parser of ``swebench`` and prints what it found; run as a program of its own.

The log is hostile and the parsers' regular expressions can take the square of its length, during which a Python process
can do nothing else: so the process that reads it is one that can be killed. Only the parsers are imported, not the
package around them, which imports Docker's client, data sets and more, and takes seconds.

Usage: ``python -P swebench_program.py NAME < LOG``; JSON on standard output, ``null`` where the log defeats the parser.
"""

import importlib
import importlib.util
import json
import sys
import types
from pathlib import Path

NOT_INSTALLED = 3
"""Exit status where there is no such package, or it has no such parser."""


def main(name: str) -> int:
    """Read standard input with the parser called `name`."""
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
    text = sys.stdin.buffer.read().decode("utf-8", errors="replace")
    try:
        found = {str(test): str(status) for test, status in parse(text, None).items()}
    except Exception:  # noqa: BLE001  another's parser on a hostile text: what it chokes on names no test
        found = None
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
