"""Preflight: the published recipes pass, and each broken variant fails by the rule that is there for it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lego_rl.config.load import read
from lego_rl.config.preflight.context import FIRST_PROMPT
from lego_rl.config.preflight.here import LEAST_VLLM
from lego_rl.config.preflight.rule import Facts, Level, Need, Verdict, judge
from lego_rl.config.preflight.table import RULES
from lego_rl.config.recipe import Recipe
from lego_rl.config.shapes import PUBLISHED, ModelShape, shape_of
from lego_rl.errors import TaskError
from lego_rl.policies import policy_directory

ROOT = Path(__file__).parents[3]
RECIPES = ROOT / "recipes"
PUBLISHED_RUNS = sorted(RECIPES.glob("qwen3.5-35b-a3b-*.toml"))
OF_CLUSTERS = [*PUBLISHED_RUNS, *(RECIPES / f"{name}.toml" for name in ("one-node", "one-gpu", "cluster-cpu"))]
RUN = PUBLISHED_RUNS[0]
ONE_GPU = RECIPES / "one-gpu.toml"
CPU = RECIPES / "cluster-cpu.toml"
OFFLOAD_NOTHING = "cluster.trainer.offload=[]"


def shape(recipe: Recipe) -> ModelShape | None:
    path = recipe.policy.path
    return shape_of(str(policy_directory(path)) if path.startswith("builtin:") else path)


def judged(path: Path, *overrides: str) -> Mapping[str, Verdict]:
    recipe = read(Recipe, path, overrides)
    return {verdict.rule.id: verdict for verdict in judge(RULES, Facts(recipe, shape(recipe)))}


def levels(verdicts: Mapping[str, Verdict], level: Level) -> dict[str, str]:
    return {name: verdict.what for name, verdict in verdicts.items() if verdict.level is level}


def test_the_published_runs_are_three() -> None:
    harnesses = {read(Recipe, path).harness.name for path in PUBLISHED_RUNS}
    assert harnesses == {"claude-code", "opencode", "openhands-sdk"}


@pytest.mark.parametrize("path", OF_CLUSTERS, ids=lambda path: path.stem)
def test_a_shipped_recipe_passes_every_rule(path: Path) -> None:
    verdicts = judged(path)
    assert not levels(verdicts, Level.FATAL)
    assert not levels(verdicts, Level.WARN)
    assert set(verdicts) == {rule.id for rule in RULES if Need.MACHINE not in rule.needs}


BROKEN = [
    (RUN, ["cluster.nodes=4"], "node-sums", "3, cluster.nodes is 4"),
    (RUN, ["cluster.training_nodes=3"], "node-sums", "4, cluster.nodes is 3"),
    (ONE_GPU, ["cluster.nodes=2", "cluster.training_nodes=2"], "ray-nodes", "a Ray of one machine"),
    (RUN, ["cluster.weight_transfer=naive"], "weight-transfer", "servers have GPUs of their own"),
    (RUN, ["cluster.weight_transfer=lego_file"], "device", "without a GPU"),
    (CPU, ["cluster.trainer.kind=megatron"], "device", "no CPU kernels"),
    (CPU, ["cluster.log_probs=chunked"], "device", "GPU kernels"),
    (
        RUN,
        ["sandbox.environment=kubernetes", "sandbox.kubernetes.advertise=10.0.0.7"],
        "gateway-address",
        "sought at 10.0.0.7",
    ),
    (RUN, ["cluster.trainer.sequence_parallel=3"], "training-mesh", "not a multiple of the 3"),
    (RUN, ["cluster.trainer.sequence_parallel=16"], "sequence-heads", None),
    (RUN, ["cluster.trainer.sequence_parallel=32"], "sequence-heads", "16 attention heads cannot be shared by 32"),
    (RUN, ["cluster.trainer.expert_parallel=3"], "experts", "256 experts"),
    (RUN, ["cluster.trainer.linear_attention=eager"], "linear-kernels", "30 gated delta-net layers"),
    (RUN, ["cluster.servers.tensor_parallel=3"], "replicas", "8 rollout GPUs"),
    (RUN, ["cluster.servers.expert_parallel=4"], "replicas", "servers.expert_parallel is 4"),
    (RUN, ["budget.context_tokens=160_000"], "context-sums", "200,000 tokens, budget.context_tokens is 160,000"),
    (RUN, ["cluster.response_tokens=16_000"], "output", "32,768"),
    (
        RUN,
        ["budget.context_tokens=300_000", "cluster.response_tokens=270_000", "cluster.microbatch_tokens=40_000"],
        "model-context",
        "262,144 positions",
    ),
    (RUN, ["cluster.microbatch_tokens=16_384"], "microbatch", "131,072 cannot hold a context of 200,000"),
    (RUN, ["cluster.trainer.sequence_parallel=4"], "microbatch", "cannot hold a context"),
    (RUN, ["harness.name=claude-cod"], "harness", "there is no harness"),
    (RUN, ["harness.options.bare_=true"], "harness", "bare_"),
    (RUN, ["cluster.prompt_tokens=5_000", "cluster.response_tokens=195_000"], "first-prompt", "5,000"),
    (
        RUN,
        ["rollout.tasks_per_step=2", "train.updates=2", "rollout.group_size=2", "cluster.trainer.sequence_parallel=2"],
        "rows",
        "of 8 data-parallel ranks without a row",
    ),
    (RUN, ["cluster.mode.staleness=0"], "staleness", "staleness 0"),
    (RUN, ["cluster.mode.warmup_batches=2.0"], "warm-up", "too old"),
    (RUN, ['cluster.verl=["algorithm.rollout_correction.bypass_mode=true"]'], "gspo", "bypass_mode=true"),
    (RUN, ['cluster.verl=["actor_rollout_ref.actor.policy_loss.loss_mode=vanilla"]'], "gspo", "loss_mode=vanilla"),
    (RUN, ['cluster.verl=["trainer.use_v1=false"]'], "gspo", "use_v1"),
    (RUN, ['train.loss.importance={kind="none"}'], "importance", "1 version(s) behind"),
    (RUN, ["train.optimizer.eps=1e-6"], "optimizer", "no key for train.optimizer.eps"),
    (RUN, ["train.optimizer.weight_decay=0.01"], "tower-decay", "moves a vision tower"),
    (ONE_GPU, ["train.routing=replay"], "replay-family", "no experts"),
    (RUN, ["policy.tool_parser=hermes"], "tool-parser", "qwen3_coder, policy.tool_parser is hermes"),
    (RUN, ["cluster.log_probs=whole"], "trainer-memory", "logits 52.9"),
    (RUN, ["cluster.gpus_per_node=4", "cluster.trainer.sequence_parallel=8"], "trainer-memory", "of 80 GB a GPU"),
    (RUN, ["cluster.servers.tensor_parallel=1"], "server-memory", "weights 70.2"),
    (RUN, ["cluster.servers.gpu_memory_fraction=0.4"], "server-memory", "0.0 whole contexts"),
    (RECIPES / "one-node.toml", [OFFLOAD_NOTHING], "shared-memory", "while servers sample"),
]


@pytest.mark.parametrize(
    ("path", "overrides", "rule", "said"),
    BROKEN,
    ids=[f"{rule}:{' '.join(overrides)[:60]}" for _, overrides, rule, _ in BROKEN],
)
def test_a_broken_variant_fails_by_its_own_rule(path: Path, overrides: list[str], rule: str, said: str | None) -> None:
    verdict = judged(path, *overrides)[rule]
    if said is None:  # what only looks wrong
        assert verdict.level is Level.OK
        return
    assert (verdict.level, said in verdict.what) == (Level.FATAL, True), verdict.what
    assert verdict.fix


def test_every_rule_that_can_be_fatal_of_a_recipe_alone_is_broken_above() -> None:
    broken = {rule for _, _, rule, said in BROKEN if said is not None}
    never_fatal = {"policy-sizes", "server-heads", "layers", "updates", "concurrency", "checkpoint-interval"}
    never_fatal |= {"evaluation", "offload", "clip", "replay-record", "cache-room", "disk", "queue"}
    assert broken == {rule.id for rule in RULES if Need.MACHINE not in rule.needs} - never_fatal


WASTEFUL = [
    (RUN, ["cluster.servers.tensor_parallel=4"], "server-heads", "2 copies"),
    (RUN, ["cluster.mode.staleness=2"], "staleness", "2"),
    (RUN, ["cluster.mode.warmup_batches=0"], "warm-up", "waits for every batch"),
    (RUN, ['cluster.trainer.offload=["optimizer"]'], "offload", "main memory"),
    (RUN, ["train.loss.clip_low=0.2", "train.loss.clip_high=0.28"], "clip", "PPO's"),
    (RUN, ["train.optimizer.lr=1e-4"], "optimizer", "large"),
    (RUN, ["train.routing=own"], "replay-family", "256 experts without replay"),
    (RUN, ["rollout.concurrency=64"], "cache-room", "1024 at a time"),
    (RUN, ["rollout.concurrency=2"], "concurrency", "32 trials at a time"),
    (RUN, ["rollout.tasks_per_step=5", "rollout.group_size=3"], "rows", "15 trials"),
    (RUN, ["cluster.checkpoint_every=200"], "checkpoint-interval", "only the last"),
    (RUN, ["cluster.evaluate_every=10"], "evaluation", "names nothing"),
    (RECIPES / "qwen3.5-35b-a3b-opencode.toml", ["harness.options.compact_at_tokens=250_000"], "harness", "250,000"),
    (RUN, ['cluster.trainer={kind="megatron", tensor_parallel=2}'], "replay-family", "never tried"),
    (RUN, ['cluster.trainer={kind="fsdp2", sequence_parallel=8}'], "linear-kernels", "never tried"),
    (RUN, ["policy.path=models/mine"], "policy-sizes", "not known here"),
]


def test_one_machine_stands_for_several_on_the_cpu() -> None:
    apart = ['cluster.mode={kind="separate_async"}', "cluster.nodes=2", "cluster.weight_transfer=lego_file"]
    assert not levels(judged(CPU, *apart), Level.FATAL)


@pytest.mark.parametrize(("path", "overrides", "rule", "said"), WASTEFUL, ids=[f"{w[2]}:{w[1][0]}" for w in WASTEFUL])
def test_what_is_wasteful_or_unknown_is_a_warning(path: Path, overrides: list[str], rule: str, said: str) -> None:
    verdict = judged(path, *overrides)[rule]
    assert (verdict.level, said in verdict.what) == (Level.WARN, True), verdict.what
    assert verdict.fix


@pytest.mark.parametrize("trainer", ["fsdp2", "veomni"])
def test_a_policy_that_nobody_replays(trainer: str) -> None:
    model = ModelShape(**{**vars(PUBLISHED["Qwen3.5-35B-A3B"]), "model_type": "mixtral"})
    recipe = read(Recipe, RUN, [f'cluster.trainer={{kind="{trainer}"}}'])
    (verdict,) = judge([one for one in RULES if one.id == "replay-family"], Facts(recipe, model))
    assert (verdict.level, verdict.fix) == (Level.FATAL, 'set train.routing = "own"')
    assert "not mixtral" in verdict.what


@pytest.mark.parametrize(
    ("overrides", "rule"),
    [
        ({"experts": 512}, "replay-record"),
        ({"top_k": 1}, "replay-record"),
        ({"layers": 41}, "layers"),
        ({"kv_heads": 3, "heads": 24}, "server-heads"),
        ({"heads": 15}, "server-heads"),
        ({"kv_heads": 3, "heads": 24}, "sequence-heads"),
        ({"linear_key_heads": 12}, "sequence-heads"),
    ],
)
def test_a_policy_of_another_shape_fails(overrides: dict[str, int], rule: str) -> None:
    model = ModelShape(**{**vars(PUBLISHED["Qwen3.5-35B-A3B"]), **overrides})
    chosen = ['cluster.trainer={kind="megatron", pipeline_parallel=2}'] if rule == "layers" else []
    recipe = read(Recipe, RUN, chosen)
    (verdict,) = judge([one for one in RULES if one.id == rule], Facts(recipe, model))
    assert verdict.level is Level.FATAL
    assert verdict.fix


def test_rules_say_why_and_what_to_do_and_have_ids_of_their_own() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES) >= 30
    for rule in RULES:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.id)
        assert rule.checks
        assert rule.reason.endswith(".")
        assert not rule.fix.endswith(".")


def test_first_prompts_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "harnesses.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| `([a-z-]+)` \| ([\d,]+) \| [\d,]+ \|", page, flags=re.MULTILINE))
    assert {name: int(tokens.replace(",", "")) for name, tokens in table.items()} == FIRST_PROMPT


@dataclass
class Machine:
    """A machine that is as a test says."""

    recipe: Recipe
    count: int = 2_699
    free: int = 10**13
    packages: dict[str, str | None] = field(
        default_factory=lambda: {
            "verl": "0.9.1",
            "TransferQueue": "0.1.11",
            "ray": "2.60.0",
            "hydra-core": "1.3.8",
            "tensordict": "0.10.0",
            "veomni": "0.1.12",
            "transformers": "5.10.4",
            "vllm": "0.24.0",
        }
    )
    broken: str = ""

    def sandbox(self) -> str:
        return "there is one"

    def parser(self) -> str:
        return "they agree"

    def bundle(self) -> str:
        return "it is installed"

    def tasks(self) -> int:
        if self.broken:
            raise TaskError(self.broken, "make the index anew")
        return self.count

    def room(self) -> str | None:
        return None

    def free_bytes(self) -> int:
        return self.free

    def versions(self) -> Mapping[str, str | None]:
        return self.packages


def asked(machine: Machine) -> Mapping[str, Verdict]:
    facts = Facts(machine.recipe, shape(machine.recipe), machine)
    return {verdict.rule.id: verdict for verdict in judge(RULES, facts)}


@pytest.fixture
def machine() -> Machine:
    return Machine(read(Recipe, RUN))


def test_a_machine_that_has_everything_passes(machine: Machine) -> None:
    verdicts = asked(machine)
    assert set(verdicts) == {rule.id for rule in RULES}
    assert not levels(verdicts, Level.FATAL)
    assert "3 passes over 2699 tasks are 126 steps of 64" in verdicts["passes"].what


def test_too_few_tasks_for_the_steps(machine: Machine) -> None:
    machine.count = 2_687
    verdict = asked(machine)["passes"]
    assert verdict.level is Level.FATAL
    assert "123 steps" in verdict.what


def test_an_index_that_cannot_be_read(machine: Machine) -> None:
    machine.broken = "the index is older than its tasks: 3 of 200"
    verdict = asked(machine)["tasks"]
    assert (verdict.level, verdict.what, verdict.fix) == (Level.FATAL, machine.broken, "make the index anew")


@pytest.mark.parametrize(("free", "level"), [(10**12, Level.FATAL), (2 * 10**12, Level.WARN), (10**13, Level.OK)])
def test_disk_space(machine: Machine, free: int, level: Level) -> None:
    machine.free = free
    assert asked(machine)["disk"].level is level


@pytest.mark.parametrize(
    ("package", "version", "said"),
    [
        ("verl", "0.9.0", "verl is 0.9.0"),
        ("TransferQueue", None, "TransferQueue is not installed"),
        ("veomni", "0.1.11", "veomni is 0.1.11"),
        ("transformers", "5.24.0", "below 5.11"),
        ("vllm", None, "vllm is not installed"),
        ("vllm", "0.19.1", f"needs {'.'.join(map(str, LEAST_VLLM))}"),
    ],
)
def test_versions(machine: Machine, package: str, version: str | None, said: str) -> None:
    machine.packages[package] = version
    verdict = asked(machine)["versions"]
    assert verdict.level is Level.FATAL
    assert said in verdict.what


def test_a_policys_own_config_is_read(tmp_path: Path) -> None:
    text = {
        "hidden_size": 2048,
        "num_hidden_layers": 40,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "vocab_size": 248_320,
        "max_position_embeddings": 262_144,
        "full_attention_interval": 4,
        "num_experts": 256,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_value_head_dim": 128,
    }
    raw = {"model_type": "qwen3_5_moe", "text_config": text, "tie_word_embeddings": False}
    (tmp_path / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    published = PUBLISHED["Qwen3.5-35B-A3B"]
    assert shape_of(str(tmp_path)) == ModelShape(**{**vars(published), "vision": 0, "tool_parser": None})


@pytest.mark.parametrize(
    ("name", "billions"), [("Qwen3.5-35B-A3B", 35.1), ("Qwen3-30B-A3B-Instruct-2507", 30.5), ("Qwen3-0.6B", 0.596)]
)
def test_published_sizes_add_up(name: str, billions: float) -> None:
    assert PUBLISHED[name].parameters / 10**9 == pytest.approx(billions, rel=2e-3)
