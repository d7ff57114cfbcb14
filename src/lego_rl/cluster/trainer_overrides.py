"""The part of verl's overrides that is a trainer engine's own: FSDP2, VeOmni or Megatron, and its optimizer."""

from collections.abc import Iterator, Sequence

from lego_rl.cluster.hydra_grammar import Override
from lego_rl.config.cluster import ClusterSection, Fsdp2Trainer, MegatronTrainer, VeOmniTrainer
from lego_rl.config.recipe import Recipe

_ACTOR, _REF = "actor_rollout_ref.actor", "actor_rollout_ref.ref"


def trainer_overrides(cluster: ClusterSection, recipe: Recipe) -> Iterator[Override]:
    """What verl is told of the engine; first of all which it is, for that decides which keys there are."""
    match cluster.trainer:
        case Fsdp2Trainer() as fsdp2:
            yield "model_engine", "dp"
            yield f"{_ACTOR}.strategy", "fsdp2"
            yield from _fsdp2(fsdp2, cluster, recipe)
        case VeOmniTrainer() as veomni:
            yield "model_engine", "veomni"
            yield from _veomni(veomni, recipe)
        case MegatronTrainer() as megatron:
            yield "model_engine", "megatron"
            yield from _megatron(megatron, recipe)
    yield from _optimizer(cluster, recipe)


def _fsdp2(trainer: Fsdp2Trainer, cluster: ClusterSection, recipe: Recipe) -> Iterator[Override]:
    # Routing replay has no key here: verl's FSDP2 ignores it, and this plug-in's engine takes it from the recipe.
    for role in (_ACTOR, _REF):
        engine = f"{role}.fsdp_config"
        yield f"{engine}.ulysses_sequence_parallel_size", trainer.sequence_parallel
        yield f"{engine}.fsdp_size", trainer.shard_size or -1
        yield f"{engine}.seed", recipe.run.seed
        yield f"{engine}.use_torch_compile", False
        if cluster.device == "cpu":
            yield f"+{engine}.mixed_precision.param_dtype", "fp32"
    yield from _offload(trainer.offload, "fsdp_config")
    yield f"{_ACTOR}.fsdp_config.use_no_sync_for_gradient_accumulation", False
    yield f"{_ACTOR}.grad_clip", recipe.train.optimizer.grad_clip


def _veomni(trainer: VeOmniTrainer, recipe: Recipe) -> Iterator[Override]:
    engine = f"{_ACTOR}.veomni"
    yield f"{engine}.ulysses_parallel_size", trainer.sequence_parallel
    yield f"{engine}.expert_parallel_size", trainer.expert_parallel
    yield f"{engine}.fsdp_size", trainer.shard_size or -1
    yield f"{engine}.seed", recipe.run.seed
    yield f"{engine}.router_replay.mode", "R3" if recipe.train.routing == "replay" else "disabled"
    yield from _offload(trainer.offload, "veomni")
    yield f"{engine}.attn_implementation", trainer.attention
    yield f"{engine}.moe_implementation", trainer.experts
    # verl's reference takes the keys above from the actor, but not these.
    for role in (_ACTOR, _REF):
        yield f"{role}.veomni.causal_conv1d_implementation", _of_convolution(trainer)
        yield f"{role}.veomni.chunk_gated_delta_rule_implementation", trainer.linear_attention
        yield f"{role}.veomni.rms_norm_gated_implementation", _of_convolution(trainer)


def _of_convolution(trainer: VeOmniTrainer) -> str:
    """FlashQLA has kernels of the delta rule alone; what stands beside it is flash-linear-attention's."""
    return "eager" if trainer.linear_attention == "eager" else "fla"


def _megatron(trainer: MegatronTrainer, recipe: Recipe) -> Iterator[Override]:
    engine = f"{_ACTOR}.megatron"
    yield f"{engine}.tensor_model_parallel_size", trainer.tensor_parallel
    yield f"{engine}.pipeline_model_parallel_size", trainer.pipeline_parallel
    yield f"{engine}.context_parallel_size", trainer.context_parallel
    yield f"{engine}.expert_model_parallel_size", trainer.expert_parallel
    yield f"{engine}.seed", recipe.run.seed
    yield f"{engine}.router_replay.mode", "R3" if recipe.train.routing == "replay" else "disabled"
    yield from _offload(trainer.offload, "megatron")


def _offload(chosen: Sequence[str], engine: str) -> Iterator[Override]:
    for role in (_ACTOR, _REF):
        yield f"{role}.{engine}.param_offload", "parameters" in chosen
    yield f"{_ACTOR}.{engine}.optimizer_offload", "optimizer" in chosen


def _optimizer(cluster: ClusterSection, recipe: Recipe) -> Iterator[Override]:
    chosen, key = recipe.train.optimizer, f"{_ACTOR}.optim"
    yield f"{key}.lr", chosen.lr
    yield f"{key}.weight_decay", chosen.weight_decay
    yield f"{key}.betas", list(chosen.betas)
    yield f"{key}.clip_grad", chosen.grad_clip
    yield f"{key}.lr_warmup_steps", -1
    yield f"{key}.lr_warmup_steps_ratio", 0.0
    if isinstance(cluster.trainer, MegatronTrainer):
        yield f"{key}.lr_decay_style", "constant"
    else:
        yield f"{key}.lr_scheduler_type", "constant"  # verl's default with VeOmni is a cosine
