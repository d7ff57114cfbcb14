"""Finds out which tests decide, for a task that does not say: those that fail without the fix and pass with it.

Invariant: a test is on a list only where every run said so; what passed in some runs and not in others is on none.
Lists are known (`lists` is no longer in ``unmeasured``) when the task is valid with them, and not before.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from lego_rl import durable
from lego_rl.documents import read_json, read_toml
from lego_rl.tasks.reports import TestStatus, listing_parser
from lego_rl.tasks.task import Task, TestSpec
from lego_rl.tasks.validate.grader import Graded
from lego_rl.tasks.validate.judge import not_ended


@dataclass(frozen=True)
class Lists:
    """What was found.

    Attributes:
        fail_to_pass: Tests that passed with the solution every time, and never without it.
        pass_to_pass: Tests that passed every time.
        flaky: Tests that passed sometimes with the same change.
    """

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    flaky: tuple[str, ...]


def check_listing(task: Task) -> None:
    """See that the tests of a task can be found out, before any is run.

    Raises:
        TaskError: Its kind of report names only tests that it is asked for.
    """
    assert isinstance(task.tests, TestSpec)
    listing_parser(task.tests.parser)


def is_unlisted(task: Task) -> bool:
    """Whether a task does not say which tests decide, or says it before that is known."""
    unknown = task.source is not None and "lists" in task.source.unmeasured
    return isinstance(task.tests, TestSpec) and (unknown or not task.tests.fail_to_pass)


def not_listing(empty: Sequence[Graded], gold: Sequence[Graded]) -> str | None:
    """Why some gradings teach nothing: one did not run to its end, or what it reported is not there."""
    if (cut_short := not_ended(empty, gold)) is not None:
        return cut_short
    for name, some in (("without a change", empty), ("with its solution", gold)):
        if not all(each.report.content for each in some):
            return f"{name}: no report, or one that is too long to be kept"
    return None


def lists_of(parser: str, empty: Sequence[Graded], gold: Sequence[Graded]) -> Lists:
    """The lists that some gradings give.

    Raises:
        TaskError: This kind of report names only tests that it is asked for.
    """
    found = listing_parser(parser).found
    before, after = [found(each.report) for each in empty], [found(each.report) for each in gold]
    always_before, ever_before = _passed(before)
    always_after, ever_after = _passed(after)
    flaky = (ever_before - always_before) | (ever_after - always_after)
    return Lists(
        tuple(sorted(always_after - ever_before - flaky)),
        tuple(sorted(always_after & always_before)),
        tuple(sorted(flaky)),
    )


def _passed(runs: Sequence[dict[str, TestStatus]]) -> tuple[frozenset[str], frozenset[str]]:
    """Tests that passed in every run, and in some run."""
    sets = [frozenset(test for test, status in run.items() if status == "passed") for run in runs]
    return frozenset.intersection(*sets), frozenset.union(*sets)


class Listing:
    """The lists of one task, while it is found out whether it is valid with them.

    Args:
        task: The task directory.
        lists: What was found.

    Raises:
        OSError: The disk does not take it.
    """

    def __init__(self, task: Path, lists: Lists) -> None:
        self._spec, self._config = task / "tests" / "spec.json", task / "task.toml"
        self._before = self._spec.read_text(encoding="utf-8")
        spec = read_json(self._before) | {"FAIL_TO_PASS": lists.fail_to_pass, "PASS_TO_PASS": lists.pass_to_pass}
        durable.write_text(self._spec, json.dumps(spec, indent=2) + "\n")

    def keep(self) -> None:
        """They are known now.

        Raises:
            OSError: The disk does not take it.
        """
        config = read_toml(self._config.read_text(encoding="utf-8"))
        source = config.get("metadata", {}).get("source")
        if isinstance(source, dict) and "unmeasured" in source:
            source["unmeasured"] = [each for each in source["unmeasured"] if each != "lists"]
            durable.write_text(self._config, tomli_w.dumps(config))

    def take_back(self) -> None:
        """They are not: the specification is as it was.

        Raises:
            OSError: The disk does not take it.
        """
        durable.write_text(self._spec, self._before)
