"""The trainer: one step against the same step by hand, several updates, exclusions, resume, and that it learns."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_moe import CARD, VOCAB, honest, moe, policy_directory, prompts, segment, trials

from lego_rl.errors import CaptureError, ConfigError, FidelityError, RunError
from lego_rl.train import forward, optim
from lego_rl.train.batch import TrainingTrial
from lego_rl.train.settings import LossSettings, OptimizerSettings, TrainSettings
from lego_rl.train.trainer import BatchShape, Trainer

SHAPE = BatchShape(prompts=2, trials_per_prompt=4, temperature=1.0)


def trainer(shape: BatchShape = SHAPE, seed: int = 0, source: Path = Path(), **settings: Any) -> Trainer:
    settings.setdefault("optimizer", OptimizerSettings(lr=1e-3))
    return Trainer(moe(seed), moe(seed), source, TrainSettings(**settings), shape)


def weights(one: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in one.state_dict().items()}


def changed(before: dict[str, torch.Tensor], one: Trainer) -> bool:
    return any(not torch.equal(before[name], tensor) for name, tensor in one.state_dict().items())


def by_hand(policy: Any, reference: Any, batch: Sequence[TrainingTrial], divisor: float) -> torch.Tensor:
    """The loss of a first update, segment by segment and token by token, without padding, sharing or replay."""
    total = torch.zeros(())
    for trial in batch:
        others = [t.reward for t in batch if t.group_id == trial.group_id]
        advantage = (trial.reward - np.mean(others)) / (np.std(others, ddof=1) + 1e-6)
        for one in trial.segments:
            ids = torch.tensor(one.token_ids.astype(np.int64))
            logp = policy(input_ids=ids[None, :-1]).logits[0].log_softmax(-1)
            ref = reference(input_ids=ids[None, :-1]).logits[0].log_softmax(-1).detach()
            losses = []
            for i in np.flatnonzero(one.loss_mask):
                new, kl = logp[i - 1, ids[i]], ref[i - 1, ids[i]] - logp[i - 1, ids[i]]
                weight = min(2.0, math.exp(float(new.detach()) - float(one.logprobs[i])))
                losses.append(-advantage * weight * (new - new.detach()).exp() + 1e-3 * (kl.exp() - kl - 1))
            total = total + torch.stack(losses).mean() / len(trial.segments) / divisor
    return total


def several_segments() -> list[TrainingTrial]:
    """Two groups; one trial's work is split over two segments, as after a history rewrite. The recorded log-probs are a
    little off, as a bfloat16 engine's are."""
    policy = moe()
    made = trials(policy)
    first, *rest = made
    extra = trials(policy, groups=3)[-1].segments
    noise = np.random.default_rng(0)
    for trial in (*made, TrainingTrial("x", "x", 1, extra)):
        for one in trial.segments:
            off = noise.normal(0, 0.01, len(one.logprobs)).astype(np.float32)
            one.logprobs[:] = np.where(one.loss_mask == 1, np.minimum(one.logprobs + off, 0), 0)
    return [TrainingTrial(first.trial_id, first.group_id, first.reward, first.segments + extra), *rest]


@pytest.mark.parametrize("routing", ["replay", "own"])
@pytest.mark.parametrize("budget", [1, 100, 6144])
def test_a_step_is_the_step_by_hand(routing: Any, budget: int) -> None:
    batch = several_segments()
    # AdamW with a large epsilon moves by 0.1 times the gradient, so that the gradient itself is compared.
    proportional = OptimizerSettings(lr=1e5, eps=1e6, weight_decay=0.0, grad_clip=1e9)
    policy, reference = moe(), moe(5)
    settings = TrainSettings(routing=routing, microbatch_tokens=budget, optimizer=proportional)
    one = Trainer(moe(), moe(5), Path(), settings, SHAPE)
    before = weights(one)
    metrics = one.step(batch, honest())
    by_hand(policy, reference, batch, divisor=8).backward()
    gradients = {name: p.grad for name, p in policy.named_parameters() if p.grad is not None}
    norm = math.sqrt(sum(float(g.square().sum()) for g in gradients.values()))
    assert metrics.grad_norm == pytest.approx(norm, rel=1e-4)
    for name, gradient in gradients.items():
        moved = before[name] - one.state_dict()[name]
        torch.testing.assert_close(moved, 0.1 * gradient, rtol=1e-2, atol=1e-6 + 1e-4 * norm)
    assert (metrics.segments, metrics.trials, metrics.updates, metrics.version) == (9, 8, 1, 1)
    assert metrics.loss.kl > 0


def test_with_one_update_a_batch_every_ratio_is_exactly_one() -> None:
    figures = trainer().step(trials(moe()), honest()).loss
    assert (figures.ratio_min, figures.ratio_mean, figures.ratio_max) == (1.0, 1.0, 1.0)
    assert (figures.clip_fraction_low, figures.clip_fraction_high) == (0.0, 0.0)
    assert figures.kl == 0.0
    assert figures.importance_mean == pytest.approx(1.0, abs=1e-4)


def test_with_more_updates_the_clip_is_active_on_both_sides() -> None:
    """The second and third group are trained after the policy has moved: their ratios have left the clip range, some
    up and some down, and what is clipped has no policy gradient left."""
    shape = BatchShape(prompts=4, trials_per_prompt=4, temperature=1.0)
    one = trainer(shape, updates=4)
    metrics = one.step(trials(moe(), groups=4), honest())
    assert metrics.updates == 4
    assert metrics.loss.clip_fraction_low > 0
    assert metrics.loss.clip_fraction_high > 0
    assert metrics.loss.ratio_min < 1 - 3e-4 < 1 + 4e-4 < metrics.loss.ratio_max


def test_old_log_probs_are_taken_before_the_first_update() -> None:
    """With a learning rate of nearly nothing, several updates see ratios of 1: old and new are the same weights."""
    shape = BatchShape(prompts=4, trials_per_prompt=4, temperature=1.0)
    still = trainer(shape, updates=2, optimizer=OptimizerSettings(lr=1e-12, weight_decay=0.0))
    figures = still.step(trials(moe(), groups=4), honest()).loss
    assert figures.ratio_min == pytest.approx(1.0, abs=1e-6)
    assert figures.ratio_max == pytest.approx(1.0, abs=1e-6)


def with_rewards(rewards: Sequence[Any]) -> list[TrainingTrial]:
    return [
        TrainingTrial(t.trial_id, t.group_id, reward, t.segments)
        for t, reward in zip(trials(moe()), rewards, strict=True)
    ]


def test_a_step_that_nothing_contributes_to_changes_nothing_but_is_gated() -> None:
    one = trainer()
    before = weights(one)
    metrics = one.step(with_rewards([1, 1, 1, 1, None, None, None, 0]), honest())
    assert not changed(before, one)
    assert (metrics.updates, metrics.trials, metrics.tokens, metrics.version) == (0, 0, 0, 1)
    assert metrics.excluded_trials == {"one_verdict": 4, "no_reward": 3, "group_too_small": 1}
    assert metrics.reward_mean == 0.8
    assert (
        metrics.fidelity.tokens == metrics.excluded_tokens["one_verdict"] + metrics.excluded_tokens["group_too_small"]
    )
    assert len(one.trained_tokens().call_ids) == metrics.fidelity.tokens


def test_a_step_whose_trials_all_count_for_nothing_passes() -> None:
    one = trainer()
    before = weights(one)
    metrics = one.step(with_rewards([None] * 8), honest())
    assert not changed(before, one)
    assert (metrics.trials, metrics.reward_mean, metrics.fidelity.tokens) == (0, None, 0)
    assert "fidelity/pearson_logprobs" not in metrics.flat()
    assert one.step([], honest(1)).version == 2


def test_masked_and_silent_trials_leave_the_others_as_they_are() -> None:
    """The divisor is constant, so the second group's silence does not change what the first group does."""
    full, half = trainer(), trainer()
    full.step(with_rewards([0, 1, 0, 1, 1, 1, 1, 1]), honest())
    half.step(with_rewards([0, 1, 0, 1, None, None, None, None])[:4], honest())
    for name, tensor in full.state_dict().items():
        torch.testing.assert_close(tensor, half.state_dict()[name], rtol=0, atol=1e-6)


def test_order_of_trials_does_not_matter() -> None:
    batch = trials(moe())
    # Proportional steps: AdamW's own would turn rounding of a tiny gradient into a step of full size.
    settings = {"optimizer": OptimizerSettings(lr=1e5, eps=1e6, weight_decay=0.0, grad_clip=1e9)}
    straight, shuffled = trainer(**settings), trainer(**settings)
    straight.step(batch, honest())
    shuffled.step([batch[i] for i in (3, 7, 1, 0, 6, 2, 5, 4)], honest())
    for name, tensor in straight.state_dict().items():
        torch.testing.assert_close(tensor, shuffled.state_dict()[name], rtol=0, atol=1e-5)


def test_what_stops_a_step_leaves_the_weights_alone() -> None:
    one = trainer()
    before = weights(one)
    off = trials(moe())
    for trial in off:
        for s in trial.segments:
            s.logprobs[:] = np.where(s.loss_mask == 1, s.logprobs - 1.0, 0)
    with pytest.raises(FidelityError):
        one.step(off, honest())
    with pytest.raises(CaptureError):
        broken = segment([1, 2], [1, 1], [-1.0, -1.0])
        one.step([TrainingTrial("a", "g", 1, (broken,)), *trials(moe(), groups=1, size=1)], honest())
    assert not changed(before, one)
    assert all(p.grad is None for p in one.policy.parameters())
    assert one.version == 0


def test_whatever_ends_a_step_leaves_no_gradient_for_the_next() -> None:
    one = trainer(routing="own", microbatch_tokens=1)
    seen: list[torch.Tensor] = []
    for parameter in one.policy.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad))
    beyond = segment([1, VOCAB + 50, 2, 3], [0, 0, 1, 1], [0.0, 0.0, -1.0, -1.0])
    spoilt = [TrainingTrial("a", "g", 1, (beyond,)), TrainingTrial("b", "g", 0, (beyond,))]
    with pytest.raises(IndexError):
        one.step([*trials(moe(), groups=1), *spoilt], honest())
    assert seen, "it ended before there was a gradient"
    assert all(p.grad is None for p in one.policy.parameters())


def test_an_infinite_gradient_stops_the_run_before_the_update() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = optim.build([parameter], OptimizerSettings())
    parameter.grad = torch.tensor([1.0, math.inf, 0.0])
    with pytest.raises(FidelityError) as stopped:
        optim.update(optimizer, 1.0)
    assert stopped.value.reason == "gradient"
    assert torch.equal(parameter.detach(), torch.ones(3))
    assert parameter.grad is None


def test_the_gradient_is_clipped_to_its_norm() -> None:
    parameter = torch.nn.Parameter(torch.zeros(2))
    optimizer = optim.build([parameter], OptimizerSettings(lr=1e6, eps=1e6, weight_decay=0.0))
    parameter.grad = torch.tensor([3.0, 4.0])
    assert optim.update(optimizer, 1.0) == pytest.approx(5.0)
    torch.testing.assert_close(parameter.detach(), torch.tensor([-0.6, -0.8]), rtol=1e-4, atol=0)


def test_prompts_must_divide_into_updates() -> None:
    with pytest.raises(ConfigError, match="2 prompts a step cannot be split into 3 updates"):
        trainer(updates=3)


def test_without_a_kl_no_reference_is_kept(tmp_path: Path) -> None:
    settings = TrainSettings(loss=LossSettings(kl_coefficient=0.0))
    one = Trainer.from_directory(policy_directory(tmp_path / "policy"), settings, SHAPE)
    assert one.step(trials(moe()), honest()).loss.kl == 0.0


@pytest.mark.parametrize("updates", [1, 2])
def test_a_resumed_run_takes_the_very_same_steps(tmp_path: Path, updates: int) -> None:
    source = policy_directory(tmp_path / "start")
    settings = TrainSettings(updates=updates, optimizer=OptimizerSettings(lr=1e-3))
    through = Trainer.from_directory(source, settings, SHAPE)
    through.step(trials(moe()), honest())
    (tmp_path / "checkpoint").mkdir()
    through.save(tmp_path / "checkpoint", CARD)
    second = trials(through.policy, version=1)  # type: ignore[arg-type]
    through.step(second, honest(1))
    resumed = Trainer.resume(tmp_path / "checkpoint", source, settings, SHAPE)
    assert resumed.version == 1
    resumed.step(second, honest(1))
    assert resumed.version == through.version == 2
    for name, tensor in through.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name
    assert (tmp_path / "checkpoint" / "policy" / "chat_template.jinja").is_file()


@pytest.mark.parametrize("file", ["optimizer.pt", "trainer.json"])
def test_an_incomplete_checkpoint_is_refused(tmp_path: Path, file: str) -> None:
    source = policy_directory(tmp_path / "start")
    one = Trainer.from_directory(source, TrainSettings(), SHAPE)
    (tmp_path / "checkpoint").mkdir()
    one.save(tmp_path / "checkpoint", CARD)
    (tmp_path / "checkpoint" / file).write_bytes(b"{")
    with pytest.raises(RunError, match="no complete checkpoint"):
        Trainer.resume(tmp_path / "checkpoint", source, TrainSettings(), SHAPE)


@pytest.mark.parametrize("file", ["optimizer.pt", "policy/model.safetensors", "policy/tokenizer.json"])
def test_a_checkpoint_in_which_one_bit_was_altered_is_refused(tmp_path: Path, file: str) -> None:
    source = policy_directory(tmp_path / "start")
    one = Trainer.from_directory(source, TrainSettings(), SHAPE)
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    one.save(checkpoint, CARD)
    content = bytearray((checkpoint / file).read_bytes())
    content[len(content) * 9 // 10] ^= 1
    (checkpoint / file).write_bytes(content)
    with pytest.raises((RunError, ConfigError), match=file.rpartition("/")[2]):
        Trainer.resume(checkpoint, source, TrainSettings(), SHAPE)


def test_metrics_are_flat_numbers() -> None:
    flat = trainer().step(trials(moe()), honest()).flat()
    assert all(isinstance(value, float) and not math.isnan(value) for value in flat.values())
    assert {"fidelity/pearson_logprobs", "loss/clip_fraction_high", "train/grad_norm", "train/reward_mean"} <= set(flat)


def test_it_learns() -> None:
    """A bandit: right is to begin with one of the first sixteen tokens. 32 trials a step, 40 steps."""
    shape = BatchShape(prompts=4, trials_per_prompt=8, temperature=1.0)
    one = trainer(shape, optimizer=OptimizerSettings(lr=3e-3), routing="own")
    contexts = torch.tensor(prompts(4)).repeat_interleave(8, 0)
    generator = torch.Generator().manual_seed(0)
    rewards = []
    for step in range(40):
        with torch.no_grad():
            logp = one.policy(input_ids=contexts).logits[:, -1].log_softmax(-1)
        tokens = torch.multinomial(logp.exp(), 1, generator=generator)
        batch = []
        for i, (context, token) in enumerate(zip(contexts.tolist(), tokens[:, 0].tolist(), strict=True)):
            ids, mask = [*context, token], [0] * len(context) + [1]
            one_segment = segment(ids, mask, [0.0] * len(context) + [float(logp[i, token])], version=step)
            batch.append(TrainingTrial(f"t{i}", f"g{i // 8}", int(token < VOCAB // 4), (one_segment,)))  # type: ignore[arg-type]
        rewards.append(float(np.mean([t.reward for t in batch])))
        one.step(batch, honest(step))
    assert np.mean(rewards[:5]) < 0.5
    assert np.mean(rewards[-5:]) > 0.9


def test_logits_in_turns_are_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a large vocabulary and many tokens not all logits are in memory together."""
    whole, in_turns = trainer(), trainer()
    batch = trials(moe())
    expected = whole.step(batch, honest())
    monkeypatch.setattr(forward, "LOGITS_AT_ONCE", 7 * VOCAB)
    found = in_turns.step(batch, honest())
    assert found.loss.entropy == pytest.approx(expected.loss.entropy, rel=1e-5)
    assert found.grad_norm == pytest.approx(expected.grad_norm, rel=1e-5)
    assert found.fidelity.mean_abs == pytest.approx(expected.fidelity.mean_abs, abs=1e-6)
    for name, tensor in in_turns.state_dict().items():
        assert torch.allclose(tensor, whole.state_dict()[name], atol=2e-4), name
