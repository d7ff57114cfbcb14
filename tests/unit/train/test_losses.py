"""The objective: closed forms, loops over tokens in float64, and the laws that hold for any numbers."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lego_rl.train.importance import importance_weights
from lego_rl.train.losses import gspo, low_variance_kl, seq_mean_token_mean
from lego_rl.train.objective import objective as trainer_objective
from lego_rl.train.settings import LossSettings, NoCorrection, SequenceTruncation, TokenTruncation

LOW, HIGH = 3e-4, 4e-4
seeds = st.integers(0, 2**31)


def draw(seed: int, rows: int = 5, length: int = 7, scale: float = 5e-4) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """New and old log-probs near each other, advantages of both signs, and a mask with an empty row."""
    g = torch.Generator().manual_seed(seed)
    old = -torch.rand(rows, length, generator=g, dtype=torch.float64) * 3
    new = old + torch.randn(rows, length, generator=g, dtype=torch.float64) * scale
    mask = torch.rand(rows, length, generator=g) < 0.6
    mask[0], mask[1, 0] = False, True
    advantage = torch.randn(rows, generator=g, dtype=torch.float64)
    return new.requires_grad_(), old, advantage, mask


def loop_gspo(new: Tensor, old: Tensor, advantage: Tensor, mask: Tensor, divisor: float) -> tuple[float, Tensor]:
    """Value and gradient by hand: ``ratio · A / tokens`` at each token where the clip is not active."""
    total, gradient = 0.0, torch.zeros_like(old)
    for b in range(len(old)):
        tokens = [t for t in range(old.shape[1]) if mask[b, t]]
        if not tokens:
            continue
        ratio = math.exp(sum(float(new[b, t] - old[b, t]) for t in tokens) / len(tokens))
        a = float(advantage[b])
        clipped = min(max(ratio, 1 - LOW), 1 + HIGH)
        total += max(-a * ratio, -a * clipped) / divisor
        if -a * ratio >= -a * clipped:
            for t in tokens:
                gradient[b, t] = -a * ratio / len(tokens) / divisor
    return total, gradient


@pytest.mark.parametrize("scale", [1e-5, 5e-4, 0.5])
@pytest.mark.parametrize("seed", range(5))
def test_gspo_equals_its_loop_in_value_and_gradient(seed: int, scale: float) -> None:
    new, old, advantage, mask = draw(seed, scale=scale)
    out = gspo(new, old, advantage, mask, clip_low=LOW, clip_high=HIGH)
    loss = seq_mean_token_mean(out.loss_BT, mask, torch.ones(len(old), dtype=torch.float64), 16)
    loss.backward()
    value, gradient = loop_gspo(new.detach(), old, advantage, mask, 16)
    assert float(loss.detach()) == pytest.approx(value, rel=1e-9)
    torch.testing.assert_close(new.grad, gradient, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient", "clipped"),
    [
        (1.0, 2.0, -2.0, -2.0, (False, False)),
        (1.01, 2.0, -2.0 * (1 + HIGH), 0.0, (False, True)),
        (1.01, -2.0, 2.0 * 1.01, 2.0 * 1.01, (False, False)),
        (0.99, 2.0, -2.0 * 0.99, -2.0 * 0.99, (False, False)),
        (0.99, -2.0, 2.0 * (1 - LOW), 0.0, (True, False)),
    ],
)
def test_gspo_clips_only_what_went_too_far_in_its_own_direction(
    ratio: float, advantage: float, loss: float, gradient: float, clipped: tuple[bool, bool]
) -> None:
    old = torch.full((1, 2), -1.0, dtype=torch.float64)
    new = (old + math.log(ratio)).requires_grad_()
    mask = torch.ones(1, 2, dtype=torch.bool)
    out = gspo(new, old, torch.tensor([advantage], dtype=torch.float64), mask, clip_low=LOW, clip_high=HIGH)
    total = seq_mean_token_mean(out.loss_BT, mask, torch.ones(1, dtype=torch.float64), 1)
    total.backward()
    assert float(total.detach()) == pytest.approx(loss, rel=1e-12)
    assert float(new.grad.sum()) == pytest.approx(gradient, rel=1e-12, abs=1e-15)
    assert (bool(out.clipped_low_B), bool(out.clipped_high_B)) == clipped
    assert float(out.ratio_B) == pytest.approx(ratio, rel=1e-12)


def test_low_variance_kl_closed_form_and_bounds() -> None:
    logp = torch.tensor([[-1.0, -1.0, -30.0, 0.0]], dtype=torch.float64)
    reference = torch.tensor([[-1.0, -2.0, 0.0, -30.0]], dtype=torch.float64)
    kl = low_variance_kl(logp, reference)
    assert kl[0].tolist() == pytest.approx([0.0, math.exp(-1), 10.0, 10.0], rel=1e-12)


@given(seeds)
@settings(max_examples=25)
def test_low_variance_kl_is_never_negative_and_its_gradient_is_one_minus_the_ratio(seed: int) -> None:
    new, old, _, _ = draw(seed, scale=0.5)
    kl = low_variance_kl(new, old)
    kl.sum().backward()
    assert (kl >= 0).all()
    torch.testing.assert_close(new.grad, 1 - (old - new.detach()).exp(), rtol=1e-9, atol=1e-12)


def test_token_weights_are_truncated_ratios() -> None:
    old = torch.tensor([[math.log(0.9), math.log(0.2), math.log(0.5)]], dtype=torch.float64)
    behaviour = torch.tensor([[math.log(0.3), math.log(0.4), -1e9]], dtype=torch.float64)
    mask = torch.tensor([[1, 1, 0]])
    out = importance_weights(TokenTruncation(), old, behaviour, mask)
    assert out.weight_BT[0].tolist() == pytest.approx([2.0, 0.5, 0.0], rel=1e-12)
    assert out.raw_BT[0].tolist() == pytest.approx([3.0, 0.5, 0.0], rel=1e-12)


def test_sequence_weights_are_the_truncated_product() -> None:
    old = torch.log(torch.tensor([[0.9, 0.2, 0.5], [0.9, 0.2, 0.5]], dtype=torch.float64))
    behaviour = torch.log(torch.tensor([[0.6, 0.2, 0.1], [0.1, 0.2, 0.1]], dtype=torch.float64))
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    out = importance_weights(SequenceTruncation(), old, behaviour, mask)
    assert out.weight_BT.flatten().tolist() == pytest.approx([1.5, 1.5, 0.0, 2.0, 2.0, 2.0], rel=1e-12)
    assert out.raw_BT[1].tolist() == pytest.approx([45.0] * 3, rel=1e-12)


def test_no_correction_is_a_weight_of_one() -> None:
    new, old, _, mask = draw(0)
    out = importance_weights(NoCorrection(), new, old, mask)
    assert torch.equal(out.weight_BT, mask.double())
    assert not out.weight_BT.requires_grad


def test_weights_carry_no_gradient() -> None:
    new, old, _, mask = draw(0)
    for correction in (TokenTruncation(), SequenceTruncation()):
        assert not importance_weights(correction, new, old, mask).weight_BT.requires_grad


def objective(new: Tensor, old: Tensor, advantage: Tensor, mask: Tensor, scale: Tensor) -> Tensor:
    """The trainer's whole objective, with behaviour and reference derived from `old`."""
    return trainer_objective(
        LossSettings(),
        new,
        old_logp_BT=old,
        behaviour_logp_BT=old - 0.3 * torch.sin(7 * old),
        reference_logp_BT=old + 0.2 * torch.cos(5 * old),
        advantage_B=advantage,
        mask_BT=mask,
        scale_B=scale,
        divisor=8,
    ).loss


def gradient_of(loss: Callable[[Tensor], Tensor], new: Tensor) -> tuple[float, Tensor]:
    leaf = new.detach().clone().requires_grad_()
    value = loss(leaf)
    (gradient,) = torch.autograd.grad(value, leaf)
    return float(value.detach()), gradient


@given(seeds, st.sampled_from([math.nan, math.inf, -math.inf, 1e30]))
@settings(max_examples=25)
def test_masked_tokens_never_matter(seed: int, poison: float) -> None:
    new, old, advantage, mask = draw(seed)
    scale = torch.ones(len(old), dtype=torch.float64)
    value, gradient = gradient_of(lambda n: objective(n, old, advantage, mask, scale), new)
    poisoned = torch.where(mask, new.detach(), poison)
    bad_value, bad_gradient = gradient_of(lambda n: objective(n, old, advantage, mask, scale), poisoned)
    assert bad_value == pytest.approx(value, rel=1e-12)
    assert torch.equal(bad_gradient[mask], gradient[mask])
    bad_old = torch.where(mask, old, poison)
    assert float(objective(new.detach(), bad_old, advantage, mask, scale)) == pytest.approx(value, rel=1e-12)


@given(seeds, st.integers(1, 6))
@settings(max_examples=25)
def test_padding_never_matters(seed: int, columns: int) -> None:
    new, old, advantage, mask = draw(seed)
    scale = torch.ones(len(old), dtype=torch.float64)
    value, gradient = gradient_of(lambda n: objective(n, old, advantage, mask, scale), new)
    pad = lambda x, fill: torch.nn.functional.pad(x, (0, columns), value=fill)  # noqa: E731
    padded = lambda n: objective(n, pad(old, -5.0), advantage, pad(mask, False), scale)  # noqa: E731
    padded_value, padded_gradient = gradient_of(padded, pad(new.detach(), -3.0))
    assert padded_value == pytest.approx(value, rel=1e-12)
    torch.testing.assert_close(padded_gradient[:, : old.shape[1]], gradient, rtol=1e-12, atol=0)
    assert not padded_gradient[:, old.shape[1] :].any()


@given(seeds)
@settings(max_examples=25)
def test_order_of_segments_and_of_their_tokens_never_matters(seed: int) -> None:
    new, old, advantage, mask = draw(seed)
    scale = torch.rand(len(old), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    rows = torch.randperm(len(old), generator=torch.Generator().manual_seed(seed))
    columns = torch.randperm(old.shape[1], generator=torch.Generator().manual_seed(seed + 1))
    value, gradient = gradient_of(lambda n: objective(n, old, advantage, mask, scale), new)
    shuffle = lambda x: x[rows][:, columns]  # noqa: E731
    other = lambda n: objective(n, shuffle(old), advantage[rows], shuffle(mask), scale[rows])  # noqa: E731
    shuffled_value, shuffled_gradient = gradient_of(other, shuffle(new.detach()))
    assert shuffled_value == pytest.approx(value, rel=1e-12)
    torch.testing.assert_close(shuffled_gradient, shuffle(gradient), rtol=1e-12, atol=1e-18)


@given(seeds, st.integers(1, 5))
@settings(max_examples=25)
def test_a_trial_weighs_the_same_however_many_segments_it_has(seed: int, copies: int) -> None:
    new, old, advantage, mask = draw(seed, rows=2)
    once = objective(new, old, advantage, mask, torch.ones(2, dtype=torch.float64))
    repeat = lambda x: torch.cat([x[:1], x[1:].repeat_interleave(copies, 0)])  # noqa: E731
    scale = torch.tensor([1.0] + [1 / copies] * copies, dtype=torch.float64)
    split = objective(repeat(new), repeat(old), repeat(advantage), repeat(mask), scale)
    assert float(split.detach()) == pytest.approx(float(once.detach()), rel=1e-12)
