"""Which files' tests a report would name like the task's own."""

from dataclasses import dataclass
from functools import cached_property

from lego_rl.tasks.reports.junit import dotted


@dataclass(frozen=True)
class ReportedNames:
    """Decides for one task.

    Attributes:
        class_names: Names of the modules and classes of its tests in a report.
    """

    class_names: frozenset[str]

    def are_of(self, path: str, *, is_there: bool) -> bool:
        """Whether tests in a file could have the class names of the task's own.

        ``tests.test_a.py`` is reported as ``tests/test_a.py`` is, and so is a class ``test_a`` in ``tests.py``: a pass
        of theirs would be the own test's where the patch also keeps that one from being collected. A module of the
        repository that is no test by its name stays the agent's to mend.

        Args:
            path: Of the file.
            is_there: Whether the task has such a file.
        """
        if not path.endswith(".py") or dotted(path) not in self._beginnings:
            return False
        return "test" in path.rpartition("/")[2] or not is_there

    @cached_property
    def _beginnings(self) -> frozenset[str]:
        """Every beginning of the names in `class_names`."""
        parts = (name.split(".") for name in self.class_names)
        return frozenset(".".join(each[:end]) for each in parts for end in range(1, len(each) + 1))
