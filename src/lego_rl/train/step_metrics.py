"""Figures of a training step.

Invariant: every figure is over the trained tokens or segments of the whole step, however it was cut into micro-batches
and updates.
"""

import math
from dataclasses import asdict, dataclass, field

import torch
from torch import Tensor

from lego_rl.train.fidelity import FidelityReport
from lego_rl.train.objective import Objective


@dataclass(frozen=True)
class LossFigures:
    """Means over what was trained. 0 where nothing was.

    Attributes:
        policy_loss: Sum of the updates' policy losses ÷ updates.
        kl: Mean low-variance KL to the reference of a trained token, in nats.
        entropy: Mean entropy of the sampling distribution at a trained token, in nats.
        ratio_mean: Mean sequence ratio of a segment.
        ratio_min: Smallest sequence ratio.
        ratio_max: Largest sequence ratio.
        clip_fraction_low: Share of segments whose loss uses the clip below.
        clip_fraction_high: Share of segments whose loss uses the clip above.
        importance_mean: Mean importance weight of a token, after truncation.
        importance_min: Smallest importance weight.
        importance_max: Largest importance weight, before truncation.
        importance_capped: Share of tokens whose weight was truncated.
    """

    policy_loss: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0
    ratio_mean: float = 0.0
    ratio_min: float = 0.0
    ratio_max: float = 0.0
    clip_fraction_low: float = 0.0
    clip_fraction_high: float = 0.0
    importance_mean: float = 0.0
    importance_min: float = 0.0
    importance_max: float = 0.0
    importance_capped: float = 0.0


@dataclass(frozen=True)
class StepMetrics:
    """One training step.

    Attributes:
        version: Weight version after the step.
        updates: Optimizer updates taken; an update to which nothing contributes is not taken.
        trials: Trials that contributed.
        segments: Segments trained.
        tokens: Tokens trained.
        excluded_trials: Why trials contributed nothing: reason → trials.
        excluded_tokens: Trainable tokens that were not trained: reason → tokens.
        reward_mean: Mean reward of the trials that count; ``None`` where none does.
        loss: Figures of the objective.
        grad_norm: Mean gradient norm of the updates, before clipping.
        positions: Positions computed by one forward pass over the step, padding included.
        fidelity: What the gate measured.
        seconds: Wall-clock of the step.
    """

    version: int
    updates: int
    trials: int
    segments: int
    tokens: int
    excluded_trials: dict[str, int]
    excluded_tokens: dict[str, int]
    reward_mean: float | None
    loss: LossFigures
    grad_norm: float
    positions: int
    fidelity: FidelityReport
    seconds: float

    def flat(self) -> dict[str, float]:
        """``section/name`` → value, for a log line; what is undefined is left out."""
        nested = asdict(self)
        figures: dict[str, float] = {}
        for key, value in nested.items():
            inner = value if isinstance(value, dict) else {"": value}
            for name, number in inner.items():
                if number is not None and not math.isnan(number):
                    figures[f"{key}/{name}" if name else f"train/{key}"] = float(number)
        return figures


@dataclass
class LossTally:
    """Collects `LossFigures` over micro-batches."""

    policy_loss: float = 0.0
    _kl: list[Tensor] = field(default_factory=list)
    _entropy: list[Tensor] = field(default_factory=list)
    _ratio: list[Tensor] = field(default_factory=list)
    _low: list[Tensor] = field(default_factory=list)
    _high: list[Tensor] = field(default_factory=list)
    _weight: list[Tensor] = field(default_factory=list)
    _raw: list[Tensor] = field(default_factory=list)

    def add(self, objective: Objective, mask_BT: Tensor, entropy_N: Tensor) -> None:
        """Count one micro-batch in."""
        self.policy_loss += float(objective.policy_loss)
        self._ratio.append(objective.policy.ratio_B)
        self._low.append(objective.policy.clipped_low_B)
        self._high.append(objective.policy.clipped_high_B)
        self._weight.append(objective.weights.weight_BT[mask_BT])
        self._raw.append(objective.weights.raw_BT[mask_BT])
        self._entropy.append(entropy_N)
        if objective.kl_BT is not None:
            self._kl.append(objective.kl_BT.detach()[mask_BT])

    def figures(self, updates: int) -> LossFigures:
        """The step's figures."""
        if not self._ratio:
            return LossFigures()
        ratio, weight, raw = torch.cat(self._ratio), torch.cat(self._weight), torch.cat(self._raw)
        return LossFigures(
            policy_loss=self.policy_loss / max(1, updates),
            kl=float(torch.cat(self._kl).mean()) if self._kl else 0.0,
            entropy=float(torch.cat(self._entropy).mean()),
            ratio_mean=float(ratio.mean()),
            ratio_min=float(ratio.min()),
            ratio_max=float(ratio.max()),
            clip_fraction_low=float(torch.cat(self._low).double().mean()),
            clip_fraction_high=float(torch.cat(self._high).double().mean()),
            importance_mean=float(weight.mean()),
            importance_min=float(weight.min()),
            importance_max=float(raw.max()),
            importance_capped=float((raw > weight).double().mean()),
        )
