"""verl's V1 trainers under this contract: ``trainer.v1.trainer_mode=lego_sync`` and ``lego_separate_async``.

Invariant: a batch that would not be trained with the recipe's loss, under old log-probs that the trainer has recomputed
itself, stops the run. Beyond that they are verl's ``sync`` and ``separate_async``, and read those sections of its
configuration.
"""

import logging
import math
from typing import Any, ClassVar

import ray
import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1 import trainer_separate_async
from verl.trainer.ppo.v1.trainer_base import PPOTrainer, register_trainer
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from lego_rl.cluster.trainer.expected import ExpectedLoss
from lego_rl.cluster.trainer.losses import WEIGHT
from lego_rl.cluster.trainer.weights import BatchRow, row_weights
from lego_rl.cluster.trainer.workers import UPDATES, DetachedTrialWorker, TrialWorker

SYNC = "lego_sync"
SEPARATE_ASYNC = "lego_separate_async"


class TrialTrainer(PPOTrainer):  # type: ignore[misc]  # verl is not there where types are checked
    """What both modes add to verl's.

    Attributes:
        verl_mode: verl's name of the mode.
        worker: Class of the workers.
    """

    verl_mode: ClassVar[str]
    worker: ClassVar[type[TrialWorker]]

    def __init__(self, config: Any) -> None:
        self._expected = ExpectedLoss.of_rollout(config.actor_rollout_ref.rollout)
        self._expected.check_algorithm(config.algorithm)
        config.trainer.v1.trainer_mode = self.verl_mode  # verl tells its own modes apart by their names
        super().__init__(config)

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        for role in (Role.Actor, Role.ActorRollout, Role.ActorRolloutRef, Role.RefPolicy):
            if role in self.role_worker_mapping:
                self.role_worker_mapping[role] = ray.remote(self.worker)

    @property
    def _updates(self) -> int:
        """Optimizer updates of one batch that is sampled."""
        prompts: int = self.config.data.train_batch_size // self.parameter_sync_step
        return prompts // int(self.config.actor_rollout_ref.actor.ppo_mini_batch_size)

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        actor, rollout = self.config.actor_rollout_ref.actor, self.config.actor_rollout_ref.rollout
        if actor.use_dynamic_bsz:
            return dp_size * self._updates
        micro = math.lcm(actor.ppo_micro_batch_size_per_gpu, rollout.log_prob_micro_batch_size_per_gpu)
        return dp_size * self._updates * micro

    def _compute_old_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        self._expected.check_algorithm(self.config.algorithm)
        return super()._compute_old_log_prob(batch, metrics)

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._compute_advantage(batch, metrics)
        fields = ["loss_mask", "rm_scores"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
        rows = [
            BatchRow(key, float(scores.sum()), bool(mask.any()), bool(tag.get("is_padding", False)))
            for key, tag, scores, mask in zip(
                batch.keys, batch.tags, data["rm_scores"].unbind(), data["loss_mask"].unbind(), strict=True
            )
        ]
        found = row_weights(rows)
        metrics.update(found.metrics())
        weights = torch.tensor(found.weights, dtype=torch.float32).unsqueeze(-1)
        return tq.kv_batch_put(
            keys=batch.keys,
            partition_id=batch.partition_id,
            fields=TensorDict({WEIGHT: weights}, batch_size=len(rows)),
        )

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch.extra_info[UPDATES] = self._updates
        return super()._update_actor(batch, metrics)


@register_trainer(SYNC)
class SyncTrainer(TrialTrainer, PPOTrainerSync):  # type: ignore[misc]
    """verl's ``sync``."""

    verl_mode = "sync"
    worker = TrialWorker


@register_trainer(SEPARATE_ASYNC)
class SeparateAsyncTrainer(TrialTrainer, PPOTrainerSeparateAsync):  # type: ignore[misc]
    """verl's ``separate_async``."""

    verl_mode = "separate_async"
    worker = DetachedTrialWorker

    def _setup(self) -> None:
        # Without hybrid replicas verl 0.9.1 logs a line there that logging refuses, unless its level is above it.
        trainer_separate_async.logger.setLevel(logging.WARNING)
        super()._setup()
