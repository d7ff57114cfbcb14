"""A step of verl's FSDP2 and VeOmni engines on captured segments, with routing replay, and what export makes of it.

VeOmni computes in bfloat16 over float32 weights, and FSDP2 here in float32. VeOmni needs two ranks.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from captured import ADVANTAGES, FAMILIES, logprobs, write_policy, write_segments
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText

from lego_rl.engine.embedded.policy import load_policy
from lego_rl.engine.policy_dir import read_header
from lego_rl.gateway.trajectory import Segment
from tests.integration.cluster.engine_run import export, take_step

pytestmark = pytest.mark.timeout(1200)


@dataclass(frozen=True)
class Engine:
    """A verl engine on a number of ranks, and how exactly it computes.

    Attributes:
        backend: verl's name.
        family: What it trains.
        world: Ranks.
        dtype: What it computes in.
        near: Largest mean difference of log-probs to the same computed outside verl.
        alike: Least correlation of them.
    """

    backend: str
    family: str
    world: int
    dtype: torch.dtype
    near: float
    alike: float = 0.999


ENGINES = [
    Engine("fsdp2", "qwen3_moe", 1, torch.float32, 1e-5),
    Engine("fsdp2", "qwen3_moe", 2, torch.float32, 1e-5),
    Engine("fsdp2", "qwen3_5_moe", 2, torch.float32, 1e-5),
    Engine("veomni", "qwen3_moe", 2, torch.bfloat16, 0.03),
    Engine("veomni", "qwen3_5_moe", 2, torch.bfloat16, 0.08, 0.995),
]


@dataclass(frozen=True)
class Step:
    """What an engine did and said."""

    engine: Engine
    folder: Path
    module: Any
    segments: list[Segment]
    values: dict[str, np.ndarray]

    def said(self, name: str) -> np.ndarray:
        """Log-probs of every predicted token, all segments after each other."""
        return np.concatenate([self.values[f"{name}-{number}"] for number in range(len(self.segments))])

    def sampled(self) -> np.ndarray:
        """Which of them were sampled."""
        return np.concatenate([segment.loss_mask[1:] for segment in self.segments]).astype(bool)

    def behaviour(self) -> np.ndarray:
        """Log-probs as they were recorded."""
        return np.concatenate([segment.logprobs[1:] for segment in self.segments])

    def outside(self, module: Any, *, replayed: bool) -> np.ndarray:
        """The same computed by transformers."""
        rows = [logprobs(module, segment, replayed=replayed).numpy() for segment in self.segments]
        return np.concatenate(rows)


@pytest.fixture(scope="module", params=ENGINES, ids=lambda each: f"{each.backend}-{each.family}-{each.world}")
def step(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Step:
    engine: Engine = request.param
    folder = tmp_path_factory.mktemp("step")
    module = FAMILIES[engine.family]()
    policy = write_policy(module, folder / "policy")
    segments = write_segments(module, folder / "segments.npz")
    take_step(engine.backend, policy, folder / "segments.npz", folder, world=engine.world)
    with np.load(folder / "values.npz") as arrays:
        return Step(engine, folder, module, segments, dict(arrays))


def pearson(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(one, other)[0, 1])


def test_recorded_experts_run(step: Step) -> None:
    replayed, sampled = step.said("replayed"), step.sampled()
    gap = np.abs(replayed - step.behaviour())[sampled]
    assert gap.mean() < step.engine.near
    alike = pearson(replayed[sampled], step.behaviour()[sampled])
    assert alike > step.engine.alike
    if step.engine.dtype is torch.bfloat16:
        assert alike > pearson(step.said("native")[sampled], step.behaviour()[sampled]), "replay brings them together"
    assert np.abs(replayed - step.said("other")).mean() > 10 * step.engine.near, "other experts make a difference"


def test_a_step_changes_the_policy_as_the_advantages_say(step: Step) -> None:
    assert 0 < float(step.values["grad_norm"]) < np.inf
    rises = []
    for number, segment in enumerate(step.segments):
        gap = step.values[f"after-replayed-{number}"] - step.values[f"replayed-{number}"]
        rises.append(gap[segment.loss_mask[1:].astype(bool)].mean())
    assert np.dot(rises, ADVANTAGES) > 0, f"segments rose by {rises} with advantages {ADVANTAGES}"


def exported(step: Step) -> Path:
    out = step.folder / "exported"
    if not out.exists():
        assert " 0 weights changed" not in f" {export(step.folder, step.folder / 'policy', out)}"
    return out


def test_the_exported_folder_has_the_tensors_of_the_policy(step: Step) -> None:
    base, out = step.folder / "policy", exported(step)
    assert read_header(out / "model.safetensors") == read_header(base / "model.safetensors")
    for name in ("tokenizer.json", "config.json"):
        assert (out / name).read_bytes() == (base / name).read_bytes()
    before, after = load_file(base / "model.safetensors"), load_file(out / "model.safetensors")
    tower = [name for name in before if name.startswith("model.visual")]
    assert bool(tower) is (step.engine.family == "qwen3_5_moe")
    assert all(torch.equal(before[name], after[name]) for name in tower), "the tower is what it was, bit by bit"


def test_the_exported_policy_says_what_the_engine_says(step: Step) -> None:
    out = exported(step)
    if step.engine.family == "qwen3_5_moe":
        module: Any = AutoModelForImageTextToText.from_pretrained(out, dtype=step.engine.dtype).eval()
    else:
        module = load_policy(out, step.engine.dtype)
    for name, replayed in (("after", False), ("after-replayed", True)):
        served = step.outside(module, replayed=replayed)
        assert np.abs(served - step.said(name)).mean() < step.engine.near
        assert pearson(served, step.said(name)) > step.engine.alike
    moved = np.abs(step.outside(step.module, replayed=True) - step.said("after-replayed")).mean()
    assert moved > 2 * step.engine.near, "the policy before the step would have been noticed"
