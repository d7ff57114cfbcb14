"""The fidelity gate of a verl run: training law 4 where verl's trainer has recomputed old log-probs.

Invariant: a token is compared only under the very weights that sampled it, and a limit that is broken stops the run
before a weight has changed. Where trials overlap with training, tokens of the trainer's last version are compared under
a copy of it, which is asked for only where too few were sampled under the present one. What follows newer weights
within a row is not compared: servers route its whole prefix anew, and what is replayed are the routes under which each
position was sampled.

Diagnosis by counterfactual passes (`train.diagnosis`) is the embedded trainer's; here the limit that broke is named.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lego_rl.errors import FidelityError
from lego_rl.train.fidelity import ComparedTokens, FidelityReport, measure, violations
from lego_rl.train.settings import GateSettings

_FIX = {
    "pearson": "compare one call by hand: weights, template, temperature, dtype (docs/training.md)",
    "coverage": "rows of routes that a prefix-cache hit leaves out must be merged: report it with the trial",
}


_AFTER_A_CHANGE = -2


@dataclass(frozen=True)
class GatedRow:
    """What the gate reads of a row of the batch. R response positions.

    Attributes:
        mask: ``[R]`` 1 where a token is trained.
        engine: ``[R]`` behaviour log-probs.
        trainer: ``[R]`` the trainer's, before any update.
        spans: Which positions were sampled under which version: ``(call, start, position, count, version)``.
        routes_recorded: Positions whose route an engine call recorded.
        route_positions: Positions that have one; 0 for a dense model.
    """

    mask: NDArray[np.int64]
    engine: NDArray[np.float64]
    trainer: NDArray[np.float64]
    spans: Sequence[tuple[str, int, int, int, int]]
    routes_recorded: int = 0
    route_positions: int = 0

    def tokens(self) -> ComparedTokens:
        """Its trained tokens; those behind a change of weights are of no version."""
        versions = np.full(len(self.mask), _AFTER_A_CHANGE, np.int64)
        for _, start, _, count, version in self.spans:
            if version != self.spans[0][-1]:
                break
            versions[start : start + count] = version
        trained = self.mask.astype(bool)
        return ComparedTokens(self.engine[trained], self.trainer[trained], versions[trained])


def compared(rows: Sequence[GatedRow]) -> ComparedTokens:
    """All trained tokens of a batch."""
    return ComparedTokens.joined(row.tokens() for row in rows)


def coverage(rows: Sequence[GatedRow]) -> float:
    """Recorded ÷ needed rows of routes, which must be 1.

    Raises:
        FidelityError: ``coverage``.
    """
    recorded, needed = sum(row.routes_recorded for row in rows), sum(row.route_positions for row in rows)
    if recorded != needed:
        raise FidelityError(
            "coverage", f"routes of {recorded} positions were recorded where {needed} are replayed", _FIX["coverage"]
        )
    return 1.0


def needs_version_before(tokens: ComparedTokens, version: int, settings: GateSettings) -> bool:
    """Whether too few tokens were sampled under the trainer's weights, and those before can say more.

    Args:
        tokens: All of the batch.
        version: The trainer's.
        settings: The limits.
    """
    few = measure(tokens, version).compared_fraction < settings.min_compared_fraction
    return few and bool((tokens.version_N == version - 1).any())


def with_version_before(tokens: ComparedTokens, before: ComparedTokens, version: int) -> ComparedTokens:
    """The same tokens, those of the version before as that version's weights had them.

    Args:
        tokens: All of the batch, under the trainer's weights.
        before: The same in the same order, under the weights before.
        version: The trainer's.
    """
    older = tokens.version_N == version - 1
    return replace(
        tokens,
        trainer_N=np.where(older, before.trainer_N, tokens.trainer_N),
        version_N=np.where(older, version, tokens.version_N),
    )


def judge_batch(tokens: ComparedTokens, version: int, route_coverage: float, settings: GateSettings) -> FidelityReport:
    """Let a step pass, or stop the run.

    A batch of which too little can be compared, for it is older than the weights that are kept, passes as such a batch:
    its figures say how little that was.

    Args:
        tokens: Of the batch, each with the trainer's log-prob under its own weights where its version is `version`.
        version: The trainer's.
        route_coverage: See `coverage`.
        settings: The limits.

    Raises:
        FidelityError: A limit is broken.
    """
    report = measure(tokens, version, route_coverage=route_coverage)
    # However few they are, what can be compared has to agree.
    broken = violations(report, settings.model_copy(update={"min_compared_fraction": 0.0}))
    if broken:
        reason, _ = broken[0]
        problem = "; ".join(text for _, text in broken)
        raise FidelityError(reason, f"{problem} ({report.tokens} tokens)", _FIX.get(reason, _FIX["pearson"]))
    return report


def gate_figures(report: FidelityReport) -> Mapping[str, float]:
    """As verl's metrics; what is undefined is left out, and names that end in ``_total`` are summed over a step."""
    figures: dict[str, Any] = {
        "fidelity/compared_fraction": report.compared_fraction,
        "fidelity/pearson_probs": report.pearson_probs,
        "fidelity/pearson_logprobs": report.pearson_logprobs,
        "fidelity/mean_abs": report.mean_abs,
        "fidelity/max_abs": report.max_abs,
        "fidelity/k3": report.k3,
        "fidelity/route_coverage": report.route_coverage,
    }
    defined = {name: float(value) for name, value in figures.items() if np.isfinite(value)}
    return defined | {"fidelity/compared_tokens_total": float(report.tokens)}
