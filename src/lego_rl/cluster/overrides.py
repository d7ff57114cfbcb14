"""A recipe as Hydra overrides of stock verl 0.9.1's V1 trainer.

Invariant: everything that the recipe says of a run of ``[cluster]`` is said to verl here and nowhere else, and nothing
here imports verl. Whoever changes an override by hand is refused where the loss is called.

What verl's defaults would do otherwise, and why a line is here, stands beside the line.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lego_rl.cluster.hydra_grammar import Override, bare, hydra
from lego_rl.cluster.trainer_overrides import trainer_overrides
from lego_rl.config.cluster import ClusterSection, MegatronTrainer, SeparateAsyncMode
from lego_rl.config.recipe import Recipe
from lego_rl.errors import ConfigError
from lego_rl.train.settings import NoCorrection

LOSS = "lego_gspo"
"""The policy loss of this plug-in: verl's GSPO, under a name that nothing else can be in effect under."""
AGGREGATION = "seq-mean-token-mean"
LOOP = "lego_rl"
"""Name of the agent loop."""
LOOP_CLASS = "lego_rl.cluster.agent_loop.TrialLoop"
MANAGER_CLASS = "lego_rl.cluster.manager.TrialManager"
SAMPLER_MODULE = "pkg://lego_rl.cluster.sampler"
SYNC_SAMPLER, ASYNC_SAMPLER = "TrialReplayBuffer", "TrialReplayBufferAsync"
SYNC_MODE, ASYNC_MODE = "lego_sync", "lego_separate_async"
CPU_SERVER = "lego_cpu"


@dataclass(frozen=True)
class RunFiles:
    """What of a run's folder verl is told.

    Attributes:
        run: The run directory, absolute.
        policy: Directory, or hub name, of the policy.
    """

    run: Path
    policy: str

    @property
    def recipe(self) -> Path:
        """The resolved recipe."""
        return self.run / "recipe.toml"

    @property
    def loops(self) -> Path:
        """verl's agent-loop configuration."""
        return self.run / "loops.yaml"

    @property
    def train(self) -> Path:
        """Index of the tasks that are trained on."""
        return self.run / "tasks-train.parquet"

    @property
    def evaluated(self) -> Path:
        """Index of the tasks that are evaluated; where none are, verl still wants a dataset."""
        return self.run / "tasks-evaluated.parquet"

    @property
    def checkpoints(self) -> Path:
        """verl's checkpoints."""
        return self.run / "checkpoints"

    @property
    def metrics(self) -> Path:
        """verl's metrics, one line a step."""
        return self.run / "verl.jsonl"

    @property
    def weights(self) -> Path:
        """Where weights pass from trainer to servers on the CPU."""
        return self.run / "weights"


def cluster_of(recipe: Recipe) -> ClusterSection:
    """The recipe's cluster.

    Raises:
        ConfigError: It has none.
    """
    if recipe.cluster is None:
        raise ConfigError(
            "the recipe has no section [cluster], which verl's run is made of",
            "add one, as recipes/one-gpu.toml has, or train on one machine with --backend embedded",
        )
    return recipe.cluster


def overrides(recipe: Recipe, files: RunFiles) -> list[str]:
    """The arguments of ``python -m verl.trainer.main_ppo``, in Hydra's grammar.

    Raises:
        ConfigError: The recipe has no cluster, or it contradicts itself.
    """
    cluster = cluster_of(recipe)
    parts = (
        trainer_overrides(cluster, recipe),
        _data(recipe, cluster, files),
        _model(cluster, files),
        _loss(recipe, cluster),
        _rollout(recipe, cluster, files),
        _servers(recipe, cluster, files),
        _trainer(recipe, cluster, files),
        _mode(recipe, cluster),
        _ray(cluster, files),
    )
    own = dict(override for part in parts for override in part)
    _refuse_contradictions(cluster.verl, {bare(key) for key in own})
    return [*(f"{key}={hydra(value)}" for key, value in own.items()), *cluster.verl]


def _refuse_contradictions(further: Sequence[str], own: Collection[str]) -> None:
    for override in further:
        if bare(override) in own:
            raise ConfigError(
                f"cluster.verl says {override}, which the recipe says already",
                f"take it out, and set the key of the recipe that {bare(override)} follows from",
            )


def environment(cluster: ClusterSection, files: RunFiles) -> Mapping[str, str]:
    """What verl's processes find in their environment, for verl reads no configuration for it.

    verl 0.9.1's fully asynchronous trainer logs a line at level INFO in a way that ends it: hence WARN.
    """
    found = {
        "VERL_LOGGING_LEVEL": "WARN",
        "VERL_FILE_LOGGER_PATH": str(files.metrics),
        "TENSORBOARD_DIR": str(files.run / "tensorboard"),
    }
    return found | ({"VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1"} if cluster.device == "cpu" else {})


def _data(recipe: Recipe, cluster: ClusterSection, files: RunFiles) -> Iterator[Override]:
    yield "data.train_files", str(files.train)
    yield "data.val_files", str(files.evaluated if recipe.evaluate.splits else files.train)
    yield "data.train_batch_size", recipe.rollout.tasks_per_step
    yield "data.max_prompt_length", cluster.prompt_tokens
    yield "data.max_response_length", cluster.response_tokens
    yield "data.seed", recipe.run.seed
    yield "data.filter_overlong_prompts", False  # a row is a pointer to a task; prompts are the harness's
    if isinstance(cluster.mode, SeparateAsyncMode):
        yield "data.gen_batch_size", 1  # dropped prompts are replaced one by one
    if cluster.device == "cpu":
        yield "data.dataloader_num_workers", 0


def _model(cluster: ClusterSection, files: RunFiles) -> Iterator[Override]:
    yield "actor_rollout_ref.model.path", files.policy
    yield "actor_rollout_ref.model.use_remove_padding", True  # R3 and sequence parallelism need packed rows
    yield "actor_rollout_ref.model.use_fused_kernels", cluster.log_probs == "chunked"
    if isinstance(cluster.trainer, MegatronTrainer):
        yield "actor_rollout_ref.model.fused_kernel_options.impl_backend", "triton"  # it has no other
    yield "actor_rollout_ref.model.enable_gradient_checkpointing", cluster.device != "cpu"
    if cluster.device == "cpu":
        yield "+actor_rollout_ref.model.override_config.attn_implementation", "sdpa"


def _loss(recipe: Recipe, cluster: ClusterSection) -> Iterator[Override]:
    loss, actor = recipe.train.loss, "actor_rollout_ref.actor"
    yield "algorithm.adv_estimator", "grpo"
    yield "algorithm.norm_adv_by_std_in_grpo", True
    yield "algorithm.use_kl_in_reward", False
    yield f"{actor}.policy_loss.loss_mode", LOSS
    yield f"{actor}.loss_agg_mode", AGGREGATION
    yield f"{actor}.clip_ratio_low", loss.clip_low
    yield f"{actor}.clip_ratio_high", loss.clip_high
    yield f"{actor}.entropy_coeff", 0
    yield f"{actor}.use_kl_loss", loss.kl_coefficient > 0
    yield f"{actor}.kl_loss_type", "low_var_kl"
    yield f"{actor}.kl_loss_coef", loss.kl_coefficient
    yield f"{actor}.ppo_epochs", 1
    yield f"{actor}.ppo_mini_batch_size", recipe.rollout.tasks_per_step // recipe.train.updates
    # Rows differ in length by a factor of a hundred: they are packed up to a number of tokens.
    yield f"{actor}.use_dynamic_bsz", True
    yield f"{actor}.ppo_max_token_len_per_gpu", cluster.microbatch_tokens
    correction = "algorithm.rollout_correction"
    yield f"{correction}.bypass_mode", False  # it would put behaviour log-probs in the place of the trainer's own
    if isinstance(loss.importance, NoCorrection):
        yield f"{correction}.rollout_is", None
    else:
        yield f"{correction}.rollout_is", loss.importance.kind
        yield f"{correction}.rollout_is_threshold", loss.importance.cap
    yield f"{correction}.rollout_is_batch_normalize", False
    yield f"{correction}.rollout_rs", None


def _rollout(recipe: Recipe, cluster: ClusterSection, files: RunFiles) -> Iterator[Override]:
    rollout = "actor_rollout_ref.rollout"
    yield f"{rollout}.n", recipe.rollout.group_size
    yield f"{rollout}.temperature", recipe.rollout.temperature
    yield f"{rollout}.top_p", 1.0
    yield f"{rollout}.top_k", -1
    yield f"{rollout}.calculate_log_probs", True
    yield f"{rollout}.val_kwargs.n", recipe.evaluate.trials
    yield f"{rollout}.val_kwargs.temperature", recipe.evaluate.temperature
    yield f"{rollout}.val_kwargs.do_sample", recipe.evaluate.temperature > 0
    yield f"{rollout}.val_kwargs.top_p", 1.0
    yield f"{rollout}.val_kwargs.top_k", -1
    yield f"{rollout}.enable_rollout_routing_replay", recipe.train.routing == "replay"
    yield f"{rollout}.multi_turn.format", recipe.policy.tool_parser  # not read by this loop; verl's dump says what runs
    yield f"{rollout}.agent.num_workers", cluster.agent_workers
    yield f"{rollout}.agent.default_agent_loop", LOOP
    yield f"{rollout}.agent.agent_loop_config_path", str(files.loops)
    yield f"+{rollout}.agent.agent_loop_manager_class", MANAGER_CLASS


def _servers(recipe: Recipe, cluster: ClusterSection, files: RunFiles) -> Iterator[Override]:
    rollout, servers = "actor_rollout_ref.rollout", cluster.servers
    yield f"{rollout}.name", CPU_SERVER if cluster.device == "cpu" else "vllm"
    yield f"{rollout}.dtype", servers.dtype
    yield f"{rollout}.tensor_model_parallel_size", servers.tensor_parallel
    yield f"{rollout}.data_parallel_size", servers.data_parallel
    yield f"{rollout}.expert_parallel_size", servers.expert_parallel
    yield f"{rollout}.gpu_memory_utilization", servers.gpu_memory_fraction
    yield f"{rollout}.max_num_seqs", servers.max_sequences
    yield f"{rollout}.max_num_batched_tokens", servers.prefill_tokens
    yield f"{rollout}.max_model_len", recipe.budget.context_tokens
    yield f"{rollout}.enable_prefix_caching", True  # a conversation's turns share all but their ends
    yield f"{rollout}.logprobs_mode", "processed_logprobs"  # of the distribution that is sampled from
    yield f"{rollout}.nnodes", cluster.rollout_nodes
    yield f"{rollout}.n_gpus_per_node", cluster.gpus_per_node
    yield f"{rollout}.free_cache_engine", cluster.device != "cpu" and not cluster.rollout_nodes
    yield f"{rollout}.checkpoint_engine.backend", cluster.weight_transfer
    if cluster.weight_transfer == "lego_file":
        yield f"+{rollout}.checkpoint_engine.engine_kwargs.lego_file.directory", str(files.weights)


def _trainer(recipe: Recipe, cluster: ClusterSection, files: RunFiles) -> Iterator[Override]:
    evaluated = bool(recipe.evaluate.splits) and cluster.evaluate_every > 0
    yield "trainer.use_v1", True
    yield "trainer.device", cluster.device
    yield "trainer.nnodes", cluster.training_nodes
    yield "trainer.n_gpus_per_node", cluster.gpus_per_node
    yield "trainer.total_epochs", cluster.epochs
    yield "trainer.total_training_steps", recipe.run.steps
    yield "trainer.val_before_train", evaluated
    yield "trainer.test_freq", cluster.evaluate_every if evaluated else -1
    yield "trainer.save_freq", cluster.checkpoint_every
    yield "trainer.max_actor_ckpt_to_keep", recipe.run.keep_checkpoints
    yield "trainer.default_local_dir", str(files.checkpoints)
    yield "trainer.resume_mode", "auto"  # the same line, run again, goes on from the last checkpoint
    yield "trainer.project_name", "lego-rl"
    yield "trainer.experiment_name", files.run.name
    yield "trainer.logger", ["console", "file", "tensorboard"]


def _mode(recipe: Recipe, cluster: ClusterSection) -> Iterator[Override]:
    sampler, mode = "trainer.v1.sampler", cluster.mode
    yield f"{sampler}.custom_sampler.path", SAMPLER_MODULE
    if not isinstance(mode, SeparateAsyncMode):
        yield "trainer.v1.trainer_mode", SYNC_MODE
        yield f"{sampler}.custom_sampler.name", SYNC_SAMPLER
        return
    yield "trainer.v1.trainer_mode", ASYNC_MODE
    yield f"{sampler}.custom_sampler.name", ASYNC_SAMPLER
    # verl counts the versions that a trial spans, the trainer's own among them.
    yield f"{sampler}.max_off_policy_threshold", mode.staleness + 1
    yield f"{sampler}.max_off_policy_strategy", "drop"
    # tasks_per_step = parameter_sync_step × ppo_mini_batch_size: weights go out once a step, however many its updates.
    yield "trainer.v1.separate_async.parameter_sync_step", recipe.train.updates
    yield "trainer.v1.separate_async.num_warmup_batches", mode.warmup_batches
    yield "trainer.v1.separate_async.hybrid_rollout.enable_switch", False
    yield "actor_rollout_ref.hybrid_engine", False  # no second set of servers on the trainer's GPUs


def _ray(cluster: ClusterSection, files: RunFiles) -> Iterator[Override]:
    init = "ray_kwargs.ray_init"
    for name, text in environment(cluster, files).items():
        yield f"+{init}.runtime_env.env_vars.{name}", text
    if cluster.ray_address is not None:
        yield f"+{init}.address", cluster.ray_address
    elif cluster.device == "cpu":
        processes = cluster.training_gpus + cluster.rollout_nodes * cluster.gpus_per_node
        yield f"+{init}.num_gpus", processes  # verl's pools count nothing else
        yield f"{init}.num_cpus", math.ceil(16 + 4 * processes + cluster.agent_workers)
        yield f"+{init}.include_dashboard", False
    if cluster.device == "cpu":
        yield "reward.num_workers", 1
        yield "transfer_queue.backend.SimpleStorage.num_data_storage_units", 1
