"""Supervised fine-tuning: what it learns, what it must not learn, and that being stopped changes nothing."""

import json
import resource
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_moe import CARD, VOCAB, moe, policy_directory, segment

from lego_rl.engine.embedded.policy import load_policy
from lego_rl.errors import ConfigError, RunError
from lego_rl.gateway.trajectory import Segment
from lego_rl.rollout.lock import LockedFolder
from lego_rl.train.sft import SftMetrics, SftTrainer, learning_rate, run_sft
from lego_rl.train.sft_settings import SftOptimizerSettings, SftSettings

PROMPT = list(range(1, 21))


def demonstrations(count: int, seed: int = 0) -> list[Segment]:
    """A shared prompt, a question of two tokens, and an answer that repeats it."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        question = rng.integers(30, VOCAB, 2).tolist()
        made.append(segment([*PROMPT, *question, *question, 0], [0] * 22 + [1] * 3))
    return made


def settings(**changes: object) -> SftSettings:
    values = {"steps": 6, "batch": 4, "warmup": 2, "checkpoint_every": 2, "optimizer": SftOptimizerSettings(lr=1e-2)}
    return SftSettings.model_validate(values | changes)


def trained(directory: Path, run_dir: Path, chosen: SftSettings, data: list[Segment]) -> list[SftMetrics]:
    seen: list[SftMetrics] = []
    with LockedFolder(run_dir) as run:
        run_sft(directory, data, run, chosen, seen.append, CARD)
    return seen


def test_a_small_set_is_learned_by_heart(tmp_path: Path) -> None:
    directory = policy_directory(tmp_path / "policy")
    metrics = trained(directory, tmp_path / "run", settings(steps=120, checkpoint_every=120), demonstrations(8))
    assert metrics[0].loss > 3.0
    assert metrics[-1].loss < 0.1
    assert metrics[-1].accuracy == 1.0


def test_only_masked_in_tokens_are_learned() -> None:
    """The gradient is that of the sampled tokens' likelihood: context tokens, as targets, play no part."""
    policy = moe()
    (demonstration,) = demonstrations(1)
    ids = torch.from_numpy(demonstration.token_ids.astype(np.int64))[None]
    logp_T = policy(input_ids=ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None]).squeeze(-1)
    expected = torch.autograd.grad(-logp_T[21:24].mean(), list(policy.parameters()), allow_unused=True)
    trainer = SftTrainer(policy, Path(), settings(balance=0.0, optimizer=SftOptimizerSettings(lr=1e-9, grad_clip=1e9)))
    seen: dict[str, torch.Tensor] = {}
    for name, parameter in policy.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda p, name=name: seen.update({name: p.grad.clone()}))
    metrics = trainer.step([demonstration])
    assert metrics.tokens == 3
    assert metrics.loss == pytest.approx(float(-logp_T[21:24].detach().mean()), rel=1e-5)
    for (name, _), gradient in zip(policy.named_parameters(), expected, strict=True):
        torch.testing.assert_close(seen[name], gradient, rtol=1e-3, atol=1e-6)


def test_micro_batches_do_not_change_an_update() -> None:
    data = demonstrations(6)
    norms = []
    for budget in (1, 60, 10_000):
        trainer = SftTrainer(moe(), Path(), settings(microbatch_tokens=budget, balance=0.0))
        norms.append(trainer.step(data).grad_norm)
    assert norms == pytest.approx([norms[0]] * 3, rel=1e-4)


def test_a_stopped_run_continues_where_it_was(tmp_path: Path) -> None:
    directory, data = policy_directory(tmp_path / "policy"), demonstrations(10)
    whole = trained(directory, tmp_path / "whole", settings(), data)

    class Stop(Exception):
        pass

    def stop_after_five(metrics: SftMetrics) -> None:
        if metrics.step == 4:
            raise Stop

    with LockedFolder(tmp_path / "stopped") as run, pytest.raises(Stop):
        run_sft(directory, data, run, settings(), stop_after_five, CARD)
    rest = trained(directory, tmp_path / "stopped", settings(), data)
    assert [m.step for m in rest] == [4, 5]
    assert [m.loss for m in rest] == [m.loss for m in whole[4:]]
    first, second = (load_policy(tmp_path / run / "policy", torch.float32) for run in ("whole", "stopped"))
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
    rows = [json.loads(line) for line in (tmp_path / "stopped" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(6))
    assert rows[5]["sft/loss"] == whole[5].loss


def test_the_result_is_a_policy_directory_in_bfloat16(tmp_path: Path) -> None:
    directory = policy_directory(tmp_path / "policy")
    with LockedFolder(tmp_path / "run") as run:
        path = run_sft(directory, demonstrations(4), run, settings(steps=1), lambda _: None, CARD)
    assert (path / "chat_template.jinja").read_bytes() == (directory / "chat_template.jinja").read_bytes()
    size = sum(p.numel() for p in load_policy(path, torch.float32).parameters())
    assert (path / "model.safetensors").stat().st_size == pytest.approx(2 * size, rel=0.2)


def test_too_few_demonstrations_are_refused(tmp_path: Path) -> None:
    with (
        LockedFolder(tmp_path / "run") as run,
        pytest.raises(ConfigError, match="3 segments do not fill one update of 4"),
    ):
        run_sft(policy_directory(tmp_path / "p"), demonstrations(3), run, settings(), lambda _: None, CARD)


@pytest.mark.parametrize("most", [1_000, 40_000])
def test_a_full_disk_stops_a_run_that_goes_on_when_there_is_room(tmp_path: Path, most: int) -> None:
    directory, data = policy_directory(tmp_path / "policy"), demonstrations(10)
    whole = trained(directory, tmp_path / "whole", settings(), data)

    def fills_up(metrics: SftMetrics) -> None:
        if metrics.step == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, limit[1]))

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with LockedFolder(tmp_path / "run") as run, pytest.raises((RunError, OSError)) as stopped:
            run_sft(directory, data, run, settings(), fills_up, CARD)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    if isinstance(stopped.value, RunError):
        assert "cannot write" in stopped.value.problem
        assert "free disk space" in stopped.value.fix
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-0002"]
    rest = trained(directory, tmp_path / "run", settings(), data)
    assert [m.loss for m in rest] == [m.loss for m in whole[2:]]


@pytest.mark.parametrize("part", ["policy", "optimizer"])
def test_each_librarys_own_error_for_a_full_disk_is_said(tmp_path: Path, part: str) -> None:
    trainer = SftTrainer.from_directory(policy_directory(tmp_path / "policy"), settings())
    trainer.step(demonstrations(4))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    (tmp_path / "c").mkdir()
    if part == "optimizer":
        (tmp_path / "c" / "optimizer.pt").symlink_to("/dev/full")
    try:
        if part == "policy":
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))
        with pytest.raises(RunError, match="cannot write") as stopped:
            trainer.save(tmp_path / "c", CARD)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert not isinstance(stopped.value.__cause__, OSError)


def test_what_ended_an_update_leaves_no_gradient_for_the_next() -> None:
    data = demonstrations(4)
    broken = [*data[:3], segment([*PROMPT, VOCAB + 50, 1, 0], [0] * 20 + [1] * 3)]
    one, other = (SftTrainer(moe(), Path(), settings(microbatch_tokens=1)) for _ in range(2))
    with pytest.raises(IndexError):
        one.step(broken)
    assert any(p.grad is not None for p in one.policy.parameters()), "nothing was left to be cleared"
    assert one.step(data).grad_norm == other.step(data).grad_norm


def test_learning_rate_rises_then_falls_or_holds() -> None:
    cosine = settings(steps=100, warmup=10, final_lr=0.1)
    assert learning_rate(cosine, 0) == pytest.approx(1e-3)
    assert learning_rate(cosine, 9) == pytest.approx(1e-2)
    assert learning_rate(cosine, 10) == pytest.approx(1e-2)
    assert learning_rate(cosine, 55) == pytest.approx(1e-2 * 0.55)
    assert learning_rate(cosine, 100) == pytest.approx(1e-3)
    assert learning_rate(settings(steps=100, warmup=10, schedule="constant"), 99) == 1e-2
