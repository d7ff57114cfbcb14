"""Training law 6: on single-segment, full, mixed-verdict groups losses and advantages are stock verl's.

verl lives in an environment of its own. It computes once, in one process, what it makes of every batch; the tests here
compare that with our functions in float64.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lego_rl.train.advantages import group_advantages
from lego_rl.train.importance import importance_weights
from lego_rl.train.losses import gspo, low_variance_kl, seq_mean_token_mean
from lego_rl.train.objective import Objective, objective
from lego_rl.train.settings import LossSettings, SequenceTruncation, TokenTruncation

ROOT = Path(__file__).parents[3]
VERL_PYTHON = ROOT / ".cache" / "verl" / "bin" / "python"
VERL = "0.9.1"
BATCHES = 200
RELATIVE = 1e-6
CORRECTIONS: dict[str, TokenTruncation | SequenceTruncation] = {
    "token": TokenTruncation(),
    "sequence": SequenceTruncation(),
}
LOSS = LossSettings()

# verl's imports alone are some 15 s of CPU: minutes where cores are short.
pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Batch:
    """One update: whole groups, each with both verdicts, every trial one segment with at least one trained token."""

    rewards: list[float]
    groups: list[int]
    logp_BT: Tensor
    old_logp_BT: Tensor
    behaviour_logp_BT: Tensor
    reference_logp_BT: Tensor
    mask_BT: Tensor
    divisor: int

    def as_json(self) -> dict[str, Any]:
        return {
            "rewards": self.rewards,
            "groups": self.groups,
            "logp": self.logp_BT.tolist(),
            "old": self.old_logp_BT.tolist(),
            "behaviour": self.behaviour_logp_BT.tolist(),
            "reference": self.reference_logp_BT.tolist(),
            "mask": self.mask_BT.tolist(),
            "divisor": self.divisor,
            "clip_low": LOSS.clip_low,
            "clip_high": LOSS.clip_high,
            "kl_coefficient": LOSS.kl_coefficient,
            "cap": CORRECTIONS["token"].cap,
        }

    def advantage_B(self) -> Tensor:
        return torch.tensor([a.value for a in group_advantages(self.rewards, self.groups)], dtype=torch.float64)

    def objective(self, logp_BT: Tensor, level: str) -> Objective:
        return objective(
            LOSS.model_copy(update={"importance": CORRECTIONS[level]}),
            logp_BT,
            old_logp_BT=self.old_logp_BT,
            behaviour_logp_BT=self.behaviour_logp_BT,
            reference_logp_BT=self.reference_logp_BT,
            advantage_B=self.advantage_B(),
            mask_BT=self.mask_BT,
            scale_B=torch.ones(len(self.rewards), dtype=torch.float64),
            divisor=self.divisor,
        )


def draw(seed: int) -> Batch:
    """Groups of 2 to 8 in any order; log-probs from nearly the same to absurdly far apart, as each clamp needs."""
    g = torch.Generator().manual_seed(seed)

    def integer(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=g))

    def one_of(*scales: float) -> float:
        return scales[integer(0, len(scales) - 1)]

    trials: list[tuple[int, float]] = []
    for group in range(integer(1, 4)):
        size = integer(2, 8)
        passed = integer(1, size - 1)
        trials += [(group, 1.0)] * passed + [(group, 0.0)] * (size - passed)
    trials = [trials[i] for i in torch.randperm(len(trials), generator=g).tolist()]
    shape = (len(trials), integer(1, 12))

    def near(logp_BT: Tensor, scale: float) -> Tensor:
        return logp_BT + torch.randn(shape, generator=g, dtype=torch.float64) * scale

    old_BT = -torch.rand(shape, generator=g, dtype=torch.float64) * 3
    mask_BT = torch.rand(shape, generator=g) < one_of(0.2, 0.6, 1.0)
    mask_BT[torch.arange(shape[0]), torch.randint(shape[1], shape[:1], generator=g)] = True
    return Batch(
        rewards=[reward for _, reward in trials],
        groups=[group for group, _ in trials],
        logp_BT=near(old_BT, one_of(0.0, 3e-4, 0.3, 15.0)),
        old_logp_BT=old_BT,
        behaviour_logp_BT=near(old_BT, one_of(1e-3, 0.5, 15.0)),
        reference_logp_BT=near(old_BT, one_of(1e-2, 1.0, 15.0)),
        mask_BT=mask_BT,
        divisor=shape[0] * integer(1, 2),
    )


@dataclass(frozen=True)
class Verl:
    """verl's answers, in the order of the batches."""

    versions: dict[str, str]
    values: list[dict[str, Any]]


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    return [draw(seed) for seed in range(BATCHES)]


@pytest.fixture(scope="module")
def verl(batches: list[Batch], tmp_path_factory: pytest.TempPathFactory) -> Verl:
    if not VERL_PYTHON.exists():
        pytest.fail("verl's environment is missing; create it with: make setup-verl")
    scratch = tmp_path_factory.mktemp("verl")
    questions, answers = scratch / "batches.json", scratch / "values.json"
    questions.write_text(json.dumps([batch.as_json() for batch in batches]), encoding="utf-8")
    program = Path(__file__).with_name("verl_values.py")
    ran = subprocess.run(
        [VERL_PYTHON, program, questions, answers],
        env={"PATH": os.defpath, "HOME": str(scratch), "OMP_NUM_THREADS": "1"},
        cwd=scratch,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"verl's side failed (if packages are missing: make setup-verl)\n{ran.stderr}"
    return Verl(**json.loads(answers.read_text(encoding="utf-8")))


def assert_equal(ours: Tensor, theirs: Any, *, terms: Tensor | float = 0.0) -> None:
    """Equal to 1e-6 relative; where a number is a sum, relative to the sum of its `terms` without their signs."""
    expected = torch.tensor(theirs, dtype=torch.float64)
    allowed = RELATIVE * torch.maximum(expected.abs(), torch.as_tensor(terms, dtype=torch.float64))
    worse = (ours.detach() - expected).abs() > allowed
    assert not worse.any(), f"{ours[worse].tolist()} here, {expected[worse].tolist()} in verl"


def loss_and_gradient(loss: Tensor, logp_BT: Tensor) -> tuple[Tensor, Tensor]:
    (gradient,) = torch.autograd.grad(loss, logp_BT)
    return loss.detach(), gradient


def test_it_is_the_verl_and_the_torch_that_we_mean(verl: Verl) -> None:
    assert verl.versions == {"verl": VERL, "torch": torch.__version__}


def test_the_batches_reach_every_branch(batches: list[Batch]) -> None:
    reached = dict.fromkeys(("unclipped", "low", "high", "ratio", "weight", "weight bound", "kl", "kl bound"), 0)
    for batch in batches:
        out, mask_BT = batch.objective(batch.logp_BT, "token"), batch.mask_BT
        assert out.kl_BT is not None
        weight, kl = out.weights.weight_BT[mask_BT], out.kl_BT[mask_BT]
        behaviour_gap = (batch.old_logp_BT - batch.behaviour_logp_BT)[mask_BT].abs()
        reference_gap = (batch.reference_logp_BT - batch.logp_BT)[mask_BT].abs()
        clipped_B = out.policy.clipped_low_B | out.policy.clipped_high_B
        reached["unclipped"] += int((~clipped_B).sum())
        reached["low"] += int(out.policy.clipped_low_B.sum())
        reached["high"] += int(out.policy.clipped_high_B.sum())
        reached["ratio"] += int((out.policy.ratio_B > 22026).sum())
        reached["weight"] += int((weight < 2).sum()) * int((weight == 2).sum())
        reached["weight bound"] += int((behaviour_gap > 20).sum())
        reached["kl"] += int((kl < 10).sum()) * int((kl == 10).sum())
        reached["kl bound"] += int((reference_gap > 20).sum())
    assert min(reached.values()) >= 20, reached


def test_advantages(batches: list[Batch], verl: Verl) -> None:
    for batch, theirs in zip(batches, verl.values, strict=True):
        assert_equal(batch.advantage_B(), theirs["advantage"])


def test_gspo_in_value_gradient_and_clip_fraction(batches: list[Batch], verl: Verl) -> None:
    for batch, theirs in zip(batches, verl.values, strict=True):
        logp_BT, mask_BT = batch.logp_BT.clone().requires_grad_(), batch.mask_BT
        rows = len(batch.rewards)
        ones_B = torch.ones(rows, dtype=torch.float64)
        out = gspo(
            logp_BT,
            batch.old_logp_BT,
            batch.advantage_B(),
            mask_BT,
            clip_low=LOSS.clip_low,
            clip_high=LOSS.clip_high,
        )
        loss, gradient = loss_and_gradient(seq_mean_token_mean(out.loss_BT, mask_BT, ones_B, rows), logp_BT)
        terms = seq_mean_token_mean(out.loss_BT.detach().abs(), mask_BT, ones_B, rows)
        assert_equal(loss, theirs["gspo"]["value"], terms=terms)
        assert_equal(gradient, theirs["gspo"]["gradient"])
        clipped_BT = (out.clipped_low_B | out.clipped_high_B).unsqueeze(-1) & mask_BT
        assert float(clipped_BT.sum() / mask_BT.sum()) == pytest.approx(theirs["clip_fraction"], rel=1e-6)


def test_low_variance_kl_in_value_and_gradient(batches: list[Batch], verl: Verl) -> None:
    for batch, theirs in zip(batches, verl.values, strict=True):
        logp_BT = batch.logp_BT.clone().requires_grad_()
        kl_BT = low_variance_kl(logp_BT, batch.reference_logp_BT)
        assert_equal(kl_BT, theirs["kl"])
        assert_equal(loss_and_gradient(kl_BT.sum(), logp_BT)[1], theirs["kl_gradient"])


@pytest.mark.parametrize("level", CORRECTIONS)
def test_truncated_importance_weights(batches: list[Batch], verl: Verl, level: str) -> None:
    for batch, theirs in zip(batches, verl.values, strict=True):
        ours = importance_weights(CORRECTIONS[level], batch.old_logp_BT, batch.behaviour_logp_BT, batch.mask_BT)
        assert_equal(ours.weight_BT, theirs["weights"][level])


@pytest.mark.parametrize("level", CORRECTIONS)
def test_the_trainers_objective_is_the_loss_of_a_cluster_worker(batches: list[Batch], verl: Verl, level: str) -> None:
    for batch, theirs in zip(batches, verl.values, strict=True):
        logp_BT = batch.logp_BT.clone().requires_grad_()
        out = batch.objective(logp_BT, level)
        loss, gradient = loss_and_gradient(out.loss, logp_BT)
        assert out.kl_BT is not None
        terms_BT = (out.policy.loss_BT * out.weights.weight_BT).abs() + LOSS.kl_coefficient * out.kl_BT
        terms = seq_mean_token_mean(
            terms_BT.detach(), batch.mask_BT, torch.ones(len(batch.rewards), dtype=torch.float64), batch.divisor
        )
        assert_equal(loss, theirs["whole"][level]["value"], terms=terms)
        assert_equal(gradient, theirs["whole"][level]["gradient"])
