"""How the trainer and the servers are spread over GPUs, against the heads, layers and experts of the policy."""

from lego_rl.config.cluster import ClusterSection, Fsdp2Trainer, MegatronTrainer, VeOmniTrainer
from lego_rl.config.preflight.rule import Facts, Finding, Need, Rule, fatal, ok, warn

_SHAPED = frozenset({Need.CLUSTER, Need.SHAPE})


def model_ranks(cluster: ClusterSection) -> int:
    """GPUs of the trainer that one row of a batch needs together."""
    trainer = cluster.trainer
    if isinstance(trainer, MegatronTrainer):
        return trainer.tensor_parallel * trainer.pipeline_parallel * trainer.context_parallel
    return trainer.sequence_parallel


def data_ranks(cluster: ClusterSection) -> int:
    """Rows of a batch that the trainer computes at the same time."""
    return cluster.training_gpus // model_ranks(cluster)


def expert_ranks(cluster: ClusterSection) -> int:
    """Ranks of the trainer that the experts of a layer are spread over."""
    return 1 if isinstance(cluster.trainer, Fsdp2Trainer) else cluster.trainer.expert_parallel


def _training_mesh(facts: Facts) -> Finding:
    cluster = facts.cluster
    ranks, gpus = model_ranks(cluster), cluster.training_gpus
    if gpus % ranks:
        return fatal(f"{gpus} training GPUs are not a multiple of the {ranks} that one row needs together")
    shard = None if isinstance(cluster.trainer, MegatronTrainer) else cluster.trainer.shard_size
    among = gpus if isinstance(cluster.trainer, Fsdp2Trainer) else gpus // ranks
    if shard is not None and (shard > among or among % shard):
        return fatal(f"shard_size {shard} does not divide {among} ranks", "leave cluster.trainer.shard_size out")
    return ok(f"{gpus} training GPUs are {gpus // ranks} × {ranks}")


def _sequence_heads(facts: Facts) -> Finding:
    model, ranks = facts.model, facts.cluster.sequence_ranks
    if isinstance(facts.cluster.trainer, MegatronTrainer):
        ranks = facts.cluster.trainer.tensor_parallel
    pairs = [("attention heads", model.heads)]
    if model.is_hybrid:
        pairs += [("linear key heads", model.linear_key_heads), ("linear value heads", model.linear_value_heads)]
    for name, heads in pairs:
        if heads % ranks:
            return fatal(f"{heads} {name} cannot be shared by {ranks} ranks", f"choose a divisor of {heads}")
    if model.kv_heads % ranks and ranks % model.kv_heads:
        return fatal(
            f"{model.kv_heads} key-value heads and {ranks} ranks: neither divides the other",
            f"choose a divisor or a multiple of {model.kv_heads}",
        )
    return ok(f"{ranks} rank(s) share {model.heads} attention and {model.kv_heads} key-value heads")


def _experts(facts: Facts) -> Finding:
    model, ranks = facts.model, expert_ranks(facts.cluster)
    if ranks == 1:
        return ok("every rank has all experts of a layer" if model.experts else "the policy is dense")
    if model.experts % ranks or not model.experts:
        return fatal(f"{model.experts} experts cannot be spread over {ranks} ranks", "choose a divisor of the experts")
    if facts.cluster.training_gpus % ranks:
        return fatal(f"{facts.cluster.training_gpus} training GPUs are not a multiple of {ranks} expert ranks")
    return ok(f"{model.experts} of a layer over {ranks} ranks")


def _pipeline(facts: Facts) -> Finding:
    trainer, layers = facts.cluster.trainer, facts.model.layers
    stages = trainer.pipeline_parallel if isinstance(trainer, MegatronTrainer) else 1
    if layers % stages:
        return fatal(f"{layers} layers cannot be cut into {stages} stages", f"choose a divisor of {layers}")
    return ok(f"{layers} in {stages} stage(s)")


def _kernels(facts: Facts) -> Finding:
    trainer, model = facts.cluster.trainer, facts.model
    if not model.is_hybrid:
        return ok("full attention in every layer")
    if isinstance(trainer, VeOmniTrainer):
        if trainer.linear_attention == "eager":
            return fatal(
                f"{model.layers - model.attention_layers} gated delta-net layers with eager kernels, which refuse "
                "packed rows",
                'set cluster.trainer.linear_attention = "fla"',
            )
        return ok(f"{trainer.linear_attention} for {model.layers - model.attention_layers} gated delta-nets")
    return warn(
        f"{trainer.kind} with gated delta-net layers and packed rows was never tried here",
        'set cluster.trainer.kind = "veomni"',
    )


def _replicas(facts: Facts) -> Finding:
    cluster, servers = facts.cluster, facts.cluster.servers
    size, gpus = servers.tensor_parallel * servers.data_parallel, cluster.rollout_gpus
    if gpus % size:
        return fatal(f"{gpus} rollout GPUs are not a multiple of the {size} of a replica")
    if servers.tensor_parallel > cluster.gpus_per_node:
        return fatal(f"a replica's {servers.tensor_parallel} tensor-parallel GPUs do not fit a node")
    if servers.expert_parallel not in {1, size}:
        return fatal(
            f"servers.expert_parallel is {servers.expert_parallel}", f"set it to 1, or to the {size} GPUs of a replica"
        )
    return ok(f"{gpus // size} of {size} GPU(s)")


def _server_heads(facts: Facts) -> Finding:
    model, ranks = facts.model, facts.cluster.servers.tensor_parallel
    if model.heads % ranks:
        return fatal(f"{model.heads} attention heads cannot be shared by {ranks} GPUs of a replica")
    if model.kv_heads % ranks and ranks % model.kv_heads:
        return fatal(f"{model.kv_heads} key-value heads cannot be shared by {ranks} GPUs of a replica")
    if ranks > model.kv_heads:
        return warn(
            f"{ranks} GPUs of a replica keep {ranks // model.kv_heads} copies of {model.kv_heads} key-value heads",
            f"more replicas of {model.kv_heads} GPUs have more room for caches, where the weights fit them",
        )
    return ok(f"{model.kv_heads} key-value heads over {ranks} GPUs of a replica")


RULES = (
    Rule(
        "training-mesh",
        "training GPUs are a multiple of those that one row needs together",
        "The mesh of ranks is a grid; what is left over makes its construction fail after the weights were read.",
        "choose parallel sizes of cluster.trainer whose product divides the training GPUs",
        _training_mesh,
    ),
    Rule(
        "sequence-heads",
        "ranks that share a sequence divide the heads",
        "Ulysses gives each rank some heads of the whole sequence, in full attention and in gated delta-nets alike.",
        "choose sequence_parallel (with Megatron tensor_parallel) as a divisor of the heads",
        _sequence_heads,
        _SHAPED,
    ),
    Rule(
        "experts",
        "expert-parallel ranks divide the experts and the GPUs",
        "Each rank holds as many experts of a layer as the others.",
        "choose cluster.trainer.expert_parallel as a divisor of both",
        _experts,
        _SHAPED,
    ),
    Rule(
        "layers",
        "pipeline stages divide the layers",
        "Megatron cuts the layers into stages of the same length.",
        "choose cluster.trainer.pipeline_parallel as a divisor of the layers",
        _pipeline,
        _SHAPED,
    ),
    Rule(
        "linear-kernels",
        "gated delta-net layers have kernels for packed rows",
        "transformers' own code of these layers takes no packed sequences: the first forward pass raises.",
        'set cluster.trainer.linear_attention = "fla"',
        _kernels,
        _SHAPED,
    ),
    Rule(
        "replicas",
        "rollout GPUs are a multiple of those of a replica",
        "What is left over serves nothing; a replica larger than a node crawls over the network; verl wants expert "
        "parallelism to be all of a replica or nothing.",
        "choose cluster.servers.tensor_parallel × data_parallel as a divisor of the rollout GPUs",
        _replicas,
    ),
    Rule(
        "server-heads",
        "GPUs of a replica divide the heads",
        "vLLM gives each GPU some heads; where there are more GPUs than key-value heads, caches are kept twice.",
        "choose cluster.servers.tensor_parallel as a divisor of the attention heads, best of the key-value heads",
        _server_heads,
        _SHAPED,
    ),
)
