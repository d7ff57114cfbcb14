"""What a verdict is made from when a trial is graded again."""

from enum import StrEnum


class From(StrEnum):
    """What is at hand of a trial."""

    PATCH = "patch"
    """Its change: the tests run again, in a fresh sandbox."""
    REPORT = "report"
    """What the tests left: it is read again, and nothing is run."""
