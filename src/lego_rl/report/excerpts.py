"""Trajectories for people: the same held-out task before and after training, side by side.

Invariant: everything here was written by a model, a harness or a task and is hostile. It leaves this module as plain
text, cut to a length, and the page's template escapes it.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lego_rl.evaluate.heldout import score
from lego_rl.plain_text import plain
from lego_rl.report.cut_text import Text, cut
from lego_rl.report.files import RunFiles, Trial
from lego_rl.rollout.labels import AFTER, BEFORE
from lego_rl.rollout.outcome import Reward

MOST_TURNS = 40
"""Kept of one trial."""


@dataclass(frozen=True)
class Call:
    """A tool call: name, and each argument with its value."""

    name: str
    arguments: tuple[tuple[str, Text], ...]
    results: tuple[Text, ...]


@dataclass(frozen=True)
class Turn:
    """One message, with its tool calls and what they returned."""

    source: str
    text: Text
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class ChangedFile:
    """A path of the agent's patch and what it holds now."""

    path: str
    kind: str
    content: Text


@dataclass(frozen=True)
class Attempt:
    """One trial as shown.

    Attributes:
        trial_id: Its folder under ``trials/``.
        number: Which attempt, from 1, of how many.
        reward: 0 or 1; ``None`` where masked.
        ended: Row of the fault table.
        detail: How it ended, for people.
        turns: The conversation without what both sides share.
        omitted_turns: Turns that are not shown.
        changes: The patch.
        tests: Test → status, failures first.
    """

    trial_id: str
    number: tuple[int, int]
    reward: int | None
    ended: str
    detail: Text
    turns: tuple[Turn, ...]
    omitted_turns: int = 0
    changes: tuple[ChangedFile, ...] = ()
    tests: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Comparison:
    """A task before and after.

    Attributes:
        task: Its id.
        family: Its family.
        prompt: What the harness was told, by the system and the user, before the policy first spoke.
        solved: Solved trials and trials, before and after.
        before: One attempt by the policy that the run started from.
        after: The same attempt number by the last checkpoint.
    """

    task: str
    family: str
    prompt: tuple[Turn, ...]
    solved: tuple[tuple[int, int], tuple[int, int]]
    before: Attempt
    after: Attempt


@dataclass
class _Sides:
    before: dict[int, Trial] = field(default_factory=dict)
    after: dict[int, Trial] = field(default_factory=dict)

    def gain(self) -> int:
        """Solved trials more than before."""
        return _solved(self.after)[0] - _solved(self.before)[0]

    def attempt(self) -> int | None:
        """The first attempt number at which the two differ in reward, else the first that both have."""
        shared = sorted(self.before.keys() & self.after.keys())
        differing = (n for n in shared if _counted(self.before[n]) != _counted(self.after[n]))
        return next(differing, shared[0] if shared else None)


def compare(run: RunFiles, most: int = 4) -> list[Comparison]:
    """Choose tasks and read their trials.

    The choice is fixed by the rewards: the largest gains, one task a family, then the task with the largest loss or,
    where none lost, one that is still unsolved, so that a page never shows successes alone.

    Args:
        run: The run directory.
        most: How many tasks.
    """
    tasks: dict[str, _Sides] = defaultdict(_Sides)
    for trial in run.trials:
        if trial.spec.label == BEFORE:
            tasks[trial.task].before[trial.spec.attempt] = trial
        elif trial.spec.label == AFTER:
            tasks[trial.task].after[trial.spec.attempt] = trial
    complete = {task: sides for task, sides in tasks.items() if sides.attempt() is not None}
    return [_comparison(run, task, complete[task]) for task in _choose(complete, most)]


def _choose(tasks: dict[str, _Sides], most: int) -> list[str]:
    if not tasks or most < 1:
        return []
    order = sorted(tasks, key=lambda task: (-tasks[task].gain(), task))
    worst = min(tasks, key=lambda task: (tasks[task].gain(), _solved(tasks[task].after)[0], task))
    chosen: list[str] = []
    families: set[str] = set()
    for task in order:
        family = next(iter(tasks[task].before.values())).spec.family
        if len(chosen) < most - 1 and family not in families and task != worst:
            chosen.append(task)
            families.add(family)
    return [*chosen, worst]


def _comparison(run: RunFiles, task: str, sides: _Sides) -> Comparison:
    number = sides.attempt()
    assert number is not None
    before, after = sides.before[number], sides.after[number]
    turns = _turns(run, before)
    return Comparison(
        task=plain(task),
        family=plain(before.spec.family),
        prompt=tuple(turns[: _spoken(turns)]),
        solved=(_solved(sides.before), _solved(sides.after)),
        before=_attempt(run, before),
        after=_attempt(run, after),
    )


def _attempt(run: RunFiles, trial: Trial) -> Attempt:
    turns = _turns(run, trial)
    turns = turns[_spoken(turns) :]
    verdict, patch = run.verdict(trial), run.patch(trial)
    tests = sorted(verdict.tests.items(), key=lambda item: (item[1] == "passed", item[0])) if verdict else []
    return Attempt(
        trial_id=trial.spec.id,
        number=(trial.spec.attempt + 1, trial.spec.attempts),
        reward=_counted(trial),
        ended=trial.outcome.ended.value,
        detail=cut(trial.outcome.detail, 300),
        turns=tuple(turns[:MOST_TURNS]),
        omitted_turns=max(0, len(turns) - MOST_TURNS),
        changes=tuple(
            ChangedFile(plain(change.path), change.kind, cut(change.content.decode("utf-8", "backslashreplace")))
            for change in (patch.changes if patch else ())
        ),
        tests=tuple((plain(name), status) for name, status in tests),
    )


def _turns(run: RunFiles, trial: Trial) -> list[Turn]:
    document = run.document(trial)
    return [_turn(step) for step in document["steps"]] if document else []


def _spoken(turns: Sequence[Turn]) -> int:
    """Index of the first turn by the policy."""
    return next((index for index, turn in enumerate(turns) if turn.source == "agent"), len(turns))


def _turn(step: dict[str, Any]) -> Turn:
    results: dict[str, list[Text]] = defaultdict(list)
    for result in (step.get("observation") or {}).get("results", []):
        results[str(result.get("source_call_id"))].append(cut(_string(result.get("content"))))
    calls = tuple(
        Call(
            name=plain(str(call["function_name"])),
            arguments=tuple((plain(key), cut(_string(value))) for key, value in call["arguments"].items()),
            results=tuple(results[str(call["tool_call_id"])]),
        )
        for call in step.get("tool_calls") or []
    )
    return Turn(source=str(step["source"]), text=cut(_string(step.get("message"))), calls=calls)


def _string(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _counted(trial: Trial) -> Reward | None:
    return trial.outcome.counted_reward


def _solved(trials: dict[int, Trial]) -> tuple[int, int]:
    found = score(trial.outcome for trial in trials.values())
    return found.solved, found.trials
