"""The loss of a cluster worker: verl's, a trial weighing the same however many rows it has.

Invariant: GSPO, the KL estimate and the aggregation are verl's own functions, called as verl's ``ppo_loss`` calls them;
what is added is one weight a row, which multiplies all that the row contributes. With all weights 1 it is ``ppo_loss``.

Suffixes: B rows of a micro-batch, T response positions.
"""

from typing import Any

from torch import Tensor
from verl.trainer.ppo.core_algos import (
    agg_loss,
    compute_policy_loss_gspo,
    get_policy_loss_fn,
    kl_penalty,
    register_policy_loss,
)
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.padding import no_padding_2_padding

from lego_rl.cluster.trainer.expected import AGGREGATION, LOSS, ExpectedLoss
from lego_rl.errors import CaptureError, ConfigError

WEIGHT = "row_weight"
"""Field of a row: what its loss is multiplied by."""


@register_policy_loss(LOSS)  # type: ignore[untyped-decorator]
def lego_gspo(
    old_log_prob: Tensor,
    log_prob: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    loss_agg_mode: str = AGGREGATION,
    config: Any = None,
    rollout_is_weights: Tensor | None = None,
) -> tuple[Tensor, dict[str, Any]]:
    """verl's GSPO, under a name of its own so that nothing else can be in effect under it.

    Raises:
        ConfigError: The configuration that it is called with is not of this loss.
    """
    if loss_agg_mode != AGGREGATION or config is None or config.policy_loss.get("loss_mode") != LOSS:
        raise ConfigError(
            f"the loss {LOSS} is called with aggregation {loss_agg_mode!r} and the configuration of another loss",
            f"set actor_rollout_ref.actor.loss_agg_mode={AGGREGATION} and policy_loss.loss_mode={LOSS}",
        )
    loss: tuple[Tensor, dict[str, Any]] = compute_policy_loss_gspo(
        old_log_prob=old_log_prob,
        log_prob=log_prob,
        advantages=advantages,
        response_mask=response_mask,
        loss_agg_mode=loss_agg_mode,
        config=config,
        rollout_is_weights=rollout_is_weights,
    )
    return loss


def trial_loss(
    config: Any, model_output: Any, data: Any, dp_group: Any = None, *, expected: ExpectedLoss
) -> tuple[Tensor, dict[str, Any]]:
    """The loss of a micro-batch, in verl's form.

    Args:
        config: verl's ``ActorConfig``.
        model_output: ``log_probs``, nested over whole rows.
        data: The rows; `WEIGHT` ``[B, 1]`` is one of their fields.
        dp_group: Not used, as in verl's own.
        expected: What the recipe asks for.

    Raises:
        ConfigError: The loss in effect is not the recipe's.
        CaptureError: The rows lack what the recipe's loss is computed from.
    """
    del dp_group
    expected.check_actor(config)
    _check_rows(data, expected)
    config.global_batch_info.update(
        dp_size=data["dp_size"],
        batch_num_tokens=data["batch_num_tokens"],
        global_batch_size=data["global_batch_size"],
        loss_scale_factor=config.loss_scale_factor,
    )
    log_prob_BT = no_padding_2_padding(model_output["log_probs"], data)
    fields = ["response_mask", "old_log_probs", "advantages"]
    fields += ["rollout_is_weights"] * (expected.importance is not None) + ["ref_log_prob"] * config.use_kl_loss
    weight_B1 = _dense(data[WEIGHT]).reshape(-1, 1).to(log_prob_BT.dtype)
    rows = data.select(*fields).to_padded_tensor()
    mask_BT = rows["response_mask"].bool()
    # GSPO is homogeneous in the advantage: the loss of a row whose advantage is weighed is the weighed loss.
    loss, figures = get_policy_loss_fn(config.policy_loss.get("loss_mode"))(
        old_log_prob=rows["old_log_probs"],
        log_prob=log_prob_BT,
        advantages=rows["advantages"] * weight_B1,
        response_mask=mask_BT,
        loss_agg_mode=config.loss_agg_mode,
        config=config,
        rollout_is_weights=rows.get("rollout_is_weights", None),
    )
    metrics: dict[str, Any] = Metric.from_dict(figures, aggregation=AggregationType.MEAN)
    metrics["actor/pg_loss"] = Metric(value=loss.detach(), aggregation=AggregationType.SUM)
    if config.use_kl_loss:
        kl_BT = kl_penalty(logprob=log_prob_BT, ref_logprob=rows["ref_log_prob"], kl_penalty=config.kl_loss_type)
        kl = agg_loss(
            loss_mat=kl_BT * weight_B1,
            loss_mask=mask_BT,
            loss_agg_mode=config.loss_agg_mode,
            **config.global_batch_info,
        )
        loss = loss + config.kl_loss_coef * kl
        metrics["kl_loss"] = Metric(value=kl.detach(), aggregation=AggregationType.SUM)
        metrics["kl_coef"] = config.kl_loss_coef
    return loss, metrics


def _check_rows(data: Any, expected: ExpectedLoss) -> None:
    if data["global_batch_size"] is None:
        raise CaptureError("the loss has no constant divisor", "start verl with one of this plug-in's trainer modes")
    needed = [WEIGHT, "rollout_is_weights"] if expected.importance is not None else [WEIGHT]
    for field in needed:
        if field not in data.keys():  # noqa: SIM118  # a TensorDict is no mapping of its keys
            raise CaptureError(
                f"the rows have no {field}, which the recipe's loss is computed from",
                "start verl with one of this plug-in's trainer modes and the overrides that the recipe makes",
            )
    if expected.importance is None and "rollout_is_weights" in data.keys():  # noqa: SIM118
        raise ConfigError(
            "the rows have importance weights, which the recipe leaves out",
            "unset algorithm.rollout_correction.rollout_is",
        )


def _dense(values: Tensor) -> Tensor:
    return values.values() if values.is_nested else values
