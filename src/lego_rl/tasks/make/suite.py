"""How the tests of a tree are run, found by trying: the command, the tests that can be relied on, and the rest by name.

Invariant: a test of a `Suite` passed in every one of its runs, under the very command that tasks will carry.
"""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from lego_rl.errors import TaskError
from lego_rl.tasks.make.results import Results, read_results
from lego_rl.tasks.make.running import Bench, TestRun
from lego_rl.tasks.make.tree import Tree, is_test

FIND_SECONDS = 600.0
"""Of one run of everything that pytest finds."""
FILE_SECONDS = 60.0
"""Of one file, where not all of them can be run together."""
MOST_CULPRITS = 8
"""Files that do not end, after which no single file is looked for."""
RUNS = 3
"""Of the chosen command, before a test is relied on."""
SLOW_SECONDS = 2.0
"""Tests that take longer are left out."""
SUITE_SECONDS = 60.0
"""Of all tests of a task together; files beyond it are left out, the slowest first."""
LEAST_SECONDS, TIMES = 20.0, 4.0
"""What a changed tree may take: so many times the suite's own seconds, and not less than the least."""

_COMMON = "python3 -P -B -m pytest -q -p no:cacheprovider --continue-on-collection-errors"
_REPORT = '--tb=short --junitxml="$LEGO_REPORT"'


@dataclass(frozen=True)
class Style:
    """A way to call pytest.

    Attributes:
        name: For people.
        options: What makes it up.
    """

    name: str
    options: str

    def command(self, tree: Tree, arguments: str) -> str:
        """The shell command that runs some files, or all that is found for ``.``."""
        places = " ".join("$PWD" if folder == "." else f"$PWD/{folder}" for folder in tree.module_folders)
        return f'{_COMMON} {self.options} --rootdir="$PWD" -o pythonpath="{places}" {_REPORT} {arguments}'


STYLES = (
    Style("sealed", "-c /dev/null --noconftest --import-mode=importlib"),
    Style("configured", "-o addopts="),
)
"""``sealed`` takes no configuration and no ``conftest.py`` of the tree, so that there is nothing to be rolled back;
``configured`` takes both, without the options that need plug-ins. Test cases of unittest are pytest's in either."""


@dataclass(frozen=True)
class Suite:
    """The tests of a tree.

    Attributes:
        style: How pytest is called.
        files: Test files that are run, sorted.
        stable: Ids of the tests that passed in every run.
        seconds: Of the slowest run.
        flaky: Tests that ended differently from run to run.
        slow: Tests that took too long, in files that are run without them.
        failing: Tests that never passed.
        left_out: Test files that are not run → why.
        tried: Each way to call pytest → what came of it.
    """

    style: Style
    files: tuple[str, ...]
    stable: frozenset[str]
    seconds: float
    flaky: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    tried: Mapping[str, str] = field(default_factory=dict)

    @property
    def timeout_sec(self) -> float:
        """What a changed tree may take."""
        return max(LEAST_SECONDS, TIMES * self.seconds)

    def command(self, tree: Tree, files: Iterable[str] | None = None) -> str:
        """The shell command that runs its files, or some of them."""
        chosen = self.files if files is None else tuple(files)
        skipped = [test for test in self.slow if test.partition("::")[0] in chosen]
        words = [f"--deselect={test}" for test in skipped] + list(chosen)
        return self.style.command(tree, " ".join(shlex.quote(word) for word in words))


async def find_suite(tree: Tree, bench: Bench) -> Suite:
    """Find out how the tests of a tree are run.

    Raises:
        TaskError: No way of calling pytest makes a test pass.
        SandboxError: The runs could not be had.
    """
    tried, best = {}, None
    ending: dict[str, str] = {}
    for style in STYLES:
        tried[style.name], found = await _tried(tree, bench, style, ending)
        if best is None or len(found.passed()) > len(best[1].passed()):
            best = style, found
    assert best is not None
    style, found = best
    if not found.passed():
        said = "; ".join(f"{name}: {what}" for name, what in tried.items())
        raise TaskError(
            f"no test of it passes ({said})",
            "its tests have to run with pytest alone, or name an unpacked image with more: --set sandbox.rootfs=DIR",
        )
    measured = await _measured(tree, bench, style, found, tried)
    return replace(measured, left_out={**ending, **measured.left_out})


async def _tried(tree: Tree, bench: Bench, style: Style, ending: dict[str, str]) -> tuple[str, Results]:
    """What a way to call pytest makes of all tests: at once, or, where that does not end, file by file.

    Args:
        tree: The tree.
        bench: Where it is tested.
        style: The way.
        ending: Files that end or hold up a whole run → how; those found here are added, and none is run again.
    """
    files = [path for path in sorted(tree.files) if path.endswith(".py") and is_test(path) and path not in ending]
    words = " ".join(map(shlex.quote, files)) if ending else "."
    run = await bench.run({}, style.command(tree, words), FIND_SECONDS)
    if run.ended == "completed":
        found = read_results(run.report, _python_files(tree))
        return _told(run, found), found
    whole, merged, culprits = _told(run, Results({})), Results({}, {}), {}
    for path in files:
        run = await bench.run({}, style.command(tree, shlex.quote(path)), FILE_SECONDS)
        if run.ended == "completed":
            found = read_results(run.report, _python_files(tree))
            merged = Results({**merged.cases, **found.cases}, {**merged.broken, **found.broken})
        else:
            culprits[path] = _told(run, Results({}))
        if len(culprits) >= MOST_CULPRITS and not merged.passed():
            return whole, Results({})  # it is not one file that does it
    if merged.passed():
        ending |= culprits
    said = f"{whole}; file by file {len(merged.passed())} tests passed, {len(culprits)} files did not end"
    return (said if merged.passed() else whole), merged


async def _measured(tree: Tree, bench: Bench, style: Style, found: Results, tried: Mapping[str, str]) -> Suite:
    left_out = {path: f"cannot be collected: {last_line(text)}" for path, text in sorted(found.broken.items())}
    slow = tuple(sorted(test for test, case in found.cases.items() if case.seconds > SLOW_SECONDS))
    files = _affordable(found, frozenset(slow), left_out)
    suite = Suite(style, files, frozenset(), 0.0, slow=tuple(t for t in slow if t.partition("::")[0] in files))
    runs = [await bench.run({}, suite.command(tree), FIND_SECONDS) for _ in range(RUNS)]
    results = [read_results(run.report, files) for run in runs]
    passed = [each.passed() for each in results]
    stable = frozenset.intersection(*passed)
    sometimes = frozenset.union(*passed) - stable
    every = frozenset(test for each in results for test in each.cases)
    if not stable:
        said = _told(runs[-1], results[-1])
        raise TaskError("no test of it passes every time", f"look at what its tests say: {said}")
    return Suite(
        style,
        tuple(path for path in files if any(test.startswith(f"{path}::") for test in stable)),
        stable,
        max(run.seconds for run in runs),
        flaky=tuple(sorted(sometimes)),
        slow=suite.slow,
        failing=tuple(sorted(every - stable - sometimes)),
        left_out=left_out,
        tried=tried,
    )


def _affordable(found: Results, slow: frozenset[str], left_out: dict[str, str]) -> tuple[str, ...]:
    """The files with a test that passed, without the slowest ones where all together take too long."""
    seconds: dict[str, float] = {}
    for case in found.cases.values():
        if case.path not in left_out:
            passed = case.status == "passed" and case.id not in slow
            seconds[case.path] = seconds.get(case.path, 0.0) + (case.seconds if passed else 0.0)
    kept, spent = [], 0.0
    for path in sorted(seconds, key=lambda path: (seconds[path], path)):
        spent += seconds[path]
        if spent > SUITE_SECONDS:
            left_out[path] = f"takes {seconds[path]:.0f} s"
        else:
            kept.append(path)
    return tuple(sorted(kept))


def _python_files(tree: Tree) -> list[str]:
    return [path for path in tree.files if path.endswith(".py")]


def _told(run: TestRun, found: Results) -> str:
    if run.ended != "completed":
        return f"{run.ended.replace('_', ' ')}: {last_line(run.log)}"
    passed = len(found.passed())
    return f"{passed} tests passed, {len(found.cases) - passed} not, {len(found.broken)} files cannot be collected"


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("E ").strip()[:200] if lines else "it said nothing"
