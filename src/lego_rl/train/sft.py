"""Supervised fine-tuning on captured trajectories.

Invariant: only tokens with mask 1 are learned, each under the very ids it was sampled after. The segments of an update
are a function of (seed, update), so that a run which was stopped and resumed equals one that was not.

The loss is the mean negative log-likelihood over all mask-1 tokens of an update, however it is split into
micro-batches, plus the load-balancing loss where the policy has experts.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lego_rl.engine.embedded.policy import load_policy, save_policy
from lego_rl.errors import ConfigError
from lego_rl.gateway.trajectory import Segment
from lego_rl.rollout.lock import LockedFolder
from lego_rl.train import optim, persistence
from lego_rl.train.balance import router_load
from lego_rl.train.batch import MicroBatch, Row, check_segment, plan
from lego_rl.train.card import PolicyCard
from lego_rl.train.checkpoints import Checkpoints
from lego_rl.train.forward import trained_logits
from lego_rl.train.metrics_log import MetricsLog
from lego_rl.train.schedule import tasks_of_step
from lego_rl.train.sft_settings import SftSettings

POLICY = "policy"
"""Folder of a run in which the finished policy lies."""


@dataclass(frozen=True)
class SftMetrics:
    """One update.

    Attributes:
        step: Its number, from 0.
        loss: Mean negative log-likelihood of the learned tokens before the update, in nats.
        accuracy: Share of the learned tokens that were the most likely ones.
        balance: Load-balancing loss; 0.0 where it is left out.
        tokens: Learned tokens.
        positions: Positions that were computed.
        lr: Learning rate of the update.
        grad_norm: Norm of the gradient before clipping.
        seconds: What the update took.
    """

    step: int
    loss: float
    accuracy: float
    balance: float
    tokens: int
    positions: int
    lr: float
    grad_norm: float
    seconds: float


class SftTrainer:
    """Learns from segments, one update at a time.

    Args:
        policy: Float32 causal language model; trained in place.
        source: The Hugging Face directory that it came from; its tokenizer and template go into what is saved.
        settings: How to train.
    """

    def __init__(self, policy: PreTrainedModel, source: Path, settings: SftSettings) -> None:
        self.policy = policy
        self.finished = 0
        """Updates that were taken."""
        self._source = source
        self._settings = settings
        self._optimizer = optim.build(policy.parameters(), settings.optimizer)

    @classmethod
    def from_directory(cls, directory: Path, settings: SftSettings) -> Self:
        """Start from a policy directory.

        Raises:
            ConfigError: It holds no policy.
        """
        return cls(load_policy(directory, torch.float32), directory, settings)

    @classmethod
    def resume(cls, checkpoint: Path, source: Path, settings: SftSettings) -> Self:
        """Continue from what `save` wrote.

        Args:
            checkpoint: The folder that it filled.
            source: As in the run that is continued.
            settings: As in the run that is continued.

        Raises:
            ConfigError: The checkpoint holds no policy.
            RunError: The checkpoint is incomplete.
        """
        trainer = cls(load_policy(checkpoint / persistence.POLICY, torch.float32), source, settings)
        trainer.finished = persistence.read(checkpoint, trainer._optimizer)
        return trainer

    def step(self, segments: Sequence[Segment]) -> SftMetrics:
        """Take one update.

        Args:
            segments: At least one of them has a token to learn.

        Raises:
            CaptureError: A segment contradicts itself.
            FidelityError: The gradient is not finite; the weights are untouched.
        """
        started = time.perf_counter()
        tokens = sum(int(segment.loss_mask.sum()) for segment in segments)
        loss, balance, correct, positions = 0.0, 0.0, 0, 0
        self._optimizer.zero_grad()  # what an update that was not finished left
        for batch in self._plan(segments):
            logits_NV, batch_balance = self._forward(batch)
            target_N = batch.target_ids_BT[batch.mask_BT]
            batch_loss = torch.nn.functional.cross_entropy(logits_NV, target_N, reduction="sum") / tokens
            share = len(target_N) / tokens
            (batch_loss + self._settings.balance * share * batch_balance).backward()  # type: ignore[no-untyped-call]
            loss += float(batch_loss.detach())
            balance += share * float(batch_balance.detach())
            correct += int((logits_NV.argmax(-1) == target_N).sum())
            positions += batch.positions
        lr = learning_rate(self._settings, self.finished)
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        norm = optim.update(self._optimizer, self._settings.optimizer.grad_clip)
        self.finished += 1
        seconds = time.perf_counter() - started
        return SftMetrics(self.finished - 1, loss, correct / tokens, balance, tokens, positions, lr, norm, seconds)

    def save(self, directory: Path, card: PolicyCard) -> None:
        """Fill an empty folder with policy, its card, optimizer and the number of finished updates."""
        persistence.write(directory, self.policy, self._optimizer, self.finished, self._source, card)

    def export(self, target: Path, card: PolicyCard) -> None:
        """Write the policy alone, in bfloat16.

        Raises:
            RunError: The disk does not take it.
        """
        state = self.policy.state_dict()
        with persistence.writing(target):
            save_policy(
                state,
                self.policy.config,
                target,
                dtype=torch.bfloat16,
                companions=self._source,
                also=lambda folder: card.write(folder, self.finished),
            )

    def _plan(self, segments: Sequence[Segment]) -> list[MicroBatch]:
        rows = []
        for index, segment in enumerate(segments):
            check_segment(segment, f"segment {index} of update {self.finished}")
            if segment.loss_mask.any():
                rows.append(Row(trial_id=str(index), index=0, segment=segment, advantage=0.0, scale=1.0))
        return plan(rows, self._settings.microbatch_tokens, routing="own", device=self.policy.device)

    def _forward(self, batch: MicroBatch) -> tuple[Tensor, Tensor]:
        matched_BT = torch.zeros_like(batch.target_ids_BT)
        if not self._settings.balance:
            return trained_logits(self.policy, batch, matched_BT), torch.zeros(())
        with router_load(self.policy) as load:
            logits_NV = trained_logits(self.policy, batch, matched_BT)
        return logits_NV, load.loss()


def learning_rate(settings: SftSettings, step: int) -> float:
    """The learning rate of an update, numbered from 0."""
    peak = settings.optimizer.lr
    if step < settings.warmup:
        return peak * (step + 1) / settings.warmup
    if settings.schedule == "constant":
        return peak
    progress = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    return peak * (settings.final_lr + (1 - settings.final_lr) * (1 + math.cos(math.pi * progress)) / 2)


def run_sft(
    policy: Path,
    segments: Sequence[Segment],
    run: LockedFolder,
    settings: SftSettings,
    progress: Callable[[SftMetrics], None],
    card: PolicyCard,
) -> Path:
    """Train to the end, or do what is left of a run that was stopped.

    Args:
        policy: Policy directory to start from.
        segments: What to learn from; may make its items when they are asked for, always the same ones.
        run: Holds checkpoints, ``metrics.jsonl`` and in the end the policy; nobody else may write them meanwhile.
        settings: How to train; the same as before where a run is continued.
        progress: Is told of every update.
        card: What the policy's directory says of this training.

    Returns:
        The directory of the trained policy, in bfloat16.

    Raises:
        ConfigError: There are fewer segments than one update takes, or no policy.
        RunError: The last checkpoint is damaged, or the disk does not take the next.
    """
    if len(segments) < settings.batch:
        raise ConfigError(
            f"{len(segments)} segments do not fill one update of {settings.batch}",
            "capture more demonstrations, or lower sft.batch",
        )
    checkpoints = Checkpoints(run.path / "checkpoints", settings.keep_checkpoints)
    latest = checkpoints.latest()
    trainer = SftTrainer.resume(latest[1], policy, settings) if latest else SftTrainer.from_directory(policy, settings)
    with MetricsLog(run.path, trainer.finished) as log:
        while trainer.finished < settings.steps:
            metrics = trainer.step(tasks_of_step(segments, trainer.finished, settings.batch, settings.seed))
            log.write(metrics.step, {f"sft/{name}": value for name, value in vars(metrics).items() if name != "step"})
            progress(metrics)
            if trainer.finished % settings.checkpoint_every == 0 or trainer.finished == settings.steps:
                checkpoints.save(trainer.finished, partial(trainer.save, card=card))
    trainer.export(run.path / POLICY, card)
    return run.path / POLICY
