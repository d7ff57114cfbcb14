"""The figures of one trial that everything else here is computed from: counts of what was done, and nothing of how.

Invariant: a figure is of one trial alone and costs no more than a few hundred bytes, so that thousands of trials are
held at once.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from lego_rl.analysis.actions import Files, Kind
from lego_rl.analysis.view import NeutralCall, View
from lego_rl.evaluate.trials import EvaluatedTrial

LOOP = 3
"""So many times the same call, one right after the other, is a loop."""
RECOVERY = 3
"""A failure is recovered from within so many calls."""
_ASKS_FOR_TESTS = re.compile(
    r"\b(?:run|execute)\b[^.\n]{0,40}\b(?:tests?|suite|pytest|unittest|tox|nox)\b|\bmake (?:test|check)\b",
    re.IGNORECASE,
)
_TEST_PATH = re.compile(
    r"(?:^|/)(?:tests?|testing|__tests__|spec)/|(?:^|/)(?:test_[^/]*|[^/]*_test|[^/]*\.(?:test|spec))\.\w+\Z"
    r"|(?:^|/)(?:conftest\.py|pytest\.ini|tox\.ini|noxfile\.py)\Z"
)


@dataclass(frozen=True)
class TrialFigures:
    """What a trial's policy did, in figures.

    Attributes:
        trial: Task, attempt, reward, turns and tokens.
        calls: Tool calls but for those that end the trial; those that could not be parsed included.
        malformed: Of these, calls that could not be parsed, named no tool, or lacked an argument.
        edits: Actions that edit a file.
        reread: Whether a file was read again after it had been edited.
        inspected: Different files that were read before the first edit; of all, where there is none.
        test_runs: Actions that run tests.
        asked_for_tests: Whether the request asks to run tests.
        failed: Calls whose result says that they failed.
        recovered: Of these, calls after which another call soon succeeded.
        longest_repeat: The most times that one call was made in a row; 0 without calls.
        reasoning_chars: Characters of reasoning.
        written_chars: Characters of everything that the policy wrote.
        test_edits: Different test files, and files that say how tests are run, that were edited.
        digest: Of the calls and their order: trials that did the same have the same.
    """

    trial: EvaluatedTrial
    calls: int
    malformed: int
    edits: int
    reread: bool
    inspected: int
    test_runs: int
    asked_for_tests: bool
    failed: int
    recovered: int
    longest_repeat: int
    reasoning_chars: int
    written_chars: int
    test_edits: int
    digest: str


def figures_of(trial: EvaluatedTrial, view: View, unparsed: int, patched: Sequence[str] = ()) -> TrialFigures:
    """The figures of a trial.

    Args:
        trial: What its record says.
        view: What it did.
        unparsed: Model calls in which a tool call could not be parsed.
        patched: Paths that its patch changes, where that is known.
    """
    actions = [action for call in view.calls for action in call.actions]
    return TrialFigures(
        trial=trial,
        calls=sum(not _ends(call) for call in view.calls) + unparsed,
        malformed=sum(call.malformed for call in view.calls) + unparsed,
        edits=sum(action.kind is Kind.EDIT for action in actions),
        reread=_reread(view.calls),
        inspected=_inspected(view.calls),
        test_runs=sum(action.kind is Kind.TEST for action in actions),
        asked_for_tests=_ASKS_FOR_TESTS.search(view.request) is not None,
        failed=sum(call.failed is True for call in view.calls),
        recovered=_recovered(view.calls),
        longest_repeat=max((len(list(run)) for _, run in groupby(call.key for call in view.calls)), default=0),
        reasoning_chars=view.reasoning_chars,
        written_chars=view.written_chars,
        test_edits=_test_edits(view.calls, patched),
        digest=hashlib.sha256("\n".join(call.key for call in view.calls).encode(errors="surrogatepass")).hexdigest(),
    )


def _ends(call: NeutralCall) -> bool:
    """Whether a call ends the trial: where there is a tool for it, which not every harness has."""
    return any(action.kind is Kind.FINISH for action in call.actions)


def _reread(calls: Sequence[NeutralCall]) -> bool:
    """A file that was edited is read by a later call."""
    edited = Files()
    for call in calls:
        if any(action.kind is Kind.READ and action.path in edited for action in call.actions):
            return True
        for action in call.actions:
            if action.kind is Kind.EDIT:
                edited.add(action.path)
    return False


def _inspected(calls: Sequence[NeutralCall]) -> int:
    """Different files that were read before the first edit."""
    found = Files()
    for action in (action for call in calls for action in call.actions):
        if action.kind is Kind.EDIT:
            break
        if action.kind is Kind.READ:
            found.add(action.path)
    return len(found)


def _recovered(calls: Sequence[NeutralCall]) -> int:
    """Failed calls after which, within `RECOVERY` calls, a call succeeds that is not the failed one over again."""
    return sum(
        any(later.failed is False and later.key != call.key for later in calls[at + 1 : at + 1 + RECOVERY])
        for at, call in enumerate(calls)
        if call.failed
    )


def _test_edits(calls: Sequence[NeutralCall], patched: Sequence[str]) -> int:
    edited = [action.path for call in calls for action in call.actions if action.kind is Kind.EDIT]
    found = Files()
    for path in (*edited, *patched):
        if _TEST_PATH.search(path):
            found.add(path)
    return len(found)
