"""Why engine and trainer disagree: undo one possible cause at a time and see whether the gap closes.

Invariant: a cause is named only on evidence of its own. Undoing routing, temperature or the last update is a
counterfactual forward pass that must close most of the gap. Where none does, verified tensors leave the prompt, whose
error is there from a call's first token on; unverified ones leave a damaged expert, whose error is carried by the
tokens that it served.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lego_rl.train.settings import GateSettings

GOLDEN = (math.sqrt(5) - 1) / 2
WIDEST_TEMPERATURE = 4.0
"""Temperatures between the trainer's ÷ and × this are tried."""
LEAST_TEMPERATURE_CHANGE = 0.01
"""A best fit nearer to the trainer's temperature than this is no explanation."""
LEAST_TOKENS_OF_AN_EXPERT = 8
"""An expert that served fewer, or all but fewer, of the tokens is not judged."""
LEAST_EXPERT_T = 5.0
"""Welch's t of log |Δ| between the tokens that an expert served and the others."""
LEAST_EXPERT_RATIO = 1.5
"""Geometric mean of |Δ| of the tokens that an expert served ÷ of the others."""


@dataclass(frozen=True)
class Cause:
    """An explanation.

    Attributes:
        reason: Stable name, as in `FidelityError.reason`.
        evidence: What was measured.
        fix: What to do.
    """

    reason: str
    evidence: str
    fix: str


@dataclass(frozen=True)
class TokenOrigin:
    """Where the tokens under diagnosis are from. N tokens, E layers, K experts.

    Attributes:
        engine_N: Log-probs when sampled.
        call_position_N: Position of a token within the call that sampled it.
        experts_NEK: Experts recorded at the position that predicts a token; ``None`` for a dense model.
    """

    engine_N: NDArray[np.float64]
    call_position_N: NDArray[np.int64]
    experts_NEK: NDArray[np.int64] | None


class Counterfactuals(Protocol):
    """The trainer's log-probs of the tokens under diagnosis, ``[N]`` each, with one thing changed."""

    def origin(self) -> TokenOrigin:
        """The tokens."""
        ...

    def as_compared(self) -> NDArray[np.float64]:
        """Nothing changed."""
        ...

    def own_routing(self) -> NDArray[np.float64] | None:
        """The router chooses again; ``None`` where nothing is replayed."""
        ...

    def previous_weights(self) -> NDArray[np.float64] | None:
        """Weights before the last update; ``None`` before the first."""
        ...

    def at_temperature(self, factor: float) -> NDArray[np.float64]:
        """Logits divided by `factor` times the trainer's temperature."""
        ...


def explain(suspects: Counterfactuals, settings: GateSettings, *, weights_verified: bool) -> Cause | None:
    """The most likely cause of a gap, or ``None``.

    Args:
        suspects: The counterfactual forward passes; each is run at most a few dozen times on the tokens at hand.
        settings: What counts as explained.
        weights_verified: The engine's own tensors are known to be the trainer's.
    """
    origin = suspects.origin()
    engine_N = origin.engine_N
    gap_N = np.abs(engine_N - suspects.as_compared())
    gap = float(gap_N.mean())
    undone = [
        (residual, cause)
        for residual, cause in (
            _routes(suspects, engine_N, gap),
            _temperature(suspects, engine_N, gap),
            _stale(suspects, engine_N, gap),
        )
        if residual <= settings.explained * gap
    ]
    if undone:
        return min(undone, key=lambda pair: pair[0])[1]
    return _prompt(origin, gap_N, settings) if weights_verified else _expert(origin, gap_N)


def _routes(suspects: Counterfactuals, engine_N: NDArray[np.float64], gap: float) -> tuple[float, Cause]:
    own_N = suspects.own_routing()
    residual = math.inf if own_N is None else float(np.abs(engine_N - own_N).mean())
    evidence = f"with the trainer's own routing mean |Δ| falls from {gap:.4f} to {residual:.4f}"
    return residual, Cause(
        "routes", evidence, "the recorded routes are not those that ran; check their alignment by one"
    )


def _temperature(suspects: Counterfactuals, engine_N: NDArray[np.float64], gap: float) -> tuple[float, Cause]:
    def error(log_factor: float) -> float:
        return float(np.abs(engine_N - suspects.at_temperature(math.exp(log_factor))).mean())

    low, high = -math.log(WIDEST_TEMPERATURE), math.log(WIDEST_TEMPERATURE)
    while high - low > LEAST_TEMPERATURE_CHANGE / 4:
        inner, outer = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        if error(inner) <= error(outer):
            high = outer
        else:
            low = inner
    best = (low + high) / 2
    residual = error(best) if abs(best) > LEAST_TEMPERATURE_CHANGE else math.inf
    evidence = (
        f"at {math.exp(best):.3f} times the trainer's temperature mean |Δ| falls from {gap:.4f} to {residual:.4f}"
    )
    return residual, Cause("temperature", evidence, "engine and trainer must use the temperature of the recipe")


def _stale(suspects: Counterfactuals, engine_N: NDArray[np.float64], gap: float) -> tuple[float, Cause]:
    previous_N = suspects.previous_weights()
    residual = math.inf if previous_N is None else float(np.abs(engine_N - previous_N).mean())
    evidence = f"under the weights before the last update mean |Δ| falls from {gap:.4f} to {residual:.4f}"
    return residual, Cause("stale_weights", evidence, "the last push did not reach the engine's tensors")


def _expert(origin: TokenOrigin, gap_N: NDArray[np.float64]) -> Cause | None:
    """The expert whose tokens carry the error, if one stands out."""
    if origin.experts_NEK is None:
        return None
    log_gap_N = np.log(gap_N + 1e-9)
    worst: tuple[float, float, int, int] | None = None
    for layer in range(origin.experts_NEK.shape[1]):
        for expert in np.unique(origin.experts_NEK[:, layer]):
            served_N = (origin.experts_NEK[:, layer] == expert).any(-1)
            if not LEAST_TOKENS_OF_AN_EXPERT <= served_N.sum() <= len(served_N) - LEAST_TOKENS_OF_AN_EXPERT:
                continue
            t, ratio = _contrast(log_gap_N[served_N], log_gap_N[~served_N])
            if worst is None or t > worst[0]:
                worst = (t, ratio, layer, int(expert))
    if worst is None or worst[0] < LEAST_EXPERT_T or worst[1] < LEAST_EXPERT_RATIO:
        return None
    t, ratio, layer, number = worst
    evidence = (
        f"tokens served by expert {number} of routed layer {layer} carry {ratio:.1f} times the error of the others"
    )
    return Cause("weights", evidence + f" (t = {t:.1f})", "load the engine's weights again; that expert is damaged")


def _contrast(a_N: NDArray[np.float64], b_N: NDArray[np.float64]) -> tuple[float, float]:
    """Welch's t, and the ratio of geometric means, of two samples of logs."""
    difference = float(a_N.mean() - b_N.mean())
    spread = math.sqrt(a_N.var(ddof=1) / len(a_N) + b_N.var(ddof=1) / len(b_N))
    return difference / max(spread, 1e-12), math.exp(difference)


def _prompt(origin: TokenOrigin, gap_N: NDArray[np.float64], settings: GateSettings) -> Cause | None:
    """Another prompt: the tensors are right, and the very first token of a call is off already."""
    first_N = origin.call_position_N == 0
    if not first_N.any():
        return None
    first = float(gap_N[first_N].mean())
    if first < settings.first_token_share * float(gap_N.mean()):
        return None
    evidence = f"the tensors are verified, and mean |Δ| is {first:.4f} at the first token of a call already"
    return Cause(
        "template", evidence, "the engine was not given the recorded prompt; compare the template on both sides"
    )
