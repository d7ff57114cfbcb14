"""The ``[cluster]`` section of a recipe: what a run beyond one machine is spread over, and how.

Invariant: nothing here imports verl or Ray, so that a recipe of a cluster can be read, checked and printed anywhere.
The algorithm is not here: it is ``[train]``, ``[rollout]`` and ``[budget]``, the same for one machine and for many.

The address that sandboxes find a gateway at is the sandboxes' own matter: loopback on the machine of the agent-loop
worker, or ``sandbox.kubernetes.advertise``.
"""

from typing import Annotated, Literal

from pydantic import Field

from lego_rl.settings import FilePath, Settings

Size = Annotated[int, Field(ge=1)]
"""A number of machines, GPUs or ranks."""
type Offload = tuple[Literal["parameters", "optimizer"], ...]
"""What of the trainer waits in main memory while it is not needed."""


class Fsdp2Trainer(Settings):
    """PyTorch's fully sharded data parallelism: any model that transformers has."""

    kind: Literal["fsdp2"] = "fsdp2"
    sequence_parallel: Size = 1
    """Ulysses: ranks that share one sequence. It divides the attention heads."""
    shard_size: Size | None = None
    """Ranks that weights are sharded over; all of them if unset."""
    offload: Offload = ()
    """``parameters``, ``optimizer``: kept in main memory between uses, which is slower and leaves GPUs room."""


class VeOmniTrainer(Settings):
    """VeOmni on FSDP2: mixtures of experts in long contexts, with routing replay of its own."""

    kind: Literal["veomni"] = "veomni"
    sequence_parallel: Size = 1
    """Ulysses: ranks that share one sequence. It divides the attention heads."""
    expert_parallel: Size = 1
    """Ranks that the experts of a layer are spread over. It divides the experts."""
    shard_size: Size | None = None
    """Data-parallel ranks that weights are sharded over; all of them if unset."""
    offload: Offload = ()
    """``parameters``, ``optimizer``: kept in main memory between uses, which is slower and leaves GPUs room."""
    attention: Literal["flash_attention_2", "flash_attention_3", "flash_attention_4", "sdpa", "eager"] = (
        "flash_attention_2"
    )
    """Kernel of full attention."""
    experts: Literal["fused", "eager"] = "fused"
    """Kernel of the experts."""
    linear_attention: Literal["fla", "flash_qla", "eager"] = "eager"
    """Kernels of gated delta-net layers, in models that have them (Qwen3.5). ``eager`` cannot take packed sequences;
    ``flash_qla`` is for Hopper GPUs."""


class MegatronTrainer(Settings):
    """Megatron: tensor, pipeline, context and expert parallelism."""

    kind: Literal["megatron"] = "megatron"
    tensor_parallel: Size = 1
    """Ranks that share each layer. It divides the attention heads."""
    pipeline_parallel: Size = 1
    """Ranks that the layers are spread over. It divides the layers."""
    context_parallel: Size = 1
    """Ranks that share one sequence."""
    expert_parallel: Size = 1
    """Ranks that the experts of a layer are spread over. It divides the experts."""
    offload: Offload = ()
    """``parameters``, ``optimizer``: kept in main memory between uses, which is slower and leaves GPUs room."""


type TrainerSettings = Annotated[Fsdp2Trainer | VeOmniTrainer | MegatronTrainer, Field(discriminator="kind")]


class SyncMode(Settings):
    """Rollouts and training take turns on the same GPUs: every trial is of the newest weights."""

    kind: Literal["sync"] = "sync"


class SeparateAsyncMode(Settings):
    """Rollouts go on, on GPUs of their own, while the trainer trains.

    A generation that new weights meet half-way goes on under them (partial rollout): its spans of weight versions are
    recorded, and each token's log-prob belongs to the version that sampled it.
    """

    kind: Literal["separate_async"] = "separate_async"
    rollout_nodes: Size = 1
    """Machines that only serve the policy."""
    staleness: int = Field(default=1, ge=0)
    """Most weight versions that a trial may be behind the trainer when it is trained on; an older one is dropped, and
    its prompt is replaced."""
    warmup_batches: float = Field(default=1.0, ge=0)
    """Batches that are rolled out ahead of the first step."""
    partial_rollout: Literal[True] = True
    """verl's fully asynchronous mode always resumes interrupted generations; the recipe says so for its reader."""


type ModeSettings = Annotated[SyncMode | SeparateAsyncMode, Field(discriminator="kind")]


class ServerSettings(Settings):
    """The inference servers that verl starts."""

    tensor_parallel: Size = 1
    """GPUs of one replica that share each layer; replicas are as many as fit the GPUs of rollouts."""
    data_parallel: Size = 1
    """Data-parallel ranks within one replica."""
    expert_parallel: Size = 1
    """Ranks that experts are spread over within a replica: 1, or tensor_parallel × data_parallel."""
    gpu_memory_fraction: float = Field(default=0.85, gt=0, lt=1)
    """Share of a GPU's memory that a server may take for weights and cache."""
    max_sequences: Size = 64
    """Most sequences that one replica decodes together."""
    prefill_tokens: Size = 16_384
    """Most prompt tokens of one step of a replica."""
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    """What servers compute in."""


class ClusterSection(Settings):
    """A run on stock verl, Ray and vLLM. Without this section a recipe is for one machine."""

    nodes: Size
    """All machines of the run. It is training_nodes, and with ``separate_async`` rollout_nodes besides."""
    training_nodes: Size
    """Machines of the trainer; with ``sync`` they serve the policy as well."""
    gpus_per_node: Size = 8
    """GPUs of one machine."""
    gpu_memory_gb: float = Field(default=80.0, gt=0)
    """Memory of one GPU, in GB of 10⁹ bytes; what the estimates of ``lego-rl check recipe`` are held against."""
    device: Literal["cuda", "cpu"] = "cuda"
    """``cpu``: the same processes without a GPU, each of which counts as one; a Ray of this machine then stands for any
    number of nodes. It is for trying things out."""
    trainer: TrainerSettings = Fsdp2Trainer()
    """What trains."""
    mode: ModeSettings = SyncMode()
    """When rollouts run."""
    servers: ServerSettings = ServerSettings()
    """What samples."""
    epochs: Size = 1
    """Passes over the training split; the run ends after ``run.steps`` steps or with the last pass."""
    prompt_tokens: Size
    """Longest first prompt, in tokens; with response_tokens it is ``budget.context_tokens``."""
    response_tokens: Size
    """All that comes after the first prompt, the harness's tokens included."""
    microbatch_tokens: Size
    """Tokens that one GPU computes at once. Times the ranks that share a sequence it has to hold a whole context."""
    log_probs: Literal["chunked", "whole"] = "chunked"
    """How log-probs are computed from the last hidden states. ``whole`` keeps logits of the whole vocabulary for every
    token, which at long contexts is more than everything else."""
    weight_transfer: Literal["naive", "nccl", "nixl", "mooncake", "lego_file"] = "naive"
    """How weights go to the servers: ``naive`` within the same processes (``sync``), else by that library;
    ``lego_file`` is for the CPU."""
    agent_workers: Size = 8
    """Agent-loop workers. Each has a gateway, and runs ``rollout.concurrency`` trials at the same time."""
    checkpoint_every: int = Field(default=10, ge=1)
    """Steps between checkpoints; ``run.keep_checkpoints`` of them are kept."""
    evaluate_every: int = Field(default=0, ge=0)
    """Steps between evaluations of ``[evaluate]``, of which one comes before the first step too; 0 for none."""
    python: FilePath | None = None
    """Python of verl's environment, the same path on every machine; the one that runs ``lego-rl``, if unset."""
    ray_address: str | None = None
    """The Ray that the run joins, such as ``auto``; a Ray of this machine is started for the run, if unset."""
    verl: tuple[str, ...] = ()
    """Further overrides of verl's configuration, as on its command line; none of what the recipe says already."""

    @property
    def rollout_nodes(self) -> int:
        """Machines that only serve the policy."""
        return self.mode.rollout_nodes if isinstance(self.mode, SeparateAsyncMode) else 0

    @property
    def training_gpus(self) -> int:
        """GPUs, or on the CPU processes, of the trainer."""
        return self.training_nodes * self.gpus_per_node

    @property
    def rollout_gpus(self) -> int:
        """GPUs, or on the CPU processes, of the inference servers."""
        return (self.rollout_nodes or self.training_nodes) * self.gpus_per_node

    @property
    def sequence_ranks(self) -> int:
        """Ranks of the trainer that share one sequence."""
        if isinstance(self.trainer, MegatronTrainer):
            return self.trainer.context_parallel
        return self.trainer.sequence_parallel
