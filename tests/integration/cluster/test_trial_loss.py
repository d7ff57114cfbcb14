"""Training laws 1 to 3 and 6 on the cluster: its loss is the embedded trainer's, whatever became of the trials.

The embedded trainer gets trials; the cluster gets the rows that verl would have of them, with verl's advantages,
importance weights and padding rows. Both compute in float64.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lego_rl.gateway.trajectory import Segment
from lego_rl.train.batch import Row, TrainingTrial, select
from lego_rl.train.losses import seq_mean_token_mean
from lego_rl.train.objective import objective
from lego_rl.train.settings import LossSettings, NoCorrection, SequenceTruncation, TokenTruncation
from tests.integration.cluster.verl_process import PYTHON, environment

BATCHES = 60
RELATIVE = 1e-6
CORRECTIONS: list[NoCorrection | TokenTruncation | SequenceTruncation] = [
    NoCorrection(),
    TokenTruncation(),
    SequenceTruncation(),
]

# verl's imports alone are some 15 s of CPU: minutes where cores are short.
pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Batch:
    """One update: groups of trials of one to three segments, some of whose trials, or whole groups, say nothing."""

    trials: list[TrainingTrial]
    loss: LossSettings
    logps: dict[tuple[str, int], dict[str, list[float]]]
    divisor: int
    padding: int

    def as_json(self) -> dict[str, Any]:
        """What the cluster's trainer is given: a lost trial has no row."""
        rows = []
        for trial in self.trials:
            if trial.reward is None:
                continue
            for index, segment in enumerate(trial.segments):
                first = int(segment.loss_mask.argmax())
                rows.append(
                    {
                        "key": f"{trial.trial_id}_{index}",
                        "prompt": first,
                        "mask": segment.loss_mask[first:].tolist(),
                        "reward": float(trial.reward),
                        "behaviour": segment.logprobs[first:].astype(float).tolist(),
                        **{name: values[first - 1 :] for name, values in self.logps[trial.trial_id, index].items()},
                    }
                )
        importance = self.loss.importance
        level, cap = (None, 2.0) if isinstance(importance, NoCorrection) else (importance.kind, importance.cap)
        return {
            "rows": rows,
            "padding": self.padding,
            "divisor": self.divisor,
            "importance": level,
            "cap": cap,
            "clip_low": self.loss.clip_low,
            "clip_high": self.loss.clip_high,
            "kl_coefficient": self.loss.kl_coefficient,
        }

    def embedded(self) -> tuple[float, float, dict[tuple[str, int], Tensor]]:
        """The embedded trainer's loss, the sum of its terms without their signs, and the gradient by the log-probs of
        each segment that is trained."""
        rows = [row for update in select(self.trials, 1).updates for row in update]
        if not rows:
            return 0.0, 0.0, {}
        arrays = {name: self._stack(rows, name) for name in ("logp", "old", "reference")}
        logp_BT = arrays["logp"].requires_grad_()
        mask_BT = self._pad([row.segment.loss_mask[1:].astype(float).tolist() for row in rows]).bool()
        scale_B = torch.tensor([row.scale for row in rows], dtype=torch.float64)
        out = objective(
            self.loss,
            logp_BT,
            old_logp_BT=arrays["old"],
            behaviour_logp_BT=self._pad([row.segment.logprobs[1:].astype(float).tolist() for row in rows]),
            reference_logp_BT=arrays["reference"],
            advantage_B=torch.tensor([row.advantage for row in rows], dtype=torch.float64),
            mask_BT=mask_BT,
            scale_B=scale_B,
            divisor=self.divisor,
        )
        (gradient_BT,) = torch.autograd.grad(out.loss, logp_BT)
        assert out.kl_BT is not None
        terms_BT = (out.policy.loss_BT * out.weights.weight_BT).abs() + self.loss.kl_coefficient * out.kl_BT
        terms = seq_mean_token_mean(terms_BT.detach(), mask_BT, scale_B, self.divisor)
        return (
            float(out.loss.detach()),
            float(terms),
            {
                (row.trial_id, row.index): gradient_T[: row.length]
                for row, gradient_T in zip(rows, gradient_BT, strict=True)
            },
        )

    def _stack(self, rows: list[Row], name: str) -> Tensor:
        return self._pad([self.logps[row.trial_id, row.index][name] for row in rows])

    @staticmethod
    def _pad(values: list[list[float]]) -> Tensor:
        tensors = [torch.tensor(value, dtype=torch.float64) for value in values]
        return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)


def segment_of(rng: np.random.Generator) -> Segment:
    before, after = int(rng.integers(1, 6)), int(rng.integers(1, 12))
    mask = np.zeros(before + after, np.uint8)
    mask[before] = 1
    mask[before + 1 :] = rng.random(after - 1) < 0.7
    count = len(mask)
    blank = np.full(count, -1, np.int32)
    return Segment(
        token_ids=rng.integers(0, 99, count).astype(np.int32),
        loss_mask=mask,
        logprobs=np.where(mask, -rng.random(count) * 3, 0.0).astype(np.float32),
        versions=np.where(mask, 0, -1).astype(np.int32),
        call_ids=np.where(mask, 0, -1).astype(np.int32),
        call_positions=blank,
        calls=("call",),
        routes=None,
        routes_recorded=0,
    )


def draw(seed: int) -> Batch:
    rng = np.random.default_rng(seed)
    size, groups = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    trials, logps = [], {}
    for group in range(groups):
        kind = rng.choice(["mixed", "mixed", "any", "one survivor"])
        for session in range(size):
            trial_id = f"group{group}_{session}"
            reward: Any = int(session % 2) if kind == "mixed" else int(rng.random() < 0.5)
            lost = session > 0 if kind == "one survivor" else rng.random() < 0.15
            segments = tuple(segment_of(rng) for _ in range(int(rng.integers(1, 4))))
            trials.append(TrainingTrial(trial_id, f"group{group}", None if lost else reward, () if lost else segments))
            for index, segment in enumerate(segments):
                behaviour = segment.logprobs[1:].astype(float)
                old = np.minimum(behaviour + rng.normal(0, float(rng.choice([1e-3, 0.5])), len(behaviour)), 0)
                logps[trial_id, index] = {
                    "old": old.tolist(),
                    "logp": (old + rng.normal(0, float(rng.choice([0.0, 3e-4, 0.3])), len(old))).tolist(),
                    "reference": (old + rng.normal(0, 0.3, len(old))).tolist(),
                }
    loss = LossSettings(importance=CORRECTIONS[seed % 3], kl_coefficient=0.01)
    return Batch(trials, loss, logps, divisor=size * groups, padding=int(rng.integers(0, 4)))


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    return [batch for batch in map(draw, range(BATCHES)) if batch.as_json()["rows"]]


@pytest.fixture(scope="module")
def cluster(batches: list[Batch], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("loss")
    questions, answers = folder / "batches.json", folder / "values.json"
    questions.write_text(json.dumps([batch.as_json() for batch in batches]), encoding="utf-8")
    program = Path(__file__).with_name("trial_loss_values.py")
    ran = subprocess.run(
        [PYTHON, program, questions, answers],
        env=environment({}),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"verl's side failed (if packages are missing: make setup-verl)\n{ran.stderr[-4000:]}"
    found: list[dict[str, Any]] = json.loads(answers.read_text(encoding="utf-8"))
    return found


def test_the_batches_have_all_that_can_become_of_trials(batches: list[Batch]) -> None:
    selections = [select(batch.trials, 1) for batch in batches]
    excluded = {reason for selection in selections for reason in selection.excluded_trials}
    assert excluded == {"no_reward", "group_too_small", "one_verdict"}
    scales = {round(row.scale, 3) for s in selections for update in s.updates for row in update}
    assert scales == {1.0, 0.5, 0.333}
    assert any(batch.padding for batch in batches)
    assert any(not update for selection in selections for update in selection.updates)


def test_loss_and_gradient_are_the_embedded_trainers(batches: list[Batch], cluster: list[dict[str, Any]]) -> None:
    for batch, theirs in zip(batches, cluster, strict=True):
        loss, terms, gradients = batch.embedded()
        assert theirs["value"] == pytest.approx(loss, abs=RELATIVE * terms)
        for row, found in zip(batch.as_json()["rows"], theirs["gradient"], strict=True):
            trial_id, _, index = row["key"].rpartition("_")
            expected = gradients.get((trial_id, int(index)))
            ours = torch.zeros(len(found), dtype=torch.float64) if expected is None else expected[row["prompt"] - 1 :]
            assert found == pytest.approx(ours.tolist(), rel=RELATIVE, abs=1e-12)
