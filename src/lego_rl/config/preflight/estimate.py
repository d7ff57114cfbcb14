"""Memory of one GPU, and disk, as sums that can be checked by hand. They are estimates: bytes that follow from shapes.

Sources of the bytes a parameter: verl's FSDP2 and VeOmni keep weights, gradients and Adam's two moments in float32
(4 + 4 + 8), Megatron weights in bfloat16 and gradients in float32 (2 + 4) with a sharded optimizer of 12. Layers are
computed again in the backward pass, so that what is kept of each is its input.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lego_rl.config.cluster import ClusterSection, Fsdp2Trainer, MegatronTrainer
from lego_rl.config.preflight.mesh import expert_ranks
from lego_rl.config.recipe import Recipe
from lego_rl.config.shapes import ModelShape

GB = 10**9
RUNTIME = 3 * GB
"""What CUDA, NCCL and fragmentation take of a GPU."""
GRAPHS = GB
"""What a server's CUDA graphs take."""
_CHUNK = 4_096
"""Tokens whose logits exist at the same time, where log-probs are computed in chunks."""
MEAN_SHARE = 4
"""An assumption, not a measurement: the mean trial has a quarter of the context."""


@dataclass(frozen=True)
class TrainerMemory:
    """Bytes of one GPU of the trainer.

    Attributes:
        weights: Its share of the weights.
        gradients: And of their gradients.
        optimizer: And of the optimizer's state.
        reference: And of the reference's weights.
        gathered: The layers whose weights are whole on the GPU: the present one and the next.
        kept: Inputs of the layers of a micro-batch.
        working: The layer that is computed, and its gradients.
        logits: Of the tokens whose log-probs are computed together.
        runtime: What libraries take.
        offload: What waits in main memory while it is not needed.
    """

    weights: int
    gradients: int
    optimizer: int
    reference: int
    gathered: int
    kept: int
    working: int
    logits: int
    runtime: int
    offload: tuple[str, ...]

    @property
    def peak(self) -> int:
        """The most at one time: backward through a micro-batch, or the optimizer's step."""
        held = self.weights + self.gradients + self.reference + self.runtime
        moments = 0 if "optimizer" in self.offload else self.optimizer
        passing = held + moments + self.gathered + self.kept + max(self.working, self.logits)
        return max(passing, held + self.optimizer)

    @property
    def resident(self) -> int:
        """What stays while servers on the same GPU sample."""
        weights = 0 if "parameters" in self.offload else self.weights + self.gradients
        return weights + self.reference + (0 if "optimizer" in self.offload else self.optimizer) + self.runtime

    def shown(self) -> str:
        """The figures."""
        parts: Mapping[str, int] = {
            "weights": self.weights,
            "gradients": self.gradients,
            "optimizer": self.optimizer,
            "reference": self.reference,
            "gathered": self.gathered,
            "kept inputs": self.kept,
            "layer": self.working,
            "logits": self.logits,
            "libraries": self.runtime,
        }
        return ", ".join(f"{name} {size / GB:.1f}" for name, size in parts.items() if size >= GB / 20)


def trainer_memory(recipe: Recipe, cluster: ClusterSection, model: ModelShape) -> TrainerMemory:
    """Of one GPU of the trainer, at a micro-batch that is full."""
    tokens, stages = cluster.microbatch_tokens, 1
    width = model.heads * model.head_dim * 2 + 2 * model.kv_heads * model.head_dim
    mlp = model.top_k * (2 * model.hidden + 3 * model.expert_intermediate) if model.experts else 3 * model.intermediate
    if isinstance(cluster.trainer, MegatronTrainer):
        stages = cluster.trainer.pipeline_parallel
    logits = tokens if cluster.log_probs == "whole" else min(tokens, _CHUNK)
    weights, gradients, optimizer = _state(cluster, model)
    needs_reference = recipe.train.loss.kl_coefficient > 0
    # verl keeps FSDP2's reference in main memory whatever is asked for.
    waits = isinstance(cluster.trainer, Fsdp2Trainer) or "parameters" in cluster.trainer.offload
    return TrainerMemory(
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        reference=weights if needs_reference and not waits else 0,
        gathered=2 * 2 * model.layer_parameters // expert_ranks(cluster),
        kept=2 * tokens * model.hidden * model.layers // stages,
        working=2 * 2 * tokens * (width + mlp + 4 * model.hidden),
        logits=logits * model.vocabulary * (2 + 4 + 2),
        runtime=RUNTIME if cluster.device == "cuda" else 0,
        offload=cluster.trainer.offload,
    )


def _state(cluster: ClusterSection, model: ModelShape) -> tuple[int, int, int]:
    """Bytes of weights, gradients and optimizer on one GPU."""
    gpus, trainer = cluster.training_gpus, cluster.trainer
    if not isinstance(trainer, MegatronTrainer):
        shards = trainer.shard_size or gpus
        if not isinstance(trainer, Fsdp2Trainer):  # VeOmni counts data-parallel ranks, and shards over both
            shards = min(gpus, shards * trainer.sequence_parallel)
        return 4 * model.parameters // shards, 4 * model.parameters // shards, 8 * model.parameters // shards
    routed = model.layers * 3 * model.hidden * model.experts * model.expert_intermediate
    mine = (model.parameters - routed) // trainer.tensor_parallel + routed // trainer.expert_parallel
    mine //= trainer.pipeline_parallel
    return 2 * mine, 4 * mine, 12 * model.parameters // gpus


@dataclass(frozen=True)
class ServerMemory:
    """Bytes of one GPU of a replica.

    Attributes:
        allowed: What the server may take.
        weights: Its share of the weights.
        working: Activations of a step, and CUDA graphs.
        sequence: Cache of one sequence of a whole context.
        replicas: How many replicas there are.
    """

    allowed: int
    weights: int
    working: int
    sequence: int
    replicas: int

    @property
    def cache(self) -> int:
        """What is left for caches."""
        return self.allowed - self.weights - self.working

    @property
    def contexts(self) -> float:
        """Sequences of a whole context that one replica has room for."""
        return self.cache / self.sequence

    def shown(self) -> str:
        """The figures."""
        return (
            f"weights {self.weights / GB:.1f}, working {self.working / GB:.1f}, cache {self.cache / GB:.1f} "
            f"= {max(0.0, self.contexts):.1f} whole contexts of {self.sequence / GB:.2f}"
        )


def server_memory(recipe: Recipe, cluster: ClusterSection, model: ModelShape) -> ServerMemory:
    """Of one GPU of a replica."""
    servers, context = cluster.servers, recipe.budget.context_tokens
    width = 4 if servers.dtype == "float32" else 2
    wide = model.top_k * 3 * model.expert_intermediate if model.experts else 3 * model.intermediate
    working = width * servers.prefill_tokens * (8 * model.hidden + wide) // servers.tensor_parallel
    working += 4 * servers.max_sequences * model.vocabulary // servers.tensor_parallel
    heads = min(servers.tensor_parallel, model.kv_heads)
    states = 4 * (model.layers - model.attention_layers) * model.linear_value_heads * model.linear_head_dim**2
    return ServerMemory(
        allowed=int(servers.gpu_memory_fraction * cluster.gpu_memory_gb * GB),
        weights=width * model.parameters // servers.tensor_parallel,
        working=working + (GRAPHS if cluster.device == "cuda" else 0),
        sequence=width // 2 * context * model.cache_bytes // heads + states // servers.tensor_parallel,
        replicas=cluster.rollout_gpus // (servers.tensor_parallel * servers.data_parallel),
    )


@dataclass(frozen=True)
class Storage:
    """Bytes that a run writes below its folder, and keeps in main memory beside its processes.

    Attributes:
        checkpoint: One checkpoint: weights and both moments in float32.
        checkpoints: All that lie there at one time; one more than are kept, while it is written.
        trial: The mean trial: ids, masks, log-probs and routes, not compressed.
        trials: All of them.
        queued: In main memory: the rows of a step, and of what is rolled out ahead of it, where verl keeps a route in
            two bytes.
    """

    checkpoint: int
    checkpoints: int
    trial: int
    trials: int
    queued: int


def storage(recipe: Recipe, model: ModelShape) -> Storage:
    """Of a whole run."""
    checkpoint = 12 * model.parameters
    routed = model.layers * model.top_k if recipe.train.routing == "replay" else 0
    trial = recipe.budget.context_tokens // MEAN_SHARE * (4 + 1 + 4 + routed)
    step = recipe.rollout.tasks_per_step * recipe.rollout.group_size
    row = recipe.budget.context_tokens // MEAN_SHARE * (6 * 8 + 2 * routed)  # ids, masks, positions, log-probs: 8 bytes
    ahead = 1 if recipe.cluster is None or not recipe.cluster.rollout_nodes else 2
    return Storage(
        checkpoint=checkpoint,
        checkpoints=(recipe.run.keep_checkpoints + 1) * checkpoint,
        trial=trial,
        trials=recipe.run.steps * step * trial,
        queued=ahead * step * row,
    )
