"""Makes tasks of a history: for each step, the parts of its change that make new tests pass and keep the others.

Invariant: a test of FAIL_TO_PASS was run twice, with the earlier code and the later tests, and with the part of the
change that is the solution and the later tests; it failed, and it passed. A test of PASS_TO_PASS passed both times.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from pydantic import BaseModel, ConfigDict

from lego_rl.errors import TaskError
from lego_rl.tasks.make.evidence import Evidence, evidence_of
from lego_rl.tasks.make.issue import issue_text, ordered, shows_fix
from lego_rl.tasks.make.mine.changelog import entries_for, new_entries
from lego_rl.tasks.make.mine.hunks import Hunk, apply_hunks, changed_tests, hunks_of
from lego_rl.tasks.make.mine.parts import smallest
from lego_rl.tasks.make.results import Results, read_results
from lego_rl.tasks.make.running import Bench
from lego_rl.tasks.make.source import Source
from lego_rl.tasks.make.suite import Suite
from lego_rl.tasks.make.tree import Step, Tree
from lego_rl.tasks.make.workshop import Workshop, task_id
from lego_rl.tasks.make.writing import Found

KIND = "mined"
MOST_STEPS = 60
"""Steps of a history that are looked at, the newest."""
A_STEP = 4
"""Tasks of one step, at most."""
TARGETS = 12
"""Tests of one step that parts are looked for."""
MISSES = 3
"""Tests of one step, one after the other, whose part is no task; then the step is left."""
MOST_LINES = 200
"""Of a fix, those that go and those that come."""
MOST_TESTS = 40
"""FAIL_TO_PASS of one task."""


async def mine(shop: Workshop, source: Source, wanted: int) -> None:
    """Write up to `wanted` tasks, the newest steps first.

    Raises:
        SandboxError: The runs could not be had.
        TaskError: The files of a task are no task directory.
        OSError: The disk does not take it.
    """
    for step in islice(source.steps(), MOST_STEPS):
        if len(shop.account.tasks[KIND]) >= wanted:
            return
        made = len(shop.account.tasks[KIND])
        shop.watcher.doing(f"mining {step.since} to {step.label}: {made} of {wanted} tasks")
        shop.account.tried[KIND] += 1
        for reason in await _mine_step(shop, step, wanted - made):
            shop.account.reject(KIND, reason)


@dataclass(frozen=True)
class _Measured:
    """A step whose tests have been run.

    Attributes:
        step: The step.
        tree: The earlier state with the later tests.
        bench: Of it.
        suite: Of the later code with the later tests.
        hidden: The later tests.
        failing: Tests that fail with the earlier code.
        keeping: Tests that pass with it.
    """

    step: Step
    tree: Tree
    bench: Bench
    suite: Suite
    hidden: Mapping[str, bytes]
    failing: frozenset[str]
    keeping: frozenset[str]

    async def results(self, hunks: Sequence[Hunk], tests: frozenset[str] | None = None) -> Results:
        """Run all tests, or the files of some, with a part of the change."""
        files = None if tests is None else sorted({test.partition("::")[0] for test in tests})
        changed: dict[str, bytes | None] = {**apply_hunks(self.step.before.files, hunks)}
        run = await self.bench.run(changed, self.suite.command(self.tree, files), self.suite.timeout_sec)
        return read_results(run.report, self.suite.files)


class Part(BaseModel):
    """A part of a step that is a task.

    Attributes:
        hunks: Its hunks, by their places among those of the step.
        failing: Tests that fail without it and pass with it.
        keeping: Tests that pass without it and with it.
        texts: What the failing ones say without it.
    """

    model_config = ConfigDict(frozen=True)

    hunks: tuple[int, ...]
    failing: tuple[str, ...]
    keeping: tuple[str, ...]
    texts: dict[str, str]


class Dug(BaseModel):
    """What was found in a step.

    Attributes:
        reason: Why it was not taken apart; ``None`` where it was.
        parts: The parts that are tasks.
        misses: Of each part that is none, why.
    """

    model_config = ConfigDict(frozen=True)

    reason: str | None = None
    parts: tuple[Part, ...] = ()
    misses: tuple[str, ...] = ()


async def _mine_step(shop: Workshop, step: Step, wanted: int) -> list[str]:
    """Make tasks of one step; why it gives none, or why each part of it that is no task is none."""
    hunks, hidden = hunks_of(step), changed_tests(step)
    if not hunks:
        return ["no_code"]
    if not any(path.endswith(".py") for path in hidden):
        return ["no_tests"]
    known = shop.findings.get(KIND, step.before.digest, step.after.digest)
    if known is not None:
        dug = Dug.model_validate(known)
    else:
        try:
            dug = await _dig(shop, step, hunks, hidden)
        except TaskError:
            dug = Dug(reason="no_suite")
        shop.findings.put(dug.model_dump(mode="json"), KIND, step.before.digest, step.after.digest)
    if dug.reason is not None:
        return [dug.reason]
    suite = await shop.suite(_later(step, hunks, hidden))
    reasons = (_written(shop, step, suite, hidden, hunks, part) for part in dug.parts[:wanted])
    return [*dug.misses, *filter(None, reasons)]


def _later(step: Step, hunks: Sequence[Hunk], hidden: Mapping[str, bytes]) -> Tree:
    return step.before.with_files({**hidden, **apply_hunks(step.before.files, hunks)})


async def _dig(shop: Workshop, step: Step, hunks: list[Hunk], hidden: Mapping[str, bytes]) -> Dug:
    """Measure a step and find the parts of it that are tasks."""
    suite = await shop.suite(_later(step, hunks, hidden))
    tree = step.before.with_files(hidden)
    bench = await shop.bench(tree)
    before = await bench.run({}, suite.command(tree), suite.timeout_sec)
    if before.ended not in ("completed", "no_report"):
        return Dug(reason="times_out")
    passed = read_results(before.report, suite.files).passed()
    if suite.stable <= passed:
        return Dug(reason="no_failing_test")
    measured = _Measured(step, tree, bench, suite, hidden, suite.stable - passed, suite.stable & passed)
    return await _parts(shop, measured, hunks)


async def _parts(shop: Workshop, measured: _Measured, hunks: list[Hunk]) -> Dug:
    parts: list[Part] = []
    misses: list[str] = []
    covered: set[str] = set()
    in_a_row = 0
    for function in _functions(measured.failing)[:TARGETS]:
        target = frozenset(test for test in measured.failing if test.partition("[")[0] == function)
        if target & covered:
            continue
        if len(parts) >= A_STEP or in_a_row >= MISSES:
            break
        shop.watcher.doing(f"mining {measured.step.since} to {measured.step.label}: what makes {function} pass")

        async def passes(some: Sequence[Hunk], target: frozenset[str] = target) -> bool:
            return target <= (await measured.results(some, target)).passed()

        chosen = await smallest(hunks, passes)
        solved = (await measured.results(chosen)).passed()
        gained = measured.failing & solved
        if not target <= gained or not measured.keeping <= solved or gained & covered:
            misses.append("not_alone")
            in_a_row += 1
            continue
        if sum(hunk.size for hunk in chosen) > MOST_LINES or len(gained) > MOST_TESTS:
            misses.append("too_large")
            in_a_row += 1
            continue
        in_a_row = 0
        covered |= gained
        parts.append(await _part(measured, tuple(hunks.index(hunk) for hunk in chosen), gained))
    return Dug(parts=tuple(parts), misses=tuple(misses))


async def _part(measured: _Measured, places: tuple[int, ...], gained: frozenset[str]) -> Part:
    """A part with what its tests say without it."""
    files = sorted({test.partition("::")[0] for test in gained})
    command = f"{measured.suite.command(measured.tree, files)} --showlocals"
    run = await measured.bench.run({}, command, measured.suite.timeout_sec)
    cases = read_results(run.report, files).cases
    texts = {test: cases[test].text for test in sorted(gained) if test in cases}
    return Part(hunks=places, failing=tuple(sorted(gained)), keeping=tuple(sorted(measured.keeping)), texts=texts)


def _functions(tests: frozenset[str]) -> list[str]:
    return sorted({test.partition("[")[0] for test in tests})


def _written(
    shop: Workshop, step: Step, suite: Suite, hidden: Mapping[str, bytes], hunks: list[Hunk], part: Part
) -> str | None:
    """Write a task, or say why it is none after all."""
    account = shop.account
    later = step.before.with_files(hidden)
    read = [evidence_of(later, test, text) for test, text in part.texts.items()]
    told = ordered([each for each in read if each is not None])
    if not told:
        return "not_told"
    fix = apply_hunks(step.before.files, [hunks[place] for place in part.hunks])
    words = {*_spoken(told), *(test.partition("[")[0].rpartition("::")[2] for test in part.failing)}
    log = entries_for(new_entries(step), words - {account.package})
    identity = f"{step.since}-{step.label}-{'-'.join(part.failing)}"
    task = Found(
        id=task_id(account.package, step.label, "mined", hashlib.sha256(identity.encode()).hexdigest()[:8]),
        kind=KIND,
        family=KIND,
        package=account.package,
        repository=account.repository,
        label=step.label,
        state=step.since,
        instruction=issue_text(account.package, step.since, told, log, seed=f"{shop.seed}/{identity}"),
        tree=step.before,
        fix=fix,
        hidden=hidden,
        fail_to_pass=part.failing,
        pass_to_pass=part.keeping,
        command=suite.command(step.before),
        suite_sec=suite.seconds,
    )
    if shows_fix(task.instruction, task.gold_patch) is not None:
        return "tells_fix"
    shop.write(task, min(fix))
    return None


def _spoken(told: Sequence[Evidence]) -> set[str]:
    return {part for each in told for part in each.called.split(".")}
