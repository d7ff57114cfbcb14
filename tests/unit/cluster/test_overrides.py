"""A recipe as overrides of verl: what each part of it says, and the line that starts a run."""

import json
import shlex
from pathlib import Path

import pytest

from lego_rl.cluster.hydra_grammar import hydra
from lego_rl.cluster.launch import Launch
from lego_rl.cluster.overrides import RunFiles, overrides
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.errors import ConfigError

RECIPES = Path(__file__).parents[3] / "recipes"
RUN = RECIPES / "qwen3.5-35b-a3b-claude-code.toml"
ONE_GPU = RECIPES / "one-gpu.toml"
CPU = RECIPES / "cluster-cpu.toml"
FILES = RunFiles(Path("/shared/run"), "/shared/policy")
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


def said(path: Path, *changed: str) -> dict[str, str]:
    pairs = [override.partition("=") for override in overrides(read(Recipe, path, changed), FILES)]
    return {key: value for key, _, value in pairs}


def test_the_published_run() -> None:
    found = said(RUN)
    expected = {
        "model_engine": "veomni",
        f"{ACTOR}.veomni.ulysses_parallel_size": "8",
        f"{ACTOR}.veomni.router_replay.mode": "R3",
        f"{ACTOR}.policy_loss.loss_mode": "lego_gspo",
        f"{ACTOR}.loss_agg_mode": "seq-mean-token-mean",
        f"{ACTOR}.clip_ratio_low": "0.0003",
        f"{ACTOR}.clip_ratio_high": "0.0004",
        f"{ACTOR}.use_kl_loss": "true",
        f"{ACTOR}.kl_loss_type": "low_var_kl",
        f"{ACTOR}.kl_loss_coef": "0.001",
        f"{ACTOR}.optim.lr": "1e-06",
        f"{ACTOR}.optim.lr_scheduler_type": "constant",
        f"{ACTOR}.ppo_mini_batch_size": "64",
        "data.train_batch_size": "64",
        "data.max_prompt_length": "30000",
        "data.max_response_length": "170000",
        "data.gen_batch_size": "1",
        f"{ROLLOUT}.max_model_len": "200000",
        f"{ROLLOUT}.n": "8",
        f"{ROLLOUT}.temperature": "1.0",
        f"{ROLLOUT}.enable_rollout_routing_replay": "true",
        f"{ROLLOUT}.nnodes": "1",
        f"{ROLLOUT}.checkpoint_engine.backend": "nccl",
        "algorithm.rollout_correction.bypass_mode": "false",
        "algorithm.rollout_correction.rollout_is": "token",
        "algorithm.rollout_correction.rollout_is_threshold": "2.0",
        "actor_rollout_ref.hybrid_engine": "false",
        "trainer.nnodes": "2",
        "trainer.total_epochs": "3",
        "trainer.total_training_steps": "126",
        "trainer.v1.trainer_mode": "lego_separate_async",
        "trainer.v1.separate_async.parameter_sync_step": "1",
        "trainer.v1.sampler.max_off_policy_threshold": "2",
        "trainer.v1.sampler.custom_sampler.name": "TrialReplayBufferAsync",
        "+ray_kwargs.ray_init.address": "auto",
        "+ray_kwargs.ray_init.runtime_env.env_vars.VERL_LOGGING_LEVEL": "WARN",
    }
    assert {key: found.get(key) for key in expected} == expected


def test_weights_go_out_once_a_step_however_many_its_updates() -> None:
    found = said(RUN, "train.updates=4")
    batch, updates = int(found["data.train_batch_size"]), int(found["trainer.v1.separate_async.parameter_sync_step"])
    assert batch == updates * int(found[f"{ACTOR}.ppo_mini_batch_size"])
    assert updates == 4


def test_one_gpu_takes_turns() -> None:
    found = said(ONE_GPU)
    assert found["trainer.v1.trainer_mode"] == "lego_sync"
    assert found["trainer.v1.sampler.custom_sampler.name"] == "TrialReplayBuffer"
    assert found[f"{ROLLOUT}.nnodes"] == "0"
    assert found[f"{ROLLOUT}.checkpoint_engine.backend"] == "naive"
    assert found[f"{ROLLOUT}.enable_rollout_routing_replay"] == "false"
    assert found[f"{ACTOR}.fsdp_config.param_offload"] == found[f"{ACTOR}.fsdp_config.optimizer_offload"] == "true"
    assert not any("separate_async" in key or "gen_batch_size" in key for key in found)


def test_the_cpu_is_told_of_processes_as_gpus() -> None:
    found = said(CPU, 'cluster.mode={kind="separate_async"}', "cluster.nodes=2", "cluster.weight_transfer=lego_file")
    assert found[f"{ROLLOUT}.name"] == "lego_cpu"
    assert found["+ray_kwargs.ray_init.num_gpus"] == "2"
    assert found[f"+{ROLLOUT}.checkpoint_engine.engine_kwargs.lego_file.directory"] == "/shared/run/weights"
    assert found["+ray_kwargs.ray_init.runtime_env.env_vars.VERL_PLATFORM"] == "cpu"


@pytest.mark.parametrize(
    ("changed", "key", "value"),
    [
        (['train.loss.importance={kind="none"}'], "algorithm.rollout_correction.rollout_is", "null"),
        (['train.loss.importance={kind="sequence"}'], "algorithm.rollout_correction.rollout_is", "sequence"),
        (["train.loss.kl_coefficient=0"], f"{ACTOR}.use_kl_loss", "false"),
        (["train.routing=own"], f"{ACTOR}.veomni.router_replay.mode", "disabled"),
        (["cluster.log_probs=whole"], "actor_rollout_ref.model.use_fused_kernels", "false"),
        (["cluster.trainer.linear_attention=flash_qla"], f"{ACTOR}.veomni.causal_conv1d_implementation", "fla"),
        (["cluster.evaluate_every=5"], "trainer.test_freq", "-1"),
        (["cluster.evaluate_every=5", "evaluate.splits={heldout=8}"], "trainer.test_freq", "5"),
        (["evaluate.splits={heldout=8}"], "data.val_files", "/shared/run/tasks-evaluated.parquet"),
        ([], "data.val_files", "/shared/run/tasks-train.parquet"),
        (["run.seed=7"], "data.seed", "7"),
        (['cluster.trainer={kind="megatron", tensor_parallel=2}'], "model_engine", "megatron"),
        (['cluster.trainer={kind="megatron"}'], "actor_rollout_ref.model.fused_kernel_options.impl_backend", "triton"),
        (['cluster.trainer={kind="megatron"}'], f"{ACTOR}.megatron.router_replay.mode", "R3"),
        (['cluster.verl=["+trainer.note=hand-made"]'], "+trainer.note", "hand-made"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_a_recipe_says_is_said_to_verl(changed: list[str], key: str, value: str) -> None:
    assert said(RUN, *changed)[key] == value


@pytest.mark.parametrize(
    "override", ["trainer.nnodes=4", "algorithm.rollout_correction.bypass_mode=true", "++trainer.use_v1=false"]
)
def test_a_further_override_cannot_contradict_the_recipe(override: str) -> None:
    with pytest.raises(ConfigError, match="which the recipe says already"):
        said(RUN, f'cluster.verl=["{override}"]')


def test_a_recipe_of_one_machine_has_no_overrides() -> None:
    with pytest.raises(ConfigError, match=r"no section \[cluster\]"):
        said(RECIPES / "demo-claude-code.toml")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (1e-6, "1e-06"),
        (-1, "-1"),
        ([0.9, 0.999], "[0.9,0.999]"),
        ("/a/b-c.d", "/a/b-c.d"),
        ("pkg://a.b", "pkg://a.b"),
        ("1", "'1'"),
        ("null", "'null'"),
        ("a b,c", "'a b,c'"),
        ("it's", r"'it\'s'"),
        ("", "''"),
    ],
)
def test_values_in_hydras_grammar(value: object, text: str) -> None:
    assert hydra(value) == text  # type: ignore[arg-type]


def test_the_line_is_complete(tmp_path: Path) -> None:
    recipe = read(Recipe, CPU, [f"run.dir={tmp_path}/a run"])
    launch = Launch.of(recipe, Path("/opt/verl/bin/python"))
    words = shlex.split(launch.line)
    start = words.index("/opt/verl/bin/python")
    assert dict(word.split("=", 1) for word in words[:start]) == launch.environment
    assert words[start:] == list(launch.command)
    assert words[start + 1 : start + 3] == ["-m", "verl.trainer.main_ppo"]
    assert launch.environment["VERL_LOGGING_LEVEL"] == "WARN"


def test_metrics_of_an_earlier_start_are_kept(tmp_path: Path) -> None:
    launch = Launch.of(read(Recipe, CPU, [f"run.dir={tmp_path}"]), Path("python"))
    for start in range(3):
        launch.write()
        Path(launch.environment["VERL_FILE_LOGGER_PATH"]).write_text(f"{start}\n" * (start != 2), encoding="utf-8")
    launch.write()
    kept = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("verl*.jsonl")}
    assert kept == {"verl-001.jsonl": "0\n", "verl-002.jsonl": "1\n", "verl.jsonl": ""}


def test_a_runs_files_lead_to_the_resolved_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = read(Recipe, CPU, ["run.dir=run", "tasks.pool=pool", "policy.path=policy"])
    (tmp_path / "policy").mkdir()
    launch = Launch.of(recipe, Path("python"))
    launch.write()
    (entry,) = json.loads((tmp_path / "run" / "loops.yaml").read_text(encoding="utf-8"))
    assert (entry["name"], entry["_target_"]) == ("lego_rl", "lego_rl.cluster.agent_loop.TrialLoop")
    resolved = read(Recipe, Path(entry["recipe"]))
    assert resolved == launch.recipe
    places = {str(resolved.run.dir), resolved.tasks.pool, resolved.policy.path}
    assert places == {str(tmp_path / name) for name in ("run", "pool", "policy")}
