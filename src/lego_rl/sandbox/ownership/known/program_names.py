"""What programs are called with which tests are run."""

import re

from lego_rl.sandbox.ownership.known.runners import runner_of

PROGRAMS = re.compile(
    r"(python|pypy|pip)[0-9.]*|py\.?test|tox|nox|coverage|uvx?|poetry|pdm|hatch|make|env|(ba|da|z|k|a)?sh|busybox|git"
)
"""Programs with which tests are run: one of such a name in the work tree may come before theirs on ``PATH``."""


def runs_tests(name: str) -> bool:
    """Whether a program of such a name runs tests, of whatever language."""
    return PROGRAMS.fullmatch(name) is not None or runner_of(name) is not None
