"""Trained policies, exported and served as their cards say: the server's log-probs are the exported policy's.

One is trained by the embedded trainer in real trials, two by VeOmni on two ranks, with routing replay on captured
segments; the Qwen3.5 among them has a vision tower, which no training touches.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText
from vllm_kit import (
    DEMO,
    VISION,
    alternating,
    compared,
    random_hybrid_with_tower,
    random_policy,
    random_prompts,
    said,
    sample,
    serving,
)

from lego_rl.commands.execute import execute
from lego_rl.commands.policies import read_recipe
from lego_rl.commands.recipe_check import check_recipe
from lego_rl.engine.embedded.policy import load_policy
from lego_rl.engine.vllm.engine import VllmEngine
from lego_rl.engine.vllm.launch import Dtype
from tests.integration.cluster.captured import write_segments
from tests.integration.cluster.engine_run import export, take_step

pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::UserWarning")]


@dataclass(frozen=True)
class Exported:
    """A policy before its training, and what was exported afterwards."""

    base: Path
    out: Path


def embedded(folder: Path) -> Exported:
    base = random_policy(folder / "policy")
    path = folder / "recipe.toml"
    path.write_text(f"""
[run]
dir = "{folder / "run"}"
steps = 1
[policy]
path = "{base}"
[harness]
name = "claude-code"
options = {{ bare = true }}
[budget]
turns = 2
context_tokens = 6144
output_tokens = 24
[rollout]
tasks_per_step = 2
group_size = 2
[train.optimizer]
lr = 1e-3
""")
    recipe = read_recipe(path, [])
    execute(recipe, check_recipe(recipe), rewards=alternating)
    lego_rl = [sys.executable, "-c", "from lego_rl.cli import main; main()"]
    subprocess.run([*lego_rl, "export", folder / "run", "--out", folder / "exported"], check=True)
    return Exported(base, folder / "exported")


def of_veomni(make: Callable[[Path], Any]) -> Callable[[Path], Exported]:
    def trained(folder: Path) -> Exported:
        base = folder / "policy"
        module = make(base)
        write_segments(module, folder / "segments.npz")
        take_step("veomni", base, folder / "segments.npz", folder, world=2)
        export(folder, base, folder / "exported")
        return Exported(base, folder / "exported")

    return trained


def qwen3_moe(target: Path) -> Any:
    random_policy(target)
    for name in ("tokenizer_config.json", "chat_template.jinja"):
        shutil.copy2(DEMO / name, target / name)
    return load_policy(target, torch.float32)


def in_float32(folder: Path) -> Any:
    return load_policy(folder, torch.float32)


def as_served(folder: Path) -> Any:
    """The weights that a server in bfloat16 holds, computed with in float32."""
    return AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.bfloat16).to(torch.float32).eval()


@dataclass(frozen=True)
class Case:
    """A way to a served policy, and how near the server has to be to transformers on the same folder.

    Attributes:
        trained: Trains and exports.
        dtype: Of the server; Qwen3.5 is served in bfloat16 only on a CPU.
        load: The exported folder in transformers.
        alike: Least Pearson correlation of log-probs, routes replayed.
        near: Largest mean difference, in nats.
        further: Flags of the server beside those of ``lego-rl serve policy``.
    """

    trained: Callable[[Path], Exported]
    dtype: Dtype
    load: Callable[[Path], Any]
    alike: float
    near: float
    further: tuple[str, ...] = ()


TEXT_ONLY = ("--language-model-only",)
CASES = {
    "embedded-qwen3-moe": Case(embedded, "float32", lambda out: load_policy(out, torch.float32), 0.999999, 1e-5),
    "veomni-qwen3-moe": Case(
        of_veomni(qwen3_moe), "float32", lambda out: load_policy(out, torch.float32), 0.999999, 1e-5
    ),
    "veomni-qwen3.5-moe": Case(of_veomni(random_hybrid_with_tower), "bfloat16", as_served, 0.999, 0.05, TEXT_ONLY),
}


@pytest.mark.parametrize("name", CASES)
def test_a_server_of_the_export_says_what_the_exported_policy_says(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    exported = case.trained(tmp_path)
    before, after = (load_file(folder / "model.safetensors") for folder in (exported.base, exported.out))
    assert before.keys() == after.keys()
    tower = [key for key in before if key.startswith("model.visual")]
    assert bool(tower) is ("3.5" in name)
    assert all(torch.equal(before[key], after[key]) for key in tower), "the tower is what it was, bit by bit"
    assert any(not torch.equal(before[key], after[key]) for key in before), "it was trained"
    paths = VISION if tower else ()
    with (
        serving(exported.out, case.dtype, tmp_path / "log", paths=paths, further=case.further) as server,
        VllmEngine([server.url]) as engine,
    ):
        samples = sample(engine, random_prompts(8, 100, 1700), 200)
    replayed, own, untrained = (
        compared(case.load(folder), samples, routing)
        for folder, routing in ((exported.out, "replay"), (exported.out, "own"), (exported.base, "replay"))
    )
    said(f"{name}, exported and served in {case.dtype}, routes replayed", replayed)
    said(f"{name}, own routing", own)
    said(f"{name}, against the policy before its training", untrained)
    assert replayed.tokens == 1600
    assert replayed.pearson_logprobs >= case.alike
    assert replayed.mean_abs <= case.near
    assert untrained.mean_abs > 2 * replayed.mean_abs
