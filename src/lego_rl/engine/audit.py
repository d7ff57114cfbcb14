"""The auditor: a second book, kept outside the gateway, of what every engine call returned.

Invariant: `reconcile` passes a batch only if each of its tokens names a call and a position, no two the same, at which
the engine returned that very id with that very log-prob, bit for bit. It knows nothing of sessions or trainers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lego_rl.engine.audit_log import AuditLog, Returned
from lego_rl.engine.protocol import Engine, Sample, Sampling


class TrainedTokens(Protocol):
    """What a training batch claims, N tokens in any order."""

    @property
    def call_ids(self) -> Sequence[str]:
        """``[N]`` the call that sampled each token."""
        ...

    @property
    def positions(self) -> NDArray[np.int64]:
        """``[N]`` its position within that call's `Sample.token_ids`."""
        ...

    @property
    def token_ids(self) -> NDArray[np.int64]:
        """``[N]`` its id."""
        ...

    @property
    def logprobs(self) -> NDArray[np.float32]:
        """``[N]`` its behaviour log-prob."""
        ...


@dataclass
class Reconciliation:
    """How a batch compares with what the engine returned.

    Attributes:
        tokens: Tokens that the batch claims.
        calls: Different calls that it names.
        unknown_calls: Of these, calls that the auditor does not hold: never made, or already settled.
        misplaced: Tokens at a position that their call does not have.
        wrong_ids: Tokens with another id than sampled.
        wrong_logprobs: Tokens with the right id and another log-prob than recorded.
        repeated: Tokens claimed more than once, not counting the first claim.
        reason: The first defect in one line; empty if there is none.
    """

    tokens: int
    calls: int
    unknown_calls: int = 0
    misplaced: int = 0
    wrong_ids: int = 0
    wrong_logprobs: int = 0
    repeated: int = 0
    reason: str = ""

    @property
    def exact(self) -> bool:
        """Whether every claim holds."""
        return not self.reason

    def explain(self, reason: str) -> None:
        """Keep the first reason."""
        self.reason = self.reason or reason


class AuditedEngine:
    """An `Engine` that writes down what another one returns.

    Args:
        engine: Who answers.
        log: Where its answers are kept until they are settled.
    """

    def __init__(self, engine: Engine, log: AuditLog) -> None:
        self._engine = engine
        self._log = log

    @property
    def weight_version(self) -> int:
        """The wrapped engine's."""
        return self._engine.weight_version

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        """The wrapped engine's answer, which is written down before anyone else sees it."""
        sample = await self._engine.generate(prompt_ids, sampling, routes_from=routes_from)
        self._log.record(sample)
        return sample

    async def progressed(self) -> None:
        """The wrapped engine's."""
        await self._engine.progressed()

    def reconcile(self, trained: TrainedTokens) -> Reconciliation:
        """Compare a training batch with what the engine returned; see `reconcile`."""
        return reconcile(trained, self._log)

    def settle_before(self, version: int) -> None:
        """Forget the calls of older weight versions: nobody will train on one any more, and a later claim on one is a
        defect."""
        self._log.settle_before(version)

    def settle_all(self) -> None:
        """Forget every call so far: nobody will train on one any more, and a later claim on one is a defect."""
        self._log.clear()


def reconcile(trained: TrainedTokens, log: AuditLog) -> Reconciliation:
    """Compare a training batch with what the engine returned.

    Args:
        trained: What the batch claims.
        log: What the engine returned.

    Returns:
        Counts of every kind of defect, and the first one in words.

    Raises:
        ValueError: The four arrays differ in length.
    """
    positions, token_ids = np.asarray(trained.positions, np.int64), np.asarray(trained.token_ids, np.int64)
    logprobs = np.asarray(trained.logprobs, np.float32)
    if not len(trained.call_ids) == len(positions) == len(token_ids) == len(logprobs):
        raise ValueError("call_ids, positions, token_ids and logprobs must have one entry a token")
    claims: dict[str, list[int]] = {}
    for index, call_id in enumerate(trained.call_ids):
        claims.setdefault(call_id, []).append(index)
    found = Reconciliation(len(positions), len(claims))
    for call_id, indices in claims.items():
        claim = _Claim(call_id, positions[indices], token_ids[indices], logprobs[indices])
        returned = log.lookup(call_id)
        if returned is None:
            found.unknown_calls += 1
            found.explain(f"call {call_id} is trained but not on the auditor's books: never made, or already settled")
        else:
            _compare(found, claim, returned)
    return found


@dataclass(frozen=True)
class _Claim:
    """What a batch claims of one call."""

    call_id: str
    positions: NDArray[np.int64]
    token_ids: NDArray[np.int64]
    logprobs: NDArray[np.float32]


def _compare(found: Reconciliation, claim: _Claim, returned: Returned) -> None:
    """Check all claims on one call."""
    call, count = f"call {claim.call_id}", len(returned.token_ids)
    inside = (claim.positions >= 0) & (claim.positions < count)
    if not inside.all():
        found.misplaced += int((~inside).sum())
        found.explain(f"{call} sampled {count} tokens, position {claim.positions[~inside][0]} is trained")
    positions, token_ids, logprobs = claim.positions[inside], claim.token_ids[inside], claim.logprobs[inside]
    places, times = np.unique(positions, return_counts=True)
    if len(places) < len(positions):
        found.repeated += len(positions) - len(places)
        found.explain(f"{call}, position {places[times > 1][0]}: trained {times.max()} times")
    sampled, recorded = returned.token_ids[positions], returned.logprobs[positions]
    for at in np.flatnonzero(token_ids != sampled):
        found.wrong_ids += 1
        found.explain(f"{call}, position {positions[at]}: id {token_ids[at]} is trained, {sampled[at]} was sampled")
    for at in np.flatnonzero((token_ids == sampled) & (logprobs != recorded)):
        found.wrong_logprobs += 1
        found.explain(
            f"{call}, position {positions[at]}: log-prob {logprobs[at]:.9g} is trained, {recorded[at]:.9g} was recorded"
        )
