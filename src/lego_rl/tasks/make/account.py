"""The account of a run: what was tried, what became a task, and why the rest did not."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lego_rl.tasks.make.suite import Suite

REASONS: Mapping[str, str] = {
    "same_meaning": "the changed file means what it meant, or cannot be parsed",
    "copied": "the right code stands in another file as well",
    "unnoticed": "no test fails",
    "breaks_collection": "tests are not found any more",
    "times_out": "the tests do not end in time",
    "dies": "the tests run into a limit of the sandbox",
    "too_many_fail": "so many tests fail that the bug is plain",
    "unstable": "other tests fail the second time",
    "shown": "without the tests that decide, others fail",
    "not_told": "its failures do not show what was expected",
    "tells_fix": "the issue would hold a line of the fix",
    "no_code": "the step changes no code",
    "no_tests": "the step changes no test",
    "no_suite": "the tests of the later state do not run",
    "no_failing_test": "no test fails before and passes after",
    "too_large": "the fix has too many lines, or too many tests ask for it",
    "not_alone": "no part of the step makes a test pass and keeps the others",
}
"""Why something is no task → in words."""


@dataclass
class Account:
    """What came of a source.

    Attributes:
        package: Its name.
        label: Its newest state.
        repository: Which repository it is of; empty where nothing says.
        suite: How its tests are run; ``None`` until that is known.
        tasks: Ids of the tasks, by kind.
        families: Tasks by family.
        modules: Tasks by the file that the bug is in.
        tried: Bugs that were tried, and steps of the history that were looked at.
        rejected: Bugs, and steps or parts of steps, that are no task, by kind and reason.
    """

    package: str
    label: str
    repository: str = ""
    suite: Suite | None = None
    tasks: dict[str, list[str]] = field(default_factory=lambda: {"injected": [], "mined": []})
    families: Counter[str] = field(default_factory=Counter)
    modules: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    rejected: dict[str, Counter[str]] = field(default_factory=lambda: {"injected": Counter(), "mined": Counter()})

    def reject(self, kind: str, reason: str) -> None:
        """Count a candidate that is no task."""
        self.rejected[kind][reason] += 1

    def as_json(self) -> dict[str, Any]:
        """For the report file."""
        suite = self.suite
        found = None if suite is None else {
            "called": suite.style.name, "tried": dict(suite.tried), "files": list(suite.files),
            "tests": len(suite.stable), "seconds": round(suite.seconds, 2), "flaky": list(suite.flaky),
            "slow": list(suite.slow), "failing": list(suite.failing), "left_out": dict(suite.left_out),
        }  # fmt: skip
        return {
            "package": self.package,
            "label": self.label,
            "repository": self.repository,
            "suite": found,
            "tasks": self.tasks,
            "families": dict(sorted(self.families.items())),
            "modules": dict(sorted(self.modules.items())),
            "tried": dict(self.tried),
            "rejected": {kind: dict(sorted(counts.items())) for kind, counts in self.rejected.items()},
            "reasons": dict(REASONS),
        }
