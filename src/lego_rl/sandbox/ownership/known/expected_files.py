"""Data that a script compares results with, or feeds to what it tests: ``expected/out.txt``, ``cases/*.in``.

Only a name can tell it from data of the product: a word for what is expected in its path, and a suffix of data. So
``expected.py`` and ``use_cases/pay.ts`` are never meant, nor is a file that the task does not have, which is what an
agent was asked to make.
"""

import re
from pathlib import PurePosixPath

_EXPECTED = re.compile(r"(?<![a-z])(?:expect(?:ed|ations?)|goldens?|snapshots?|cases|test_?cases?|test_?data)(?![a-z])")
_DATA = frozenset({
    "", ".txt", ".in", ".out", ".input", ".output", ".ans", ".exp", ".expected", ".golden", ".snap", ".ref", ".stdout",
    ".stderr", ".log", ".json", ".jsonl", ".csv", ".tsv", ".yml", ".yaml", ".xml", ".html", ".md", ".dat",
})  # fmt: skip


def is_expected(path: str) -> bool:
    """Whether a file, or a pattern of some, is data that tests compare with or begin from, by its name."""
    return PurePosixPath(path).suffix.lower() in _DATA and _EXPECTED.search(path.casefold()) is not None
