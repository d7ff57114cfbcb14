"""The fidelity gate: engine and trainer must mean the same policy, or the run stops before it learns otherwise.

Invariant: only tokens sampled under the very weights that the trainer holds are compared, and a failed check raises
before any weight has changed. Claims (version, digest, template) are checked before measurements; a measurement that
fails is explained by undoing one possible cause at a time (`diagnosis`).

Reasons of `FidelityError`, all stable:
    coverage: Routes are missing.
    stale_weights: The engine samples from older weights.
    weights: The engine's tensors are not the trainer's.
    template: Prompts are not what the template renders.
    compared_fraction: Too few tokens to judge by.
    routes: The recorded experts are not those that ran.
    temperature: The engine's is not the trainer's.
    pearson, mean_abs, max_abs, k3: The limit that was broken, where no cause is found.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lego_rl.errors import FidelityError
from lego_rl.gateway.trajectory import Segment
from lego_rl.train.diagnosis import Counterfactuals, explain
from lego_rl.train.settings import GateSettings

type DigestCovers = Literal["in_use", "handed_over"]


@dataclass(frozen=True)
class PromptCheck:
    """A prompt as the engine was given it, and the same conversation rendered again from its messages."""

    recorded: tuple[int, ...]
    rendered: tuple[int, ...]


@dataclass(frozen=True)
class EngineClaim:
    """What the engine and the gateway say of themselves when a step's trials are done.

    Attributes:
        weight_version: Version that the engine samples from.
        digest: Digest of the engine's tensors; ``None`` where it cannot tell.
        digest_covers: The tensors that the engine computes with now (``in_use``), or those that it took over last and
            has put into a layout of its own (``handed_over``): what it computes with, they do not prove.
        expected_digest: The same function over the weights that the trainer last gave it.
        previous_digest: The same over those before.
        prompts: First prompts of some trials, rendered again.
    """

    weight_version: int
    digest: str | None = None
    digest_covers: DigestCovers = "in_use"
    expected_digest: str | None = None
    previous_digest: str | None = None
    prompts: tuple[PromptCheck, ...] = ()

    @property
    def weights_verified(self) -> bool:
        """Whether the tensors that the engine computes with are known to be the trainer's."""
        return self._agrees and self.digest_covers == "in_use"

    @property
    def contradicted(self) -> bool:
        """Whether the engine's tensors are known to be others than the trainer's."""
        return self.digest is not None and not self._agrees

    @property
    def _agrees(self) -> bool:
        return self.digest is not None and self.digest == self.expected_digest


@dataclass(frozen=True)
class FidelityReport:
    """One step's figures. Log-probs in nats, of tokens with mask 1 sampled under the weights compared.

    Attributes:
        tokens: Tokens compared.
        compared_fraction: Of all tokens of trials that count; 1.0 where there is none.
        pearson_probs: Correlation of probabilities; verl's ``rollout_actor_probs_pearson_corr``. NaN where undefined.
        pearson_logprobs: Correlation of log-probs. NaN where undefined.
        mean_abs: Mean of |engine - trainer|.
        max_abs: Largest of |engine - trainer|.
        k3: Mean k3 estimate of KL(engine ‖ trainer); verl's ``rollout_corr/k3_kl``.
        engine_sd: Standard deviation of the engine's log-probs.
        route_coverage: Recorded ÷ needed rows of routes; 1.0 where nothing is replayed.
        route_overlap: Recorded experts that the trainer's router chooses too; 1.0 where nothing is replayed.
        weight_version: Version compared.
    """

    tokens: int
    compared_fraction: float
    pearson_probs: float
    pearson_logprobs: float
    mean_abs: float
    max_abs: float
    k3: float
    engine_sd: float
    route_coverage: float
    route_overlap: float
    weight_version: int


@dataclass(frozen=True)
class ComparedTokens:
    """Engine and trainer over the same tokens.

    Attributes:
        engine_N: Log-probs when sampled.
        trainer_N: Log-probs under the trainer's weights, before any update.
        version_N: Weight version that each token was sampled under.
    """

    engine_N: NDArray[np.float64]
    trainer_N: NDArray[np.float64]
    version_N: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: "Iterable[ComparedTokens]") -> "ComparedTokens":
        """All tokens of several micro-batches."""
        empty = cls(np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
        every = [empty, *parts]
        return cls(*(np.concatenate([getattr(part, f.name) for part in every]) for f in fields(cls)))

    def under(self, version: int) -> "ComparedTokens":
        """Those that were sampled under one version."""
        keep_N = self.version_N == version
        return ComparedTokens(self.engine_N[keep_N], self.trainer_N[keep_N], self.version_N[keep_N])


def measure(
    tokens: ComparedTokens, version: int, *, route_coverage: float = 1.0, route_overlap: float = 1.0
) -> FidelityReport:
    """Figures of the tokens that were sampled under `version`."""
    same = tokens.under(version)
    engine_N, trainer_N = same.engine_N, same.trainer_N
    log_ratio_N = np.clip(trainer_N - engine_N, -20.0, 20.0)
    empty = not len(engine_N)
    return FidelityReport(
        tokens=len(engine_N),
        compared_fraction=len(engine_N) / len(tokens.engine_N) if len(tokens.engine_N) else 1.0,
        pearson_probs=_pearson(np.exp(engine_N), np.exp(trainer_N)),
        pearson_logprobs=_pearson(engine_N, trainer_N),
        mean_abs=float("nan") if empty else float(np.abs(engine_N - trainer_N).mean()),
        max_abs=float("nan") if empty else float(np.abs(engine_N - trainer_N).max()),
        k3=float("nan") if empty else float(_k3_N(log_ratio_N).mean()),
        engine_sd=float("nan") if empty else float(engine_N.std()),
        route_coverage=route_coverage,
        route_overlap=route_overlap,
        weight_version=version,
    )


def _k3_N(log_ratio_N: NDArray[np.float64]) -> NDArray[np.float64]:
    """k3 of each token, without what ``exp(x) - x - 1`` loses next to 0: rounding must not make it negative."""
    return np.maximum(np.expm1(log_ratio_N) - log_ratio_N, 0.0)


def _pearson(a_N: NDArray[np.float64], b_N: NDArray[np.float64]) -> float:
    if len(a_N) < 2 or a_N.std() == 0 or b_N.std() == 0:
        return float("nan")
    return float(np.corrcoef(a_N, b_N)[0, 1])


def check_claim(claim: EngineClaim, version: int) -> None:
    """Check what the engine says of itself against the trainer.

    Args:
        claim: The engine's and the gateway's word.
        version: The trainer's weight version.

    Raises:
        FidelityError: ``stale_weights``, ``weights`` or ``template``.
    """
    if claim.weight_version != version:
        raise FidelityError(
            "stale_weights",
            f"the engine samples from weight version {claim.weight_version}, the trainer holds {version}",
            "push the weights after every update and before the next trial starts",
        )
    if claim.digest is not None and claim.contradicted:
        if claim.digest == claim.previous_digest:
            raise FidelityError(
                "stale_weights",
                f"the engine calls its weights version {version}, but their digest is that of the version before",
                "the last push did not reach the engine's tensors",
            )
        raise FidelityError(
            "weights",
            f"the engine's tensors have digest {claim.digest[:9]}, the trainer's {(claim.expected_digest or '?')[:9]}",
            "a tensor was altered on the way or afterwards; load the weights again and compare tensor by tensor",
        )
    for check in claim.prompts:
        if check.recorded != check.rendered:
            raise FidelityError("template", _first_difference(check), "engine and trainer need the same chat template")


def _first_difference(check: PromptCheck) -> str:
    pairs = zip(check.recorded, check.rendered, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(check.recorded), len(check.rendered)))
    return (
        f"a recorded prompt of {len(check.recorded)} ids and its conversation rendered again "
        f"({len(check.rendered)} ids) differ from position {at} on"
    )


def check_coverage(segments: Iterable[Segment]) -> float:
    """Recorded ÷ needed rows of routes over all segments, which must be 1.

    Raises:
        FidelityError: ``coverage``.
    """
    covered = [
        (segment.routes_recorded, len(segment.token_ids) - 1) for segment in segments if segment.routes is not None
    ]
    recorded, needed = sum(r for r, _ in covered), sum(n for _, n in covered)
    if recorded != needed:
        raise FidelityError(
            "coverage",
            f"the engine recorded routes of {recorded} positions where {needed} are replayed",
            "rows missing after a prefix-cache hit must be merged from the token tree",
        )
    return 1.0


def violations(report: FidelityReport, settings: GateSettings) -> list[tuple[str, str]]:
    """The limits that a report breaks, reason and sentence each.

    None where engine and trainer agree, or where a step has no token that counts: it will change nothing.
    """
    broken: list[tuple[str, str]] = []
    if report.compared_fraction < settings.min_compared_fraction:
        share = f"{report.tokens} tokens, {report.compared_fraction:.3f} of all"
        return [("compared_fraction", f"{share}, were sampled under version {report.weight_version}")]
    if not report.tokens:
        return []
    if report.engine_sd >= settings.flat_sd:
        for label, value, limit in (
            ("log-probs", report.pearson_logprobs, settings.min_pearson_logprobs),
            ("probabilities", report.pearson_probs, settings.min_pearson_probs),
        ):
            if not value >= limit:
                broken.append(("pearson", f"Pearson correlation of {label} {value:.6f} is below {limit}"))
    for name, value, limit in (
        ("mean_abs", report.mean_abs, settings.max_mean_abs),
        ("max_abs", report.max_abs, settings.max_abs),
        ("k3", report.k3, settings.max_k3),
    ):
        if not value <= limit:
            broken.append((name, f"{name} {value:.6f} is above {limit}"))
    if not report.route_overlap >= settings.min_route_overlap:
        share = f"{report.route_overlap:.4f} of the recorded experts, not {settings.min_route_overlap}"
        broken.append(("routes", f"the trainer's router agrees with {share}"))
    return broken


def judge(
    report: FidelityReport,
    settings: GateSettings,
    counterfactuals: Counterfactuals,
    *,
    weights_verified: bool,
) -> None:
    """Let the step pass, or stop the run with the most likely reason.

    Args:
        report: The step's figures.
        settings: The limits.
        counterfactuals: Recomputes log-probs with one possible cause undone; asked only where a limit is broken.
        weights_verified: The engine's own tensors are known to be the trainer's.

    Raises:
        FidelityError: See the module.
    """
    broken = violations(report, settings)
    if not broken:
        return
    reason, problem = broken[0]
    if reason == "compared_fraction":
        raise FidelityError(reason, problem, "see the engine's record of this step")
    problem = "; ".join(text for _, text in broken)
    cause = explain(counterfactuals, settings, weights_verified=weights_verified)
    if cause is None:
        raise FidelityError(reason, problem, "no known cause explains the difference; compare one call by hand")
    raise FidelityError(cause.reason, f"{cause.evidence} ({problem})", cause.fix)
