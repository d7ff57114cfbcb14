"""What a recipe says to verl is what verl understands: no unknown key, its own validation passes, values as written."""

import ast
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lego_rl.cluster.launch import Launch
from lego_rl.cluster.overrides import AGGREGATION, LOSS
from lego_rl.commands.preflight import ThisMachine
from lego_rl.config.load import read
from lego_rl.config.preflight.replay import VEOMNI_FAMILIES
from lego_rl.config.preflight.rule import Facts, Level, judge
from lego_rl.config.preflight.table import RULES
from lego_rl.config.recipe import Recipe

ROOT = Path(__file__).parents[3]
VERL_PYTHON = ROOT / ".cache" / "verl" / "bin" / "python"
RECIPES = ROOT / "recipes"
SHIPPED = sorted(path.stem for path in RECIPES.glob("*.toml") if "\n[cluster]\n" in path.read_text(encoding="utf-8"))
VARIANTS = {
    "megatron": ("one-node", ['cluster.trainer={kind="megatron", tensor_parallel=4, expert_parallel=8}']),
    "uncorrected": ("one-gpu", ['train.loss.importance={kind="none"}', "train.loss.kl_coefficient=0"]),
    "evaluated": ("cluster-cpu", ["cluster.evaluate_every=2", "evaluate.splits={heldout=8}"]),
    "several-updates": ("qwen3.5-35b-a3b-opencode", ["train.updates=4", "cluster.trainer.offload=['parameters']"]),
    "cpu-async": (
        "cluster-cpu",
        ['cluster.mode={kind="separate_async"}', "cluster.nodes=2", "cluster.weight_transfer=lego_file"],
    ),
    "fsdp2-ulysses": ("one-node", ['cluster.trainer={kind="fsdp2", sequence_parallel=8, shard_size=4}']),
}
ASKED = {**{name: (name, []) for name in SHIPPED}, **VARIANTS}

# verl's imports alone are some 15 s of CPU: minutes where cores are short.
pytestmark = pytest.mark.timeout(900)


def launch_of(name: str, folder: Path) -> Launch:
    recipe, changed = ASKED[name]
    return Launch.of(read(Recipe, RECIPES / f"{recipe}.toml", [*changed, f"run.dir={folder / name}"]), VERL_PYTHON)


def pairs(launch: Launch) -> list[tuple[str, str]]:
    """Overrides of verl's own configuration; the last word of the command is Hydra's."""
    own = [word.partition("=") for word in launch.command[3:] if not word.startswith("hydra.")]
    return [(key.lstrip("+"), value) for key, _, value in own]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def verl(folder: Path) -> dict[str, Any]:
    if not VERL_PYTHON.exists():
        pytest.fail("verl's environment is missing; create it with: make setup-verl")
    launches = {name: launch_of(name, folder) for name in ASKED}
    for launch in launches.values():
        launch.write()
    questions, answers = folder / "overrides.json", folder / "composed.json"
    asked = {name: [w for w in one.command[3:] if not w.startswith("hydra.")] for name, one in launches.items()}
    questions.write_text(json.dumps(asked), encoding="utf-8")
    ran = subprocess.run(
        [VERL_PYTHON, Path(__file__).with_name("compose_values.py"), questions, answers],
        env={
            "PATH": os.defpath,
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT / "src"),
            "VERL_PLATFORM": "cpu",
            "OMP_NUM_THREADS": "1",
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"verl's side failed (if packages are missing: make setup-verl)\n{ran.stderr}"
    found: dict[str, Any] = json.loads(answers.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def composed(verl: dict[str, Any]) -> dict[str, Any]:
    runs: dict[str, Any] = verl["runs"]
    return runs


def test_veomni_replays_what_preflight_says(verl: dict[str, Any]) -> None:
    assert verl["replayed"] == sorted(VEOMNI_FAMILIES)


def at(config: Any, key: str) -> Any:
    for part in key.split("."):
        config = config[part]
    return config


def meant(text: str) -> Any:
    """What an override's text is meant as."""
    words = {"null": None, "true": True, "false": False}
    if text in words:
        return words[text]
    if text.startswith("[") and not any(character.isdigit() for character in text):
        return text[1:-1].split(",")
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


@pytest.mark.parametrize("name", ASKED)
def test_every_override_is_in_verls_configuration_as_it_was_written(
    name: str, composed: dict[str, Any], folder: Path
) -> None:
    config = composed[name]["config"]
    for key, text in pairs(launch_of(name, folder)):
        assert at(config, key) == meant(text), key


def test_the_environments_versions_are_those_that_preflight_asks_for(folder: Path) -> None:
    recipe = read(Recipe, RECIPES / "cluster-cpu.toml", [f"cluster.python={VERL_PYTHON}", f"run.dir={folder}"])
    (verdict,) = judge([rule for rule in RULES if rule.id == "versions"], Facts(recipe, machine=ThisMachine(recipe)))
    assert verdict.level is Level.OK, verdict.what


@pytest.mark.parametrize("name", ASKED)
def test_the_loss_is_ours_and_there_is_no_critic(name: str, composed: dict[str, Any]) -> None:
    found = composed[name]
    assert found["loss"] == LOSS
    assert found["config"]["actor_rollout_ref"]["actor"]["loss_agg_mode"] == AGGREGATION
    assert not found["critic"]
    assert found["reference"] == (name != "uncorrected")
    assert found["loss_is_the_recipes"]


@pytest.mark.parametrize("name", ASKED)
def test_a_reference_and_a_forward_pass_take_as_many_tokens_as_an_update(name: str, composed: dict[str, Any]) -> None:
    update, forward = composed[name]["tokens"]
    assert update == forward


@pytest.mark.parametrize("name", [name for name in ASKED if "async" in name or name.startswith("qwen3.5")])
def test_the_batch_is_what_verls_asynchronous_trainer_asks_for(name: str, composed: dict[str, Any]) -> None:
    config = composed[name]["config"]
    updates = config["trainer"]["v1"]["separate_async"]["parameter_sync_step"]
    mini = config["actor_rollout_ref"]["actor"]["ppo_mini_batch_size"]
    assert config["data"]["train_batch_size"] == updates * mini
    assert config["actor_rollout_ref"]["rollout"]["nnodes"] > 0
    assert config["actor_rollout_ref"]["rollout"]["checkpoint_engine"]["backend"] != "naive"
