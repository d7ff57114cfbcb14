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

from lego_rl.cluster.gate import (
    compared,
    coverage,
    gate_figures,
    judge_batch,
    needs_version_before,
    with_version_before,
)
from lego_rl.cluster.trainer.expected import ExpectedLoss, recipe_path
from lego_rl.cluster.trainer.gated import gated_rows
from lego_rl.cluster.trainer.losses import WEIGHT
from lego_rl.cluster.trainer.weights import BatchRow, row_weights
from lego_rl.cluster.trainer.workers import UPDATES, DetachedTrialWorker, TrialWorker
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.train.fidelity import ComparedTokens

_VERL_KEEPS, _PRESENT = 0, -1
"""Names of weights in main memory: verl's own of those that old log-probs are computed under, and ours."""
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
        recipe = read(Recipe, recipe_path(config.actor_rollout_ref.rollout))
        self._expected, self._gate = ExpectedLoss.of_recipe(recipe), recipe.train.gate
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
        version = self.global_steps - 1
        before = self._under_version_before(batch, version)
        batch = super()._compute_old_log_prob(batch, metrics)
        rows = gated_rows(batch, "old_log_probs")
        tokens = compared(rows)
        if before is not None:
            tokens = with_version_before(tokens, before, version)
        metrics.update(gate_figures(judge_batch(tokens, version, coverage(rows), self._gate)))
        return batch

    def _under_version_before(self, batch: Any, version: int) -> ComparedTokens | None:
        """The batch's tokens under the weights before the present ones, where the gate needs them and they are kept."""
        del batch, version
        return None

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
    _kept: int | None = None
    """Version of the weights that verl keeps in main memory: those under which it computed old log-probs last."""

    def _compute_old_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._compute_old_log_prob(batch, metrics)
        self._kept = self.global_steps - 1
        return batch

    def _under_version_before(self, batch: Any, version: int) -> ComparedTokens | None:
        actor = self.config.actor_rollout_ref.actor
        offloaded = bool(actor.get("fsdp_config", {}).get("param_offload", False))
        if offloaded or self._kept != version - 1:  # verl restores weights only where they are not offloaded
            return None
        if not needs_version_before(compared(gated_rows(batch, "rollout_log_probs")), version, self._gate):
            return None
        workers = self.actor_rollout_wg
        workers.save_model_to_cpu(_PRESENT)
        workers.restore_model_from_cpu(_VERL_KEEPS)
        try:
            batch.extra_info.update(calculate_entropy=True, compute_loss=False)
            batch.extra_info["temperature"] = self.config.actor_rollout_ref.rollout.temperature
            workers.compute_log_prob(batch)
        finally:
            workers.restore_model_from_cpu(_PRESENT)
            workers.clear_cpu_model(_PRESENT)
        return compared(gated_rows(batch, "log_probs"))

    def _setup(self) -> None:
        # Without hybrid replicas verl 0.9.1 logs a line there that logging refuses, unless its level is above it.
        trainer_separate_async.logger.setLevel(logging.WARNING)
        super()._setup()
