"""Generate, review, revise: at inference time a fresh session of the same harness reads a change before it counts.

Invariant: every session is an ordinary trial with a specification of its own, so it is retried, resumed and counted as
any other. Which change stands for an attempt is decided by what reviewers said, never by a reward: of an attempt's
candidates it is the last. A session that an infrastructure fault took leaves its attempt without a score.

A reviewer says ACCEPT or REVISE at the beginning of a line, the last such line counts, and what it does in its sandbox
is thrown away. Whoever says neither has sent nothing back.
"""

import hashlib
import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from lego_rl.errors import ConfigError
from lego_rl.messages import Message
from lego_rl.rollout.handover import Handover
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.spec import Grading, TrialSpec
from lego_rl.sandbox.verdict import Patch

REVIEW, REVISION = "review", "revision"
_SEED_BYTES = 7
_REVIEW_CHARS = 10_000
_SESSION = re.compile(rf"/({REVIEW}|{REVISION})-\d+\Z")
_DECISION = re.compile(r"^\W*(ACCEPT|REVISE)\b", re.MULTILINE)

_REVIEWER = """\
A colleague changed this repository to resolve the issue below. The change is in the work tree already. Review it: is \
the issue resolved, in every case that it names, and does everything else still work? Read files and run commands as \
you like, but do not mend anything yourself.

When you have decided, end with a line that begins with ACCEPT, or with one that begins with REVISE and says what has \
to be different.

The issue:

{instruction}

The change:

{change}
"""

_REVISER = """\
{instruction}

There is a change for this in the work tree already, which a reviewer sent back. Make the work tree right.

The review:

{review}

The change:

{change}
"""


class Decision(StrEnum):
    """What became of a change in a review."""

    ACCEPTED = "accepted"
    SENT_BACK = "sent_back"
    UNDECIDED = "undecided"
    """The reviewer said neither: the change stands."""


class RunStage(Protocol):
    """Runs trials, or loads them where they are scored."""

    def __call__(
        self, specs: Sequence[TrialSpec], handovers: Mapping[str, Handover], /
    ) -> Awaitable[Sequence[TrialRecord]]:
        """One record for every specification, in their order.

        Args:
            specs: What to run.
            handovers: Trial id → what it begins with.
        """
        ...


@dataclass(frozen=True)
class ReviewedAttempt:
    """All sessions of one attempt at a task.

    Attributes:
        candidates: Trials that made a change, in their order; at least one.
        reviews: Trials that judged one, in their order.
    """

    candidates: tuple[TrialRecord, ...]
    reviews: tuple[TrialRecord, ...] = ()

    @property
    def final(self) -> TrialRecord:
        """The trial whose change stands for the attempt."""
        return self.candidates[-1]

    @property
    def sessions(self) -> tuple[TrialRecord, ...]:
        """All trials of the attempt."""
        return self.candidates + self.reviews

    @property
    def is_whole(self) -> bool:
        """Whether no session was lost to a fault that is not the policy's."""
        return not any(record.outcome.row.is_masked for record in self.sessions)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """What each review came to."""
        return tuple(decision_of(record) for record in self.reviews)


async def reviewed(drafts: Sequence[TrialRecord], run: RunStage, rounds: int) -> list[ReviewedAttempt]:
    """Have changes reviewed, and those that are sent back revised, until all stand or the rounds are over.

    Args:
        drafts: Finished trials whose changes are to be reviewed.
        run: Runs the sessions of a stage.
        rounds: Most reviews of an attempt; the last one is followed by a revision, too.

    Returns:
        One for every draft, in their order.

    Raises:
        ConfigError: There is no round.
    """
    if rounds < 1:
        raise ConfigError(f"{rounds} rounds of review are none", "ask for at least 1")
    attempts = [ReviewedAttempt((draft,)) for draft in drafts]
    for number in range(1, rounds + 1):
        open_ = [at for at, attempt in enumerate(attempts) if _goes_on(attempt)]
        for at, review in zip(open_, await _stage([attempts[at] for at in open_], run, number, REVIEW), strict=True):
            attempts[at] = replace(attempts[at], reviews=(*attempts[at].reviews, review))
        back = [at for at in open_ if attempts[at].is_whole and attempts[at].decisions[-1] is Decision.SENT_BACK]
        for at, revision in zip(back, await _stage([attempts[at] for at in back], run, number, REVISION), strict=True):
            attempts[at] = replace(attempts[at], candidates=(*attempts[at].candidates, revision))
    return attempts


def _goes_on(attempt: ReviewedAttempt) -> bool:
    """Whether the last candidate has not been reviewed, and can be."""
    return attempt.is_whole and len(attempt.reviews) < len(attempt.candidates)


async def _stage(attempts: Sequence[ReviewedAttempt], run: RunStage, number: int, kind: str) -> Sequence[TrialRecord]:
    """One session of every attempt."""
    specs = [session_spec(attempt.candidates[0].spec, kind, number) for attempt in attempts]
    handovers = {spec.id: _handover(attempt, kind) for spec, attempt in zip(specs, attempts, strict=True)}
    return await run(specs, handovers) if specs else ()


def session_spec(draft: TrialSpec, kind: str, number: int) -> TrialSpec:
    """The specification of a further session of a draft's attempt.

    Args:
        draft: The draft's.
        kind: `REVIEW` or `REVISION`.
        number: Of the round, from 1.
    """
    label = f"{draft.label}/{kind}-{number}"
    seed = hashlib.sha256(f"{draft.seed}/{kind}/{number}".encode()).digest()[:_SEED_BYTES]
    grading = Grading.NONE if kind == REVIEW else draft.grading
    return replace(draft, label=label, seed=int.from_bytes(seed), grading=grading)


def is_session(label: str) -> bool:
    """Whether trials of a label are further sessions of other trials."""
    return _SESSION.search(label) is not None


def _handover(attempt: ReviewedAttempt, kind: str) -> Handover:
    review = "" if kind == REVIEW else final_words(attempt.reviews[-1])[-_REVIEW_CHARS:]
    template = _REVIEWER if kind == REVIEW else _REVISER

    def retold(instruction: str, change: str) -> str:
        shown = change or "(nothing was changed)\n"
        return template.format(instruction=instruction.strip(), change=shown, review=review)

    return Handover(attempt.final.patch or Patch(), retold)


def decision_of(review: TrialRecord) -> Decision:
    """What a review came to."""
    said = _DECISION.findall(final_words(review))
    if not said:
        return Decision.UNDECIDED
    return Decision.ACCEPTED if said[-1] == "ACCEPT" else Decision.SENT_BACK


def final_words(record: TrialRecord) -> str:
    """The last thing that the policy said in its main conversation, the text of a closing tool call included."""
    captured = record.trajectory or record.transcript
    if captured is None:
        return ""
    spoken = [_last_words(conversation) for conversation in captured.conversations]
    decided = [text for text in spoken if _DECISION.search(text)]
    return next(iter(decided[-1:] or spoken[:1]), "")


def _last_words(conversation: Sequence[Message]) -> str:
    said = next((message for message in reversed(conversation) if message.role == "assistant"), None)
    if said is None:
        return ""
    arguments = (value for call in said.tool_calls for value in call.arguments.values() if isinstance(value, str))
    return "\n".join(text for text in (said.content, *arguments) if text)
