"""The embedded trainer: trials in, one step of GSPO, metrics out.

Invariant (training laws of the contract): ``old`` is what this trainer's own weights say, with replay, before the first
update of a batch; the gate has passed before any weight changes; the divisor is prompts × n whatever happened to the
trials; a step that nothing contributes to changes nothing.

Where a step is one update, the log-probs of its own forward pass, detached, *are* the recomputed old ones: the weights
are the same and so is the computation, so every ratio is exactly 1. Where it is more, old comes from a pass over the
whole batch before the first update, in the very micro-batches that are trained.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from lego_rl.engine.embedded.policy import load_policy
from lego_rl.errors import ConfigError
from lego_rl.train import fidelity, optim, persistence
from lego_rl.train.batch import MicroBatch, Row, Selection, TrainingTrial, plan, select
from lego_rl.train.card import PolicyCard
from lego_rl.train.counterfactuals import Recomputation
from lego_rl.train.fidelity import EngineClaim, FidelityReport
from lego_rl.train.forward import TokenLogprobs, logprobs
from lego_rl.train.objective import objective
from lego_rl.train.observed import Observed, compared_tokens, route_overlap
from lego_rl.train.reconcile import TrainedTokens, trained_tokens
from lego_rl.train.replay import check_routes
from lego_rl.train.settings import TrainSettings
from lego_rl.train.step_metrics import LossTally, StepMetrics


@dataclass(frozen=True)
class BatchShape:
    """What the rollout delivers each step.

    Attributes:
        prompts: Groups of a step.
        trials_per_prompt: n, trials of a group.
        temperature: Sampling temperature; log-probs are those of the sampling distribution.
    """

    prompts: int
    trials_per_prompt: int
    temperature: float


class Trainer:
    """Trains one policy.

    Args:
        policy: Float32 causal language model; trained in place.
        reference: The policy that the KL holds on to; ``None`` exactly where the KL coefficient is 0.
        source: The Hugging Face directory that the policy came from; its tokenizer and template go into checkpoints.
        settings: How to train.
        shape: What a step is.

    Raises:
        ConfigError: The settings contradict each other or the policy.
    """

    def __init__(
        self,
        policy: PreTrainedModel,
        reference: PreTrainedModel | None,
        source: Path,
        settings: TrainSettings,
        shape: BatchShape,
    ) -> None:
        if shape.prompts % settings.updates:
            raise ConfigError(
                f"{shape.prompts} prompts a step cannot be split into {settings.updates} updates",
                "choose train.updates that divides rollout.tasks_per_step",
            )
        self.policy = policy
        self.version = 0
        """Finished steps. The engine must carry the same number while it samples for the next one."""
        self._reference = reference.requires_grad_(False) if reference is not None else None
        self._source = source
        self._settings = settings
        self._shape = shape
        self._optimizer = optim.build(policy.parameters(), settings.optimizer)
        self._previous: Mapping[str, Tensor] | None = None
        self._last_batches: list[MicroBatch] = []

    @classmethod
    def from_directory(cls, directory: Path, settings: TrainSettings, shape: BatchShape, device: str = "cpu") -> Self:
        """Start from a policy directory; the reference is a second copy of it.

        Raises:
            ConfigError: The directory holds no policy, or the settings do not fit it.
        """
        policy, reference = _load(directory, device), _reference(directory, settings, device)
        return cls(policy, reference, directory, settings, shape)

    def state_dict(self) -> Mapping[str, Tensor]:
        """The weights, for the engine; live tensors, to be copied at once."""
        return self.policy.state_dict()

    def step(self, trials: Sequence[TrainingTrial], claim: EngineClaim) -> StepMetrics:
        """Learn from one batch of trials.

        Args:
            trials: All trials of the step, those that count for nothing included.
            claim: What engine and gateway say of themselves, taken after the last trial.

        Raises:
            FidelityError: Engine and trainer disagree, and no weight has changed; or a gradient is not finite, and that
                update is not taken.
            CaptureError: A trial contradicts itself; no weight has changed.
        """
        started = time.perf_counter()
        if self._settings.threads is not None:
            torch.set_num_threads(self._settings.threads)
        fidelity.check_claim(claim, self.version)
        selection = select(trials, self._settings.updates)
        coverage = self._check_routes(selection)
        plans = [self._plan(rows) for rows in selection.updates]
        tally = LossTally()
        try:
            observed = self._observe(plans, tally)
            observed += [self._look(batch) for batch in self._plan(selection.silent)]
            self._last_batches = [seen.batch for seen in observed]
            report = self._gate(observed, claim, coverage)
            norms = self._update(plans, observed, tally)
        finally:
            self._optimizer.zero_grad()  # whatever ended the step, none of its gradient is left for the next
        rewards = [trial.reward for trial in trials if trial.reward is not None]
        return StepMetrics(
            version=self.version,
            updates=len(norms),
            trials=selection.trials,
            segments=sum(len(rows) for rows in selection.updates),
            tokens=selection.trained_tokens,
            excluded_trials=selection.excluded_trials,
            excluded_tokens=selection.excluded_tokens,
            reward_mean=float(np.mean(rewards)) if rewards else None,
            loss=tally.figures(len(norms)),
            grad_norm=float(np.mean(norms)) if norms else 0.0,
            positions=sum(seen.batch.positions for seen in observed),
            fidelity=report,
            seconds=time.perf_counter() - started,
        )

    def trained_tokens(self) -> TrainedTokens:
        """All tokens that the last step read, silent trials' included, back from its tensors; for the auditor."""
        return trained_tokens(self._last_batches)

    def save(self, directory: Path, card: PolicyCard) -> None:
        """Fill an empty folder with policy, its card, optimizer, random state and version; all is on the disk then."""
        persistence.write(directory, self.policy, self._optimizer, self.version, self._source, card)

    @classmethod
    def resume(
        cls,
        directory: Path,
        reference: Path,
        settings: TrainSettings,
        shape: BatchShape,
        device: str = "cpu",
    ) -> Self:
        """Continue from what `save` wrote; on one CPU the next step is the one that would have been taken, bit by bit.

        Args:
            directory: The checkpoint.
            reference: The policy directory that the run started from.
            settings: As in the run that is resumed.
            shape: As in the run that is resumed.
            device: Torch device to train on.

        Raises:
            RunError: The checkpoint is incomplete.
        """
        policy = _load(directory / persistence.POLICY, device)
        trainer = cls(policy, _reference(reference, settings, device), reference, settings, shape)
        trainer.version = persistence.read(directory, trainer._optimizer)
        return trainer

    def _plan(self, rows: Sequence[Row]) -> list[MicroBatch]:
        budget, routing = self._settings.microbatch_tokens, self._settings.routing
        return plan(rows, budget, routing=routing, device=self.policy.device)

    def _check_routes(self, selection: Selection) -> float:
        if self._settings.routing == "own":
            return 1.0
        segments = [row.segment for rows in (*selection.updates, selection.silent) for row in rows]
        coverage = fidelity.check_coverage(segments)
        if segments:
            check_routes(segments, self.policy)
        return coverage

    def _observe(self, plans: Sequence[Sequence[MicroBatch]], tally: LossTally) -> list[Observed]:
        """Old log-probs of everything that will be trained; with a single update its gradient on the way."""
        if len(plans) > 1:
            return [self._look(batch) for batches in plans for batch in batches]
        return [self._learn(batch, None, tally) for batch in plans[0]]

    def _look(self, batch: MicroBatch) -> Observed:
        with torch.no_grad():
            seen = logprobs(self.policy, batch, self._shape.temperature)
        return Observed(batch, seen.logp_BT, seen.matched_BT)

    def _learn(self, batch: MicroBatch, old_logp_BT: Tensor | None, tally: LossTally) -> Observed:
        """Add the gradient of one micro-batch."""
        seen = logprobs(self.policy, batch, self._shape.temperature)
        old_BT = seen.logp_BT.detach() if old_logp_BT is None else old_logp_BT
        self._loss(batch, seen, old_BT, tally).backward()  # type: ignore[no-untyped-call]
        return Observed(batch, old_BT, seen.matched_BT)

    def _loss(self, batch: MicroBatch, seen: TokenLogprobs, old_BT: Tensor, tally: LossTally) -> Tensor:
        out = objective(
            self._settings.loss,
            seen.logp_BT,
            old_logp_BT=old_BT,
            behaviour_logp_BT=batch.behaviour_logp_BT,
            reference_logp_BT=None if self._reference is None else self._reference_logp(self._reference, batch),
            advantage_B=batch.advantage_B,
            mask_BT=batch.mask_BT,
            scale_B=batch.scale_B,
            divisor=self._shape.prompts * self._shape.trials_per_prompt / self._settings.updates,
        )
        tally.add(out, batch.mask_BT, seen.entropy_N)
        return out.loss

    def _reference_logp(self, reference: PreTrainedModel, batch: MicroBatch) -> Tensor:
        """The reference routes by itself: a record of the policy's routes says nothing of where it would go."""
        with torch.no_grad():
            return logprobs(reference, replace(batch, experts_BTEK=None), self._shape.temperature).logp_BT

    def _gate(self, observed: Sequence[Observed], claim: EngineClaim, coverage: float) -> FidelityReport:
        report = fidelity.measure(
            compared_tokens(observed),
            self.version,
            route_coverage=coverage,
            route_overlap=route_overlap(observed, self.version),
        )
        batches = [seen.batch for seen in observed]
        suspects = Recomputation(self.policy, self._previous, batches, self.version, self._shape.temperature)
        fidelity.judge(report, self._settings.gate, suspects, weights_verified=claim.weights_verified)
        return report

    def _update(
        self, plans: Sequence[Sequence[MicroBatch]], observed: Sequence[Observed], tally: LossTally
    ) -> list[float]:
        """Take the updates; returns the gradient norm of each."""
        before = {name: tensor.clone() for name, tensor in self.policy.state_dict().items()}
        old_logp = {id(seen.batch): seen.old_logp_BT for seen in observed}
        norms: list[float] = []
        for batches in plans:
            if not batches:
                continue
            if len(plans) > 1:
                for batch in batches:
                    self._learn(batch, old_logp[id(batch)], tally)
            norms.append(optim.update(self._optimizer, self._settings.optimizer.grad_clip))
        self._previous = before
        self.version += 1
        return norms


def _load(directory: Path, device: str) -> PreTrainedModel:
    module = load_policy(directory, torch.float32)
    nn.Module.to(module, torch.device(device))
    return module


def _reference(directory: Path, settings: TrainSettings, device: str) -> PreTrainedModel | None:
    return _load(directory, device) if settings.loss.kl_coefficient else None
