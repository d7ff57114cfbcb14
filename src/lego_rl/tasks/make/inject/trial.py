"""What comes of a bug when the tests meet it: a task, or a reason why it is none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lego_rl.tasks.make.elsewhere import is_copied
from lego_rl.tasks.make.inject.candidates import Mutant
from lego_rl.tasks.make.results import Results, read_results
from lego_rl.tasks.make.running import Bench
from lego_rl.tasks.make.suite import Suite
from lego_rl.tasks.make.tree import Tree
from lego_rl.tasks.make.withhold import without_tests

type Rejection = Literal[
    "same_meaning",
    "copied",
    "unnoticed",
    "breaks_collection",
    "times_out",
    "dies",
    "too_many_fail",
    "unstable",
    "shown",
]
"""Why a bug is no task; `lego_rl.tasks.make.account.REASONS` says what each means."""

MOST_FAILING = 40
SHARE_FAILING = 0.25
"""Of the suite's tests; more of them failing makes a bug too plain."""


@dataclass(frozen=True)
class Trial:
    """What came of a bug.

    Attributes:
        rejected: Why it is no task; ``None`` for one that is.
        failures: Test that fails with it → what pytest says.
    """

    rejected: Rejection | None = None
    failures: Mapping[str, str] = field(default_factory=dict)


async def try_mutant(tree: Tree, bench: Bench, suite: Suite, mutant: Mutant) -> Trial:
    """Run the tests against a bug: all of them, those that fail once more, and what of them the agent will see.

    Raises:
        SandboxError: The runs could not be had.
    """
    content = mutant.content(tree)
    if content is None:
        return Trial("same_meaning")
    if is_copied(tree, mutant.path, mutant.function):
        return Trial("copied")
    bug: dict[str, bytes | None] = {mutant.path: content}
    run = await bench.run(bug, suite.command(tree), suite.timeout_sec)
    if run.ended in ("timed_out", "died"):
        return Trial("times_out" if run.ended == "timed_out" else "dies")
    results = read_results(run.report, suite.files)
    if rejected := judged(suite, results):
        return Trial(rejected)
    failing = suite.stable - results.passed()
    return await _seen_again(tree, bench, suite, bug, failing)


def judged(suite: Suite, results: Results) -> Rejection | None:
    """Why a run of all tests makes a bug no task."""
    if results.broken or not suite.stable <= set(results.cases):
        return "breaks_collection"
    failing = suite.stable - results.passed()
    if not failing:
        return "unnoticed"
    if len(failing) > min(MOST_FAILING, max(1, SHARE_FAILING * len(suite.stable))):
        return "too_many_fail"
    return None


async def _seen_again(
    tree: Tree, bench: Bench, suite: Suite, bug: Mapping[str, bytes | None], failing: frozenset[str]
) -> Trial:
    files = sorted({test.partition("::")[0] for test in failing})
    again = await bench.run(bug, f"{suite.command(tree, files)} --showlocals", suite.timeout_sec)
    cases = read_results(again.report, files).cases
    failed = {test for test, case in cases.items() if test in suite.stable and case.status in ("failed", "error")}
    if failed != failing:
        return Trial("unstable")
    visible = visible_tests(tree, failing)
    shown = [path for path in suite.files if visible.get(path, b"") is not None]
    if shown:
        without = await bench.run({**bug, **visible}, suite.command(tree, shown), suite.timeout_sec)
        kept = {test for test in suite.stable - failing if test.partition("::")[0] in shown}
        results = read_results(without.report, shown)
        if results.broken or not kept <= results.passed() or not failing.isdisjoint(results.cases):
            return Trial("shown")
    return Trial(None, {test: cases[test].text for test in sorted(failing)})


def visible_tests(tree: Tree, failing: frozenset[str]) -> dict[str, bytes | None]:
    """The test files that hold failing tests, as the agent sees them; ``None`` for one that it does not see at all."""
    by_file: dict[str, list[str]] = {}
    for test in sorted(failing):
        by_file.setdefault(test.partition("::")[0], []).append(test)
    return {path: without_tests(path, tree.files[path], tests) for path, tests in by_file.items()}
