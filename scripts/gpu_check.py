"""What one GPU makes of the embedded engine and trainer: fidelity with routing replay, and a long segment.

A random mixture of experts is sampled in bfloat16 and trained in float32. Its figures are of arithmetic and memory, not
of learning. ``scripts/gpu_check.sh`` runs it; the JSON that it prints is described by `Report`.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel, Qwen3MoeConfig, Qwen3MoeForCausalLM

from lego_rl.engine.embedded.engine import EmbeddedEngine
from lego_rl.engine.embedded.geometry import Geometry
from lego_rl.engine.embedded.stepper import EngineOptions
from lego_rl.engine.embedded.weights import Weights
from lego_rl.engine.protocol import Sample, Sampling
from lego_rl.errors import FidelityError
from lego_rl.gateway.trajectory import Segment
from lego_rl.train.batch import MicroBatch, Row, TrainingTrial, plan
from lego_rl.train.fidelity import EngineClaim
from lego_rl.train.forward import logprobs
from lego_rl.train.settings import LossSettings, TrainSettings
from lego_rl.train.trainer import BatchShape, Trainer

_SEED = 0
_SPREAD = 0.02
"""Deviation of the weights, as models are initialised."""
_HEAD_SPREAD = 0.08
"""Of the output projection: distributions are far from flat, so that correlations mean something."""


@dataclass(frozen=True)
class Size:
    """What is run.

    Attributes:
        vocabulary: Rows of the embedding.
        hidden: Width.
        layers: Decoder layers.
        experts: Of each layer; four of them run.
        inner: Width of an expert.
        prompt: Tokens of the short prompts.
        sampled: Tokens that each short trial samples.
        trials: Trials of the one prompt.
        long: Tokens of the long segment, all of them trained.
        prefill: Prompt tokens that the engine feeds at once.
    """

    vocabulary: int
    hidden: int
    layers: int
    experts: int
    inner: int
    prompt: int
    sampled: int
    trials: int
    long: int
    prefill: int


SIZES = {
    "gpu": Size(151_936, 1024, 8, 32, 512, 512, 256, 8, 32_768, 1024),
    "tiny": Size(512, 64, 2, 8, 32, 48, 12, 4, 320, 64),
}


@dataclass
class Report:
    """What is printed.

    Attributes:
        device: The device's name.
        torch: torch's version.
        parameters: Of the policy.
        fidelity: Engine against trainer with replay: `FidelityReport`'s fields.
        pearson_without_replay: Correlation of log-probs with the trainer's own routing.
        gate: ``passed``, or the reason for which the fidelity gate would have stopped a run.
        sampled_tokens_per_second: Of all short trials together.
        prefill_tokens_per_second: Of the long prompt.
        trained_tokens_per_second: Of the long segment, forward and backward.
        long_tokens: Tokens of the long segment whose log-probs have gradients.
        long_mean_abs: Mean difference, in nats, of the long segment's last tokens, which the engine sampled.
        peak_memory_gib: Largest allocated memory in each part; 0 on a CPU.
        seconds: Of each part.
    """

    device: str
    torch: str
    parameters: int
    fidelity: dict[str, float] = field(default_factory=dict)
    pearson_without_replay: float = 0.0
    gate: str = "passed"
    sampled_tokens_per_second: float = 0.0
    prefill_tokens_per_second: float = 0.0
    trained_tokens_per_second: float = 0.0
    long_tokens: int = 0
    long_mean_abs: float = 0.0
    peak_memory_gib: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


@contextmanager
def part(report: Report, name: str, device: torch.device) -> Iterator[None]:
    """Time a part, and note its peak of memory."""
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    started = time.perf_counter()
    yield
    if cuda:
        torch.cuda.synchronize(device)
    report.seconds[name] = round(time.perf_counter() - started, 2)
    report.peak_memory_gib[name] = round(torch.cuda.max_memory_allocated(device) / 2**30, 2) if cuda else 0.0


def build(size: Size, device: torch.device) -> PreTrainedModel:
    """A random policy in float32."""
    configured: Any = Qwen3MoeConfig
    config = configured(
        vocab_size=size.vocabulary,
        hidden_size=size.hidden,
        intermediate_size=size.inner,
        moe_intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.hidden // 32,
        num_key_value_heads=max(1, size.hidden // 128),
        head_dim=64,
        num_experts=size.experts,
        num_experts_per_tok=4,
        norm_topk_prob=True,
        tie_word_embeddings=False,
        max_position_embeddings=size.long + 64,
        initializer_range=_SPREAD,
    )
    torch.manual_seed(_SEED)
    module: Any = Qwen3MoeForCausalLM
    policy = module._from_config(config, attn_implementation="sdpa").eval()
    nn.init.normal_(policy.lm_head.weight, std=_HEAD_SPREAD)
    nn.Module.to(policy, device)
    made: PreTrainedModel = policy
    return made


def engine_of(policy: PreTrainedModel, size: Size, device: torch.device) -> EmbeddedEngine:
    """The engine, in bfloat16, with the policy's weights."""
    geometry = Geometry.from_config(policy.config)
    weights = Weights.from_state_dict(policy.state_dict(), geometry, torch.bfloat16, device)
    options = EngineOptions(max_running=size.trials, prefill_tokens=size.prefill, cache_tokens=0)
    return EmbeddedEngine(weights, options=options, seed=_SEED)


def segment_of(prompt: Sequence[int], sample: Sample) -> Segment:
    """The training sequence of one call."""
    sampled = np.arange(len(prompt) + len(sample.token_ids)) >= len(prompt)
    return Segment(
        token_ids=np.asarray([*prompt, *sample.token_ids], np.int32),
        loss_mask=sampled.astype(np.uint8),
        logprobs=np.concatenate([np.zeros(len(prompt)), sample.logprobs]).astype(np.float32),
        versions=np.where(sampled, 0, -1).astype(np.int32),
        call_ids=np.where(sampled, 0, -1).astype(np.int32),
        call_positions=np.where(sampled, np.arange(len(sampled)) - len(prompt), -1).astype(np.int32),
        calls=(sample.call_id,),
        routes=sample.routes,
        routes_recorded=0 if sample.routes is None else len(sample.routes),
    )


async def sample_all(engine: EmbeddedEngine, prompts: Sequence[Sequence[int]], tokens: int) -> list[Segment]:
    """One call a prompt, together."""
    calls = [engine.generate(prompt, Sampling(1.0, tokens, (), seed=number)) for number, prompt in enumerate(prompts)]
    samples = await asyncio.gather(*calls)
    return [segment_of(prompt, sample) for prompt, sample in zip(prompts, samples, strict=True)]


def one_row(segment: Segment, device: torch.device, routing: Literal["replay", "own"]) -> MicroBatch:
    """A micro-batch of one segment."""
    row = Row("trial", 0, segment, 1.0, 1.0)
    (batch,) = plan([row], len(segment.token_ids), routing=routing, device=device)
    return batch


def short(report: Report, policy: PreTrainedModel, size: Size, device: torch.device) -> None:
    """Trials of one prompt, sampled together and learned from once."""
    prompt = np.random.default_rng(_SEED).integers(0, size.vocabulary, size.prompt).tolist()
    with engine_of(policy, size, device) as engine:
        with part(report, "sampling", device):
            segments = asyncio.run(sample_all(engine, [prompt] * size.trials, size.sampled))
        digest = engine.weights_digest()
        claim = EngineClaim(0, digest, expected_digest=engine.digest_of(policy.state_dict()))
    report.sampled_tokens_per_second = round(size.trials * size.sampled / report.seconds["sampling"], 1)
    rewards: tuple[Literal[0, 1], ...] = (0, 1)
    trials = [TrainingTrial(f"trial-{n}", "group", rewards[n % 2], (segment,)) for n, segment in enumerate(segments)]
    report.pearson_without_replay = correlation(policy, segments, device)
    settings = TrainSettings(loss=LossSettings(kl_coefficient=0))
    trainer = Trainer(policy, None, Path(), settings, BatchShape(1, size.trials, 1.0))
    with part(report, "training", device):
        try:
            report.fidelity = {
                name: float(value) for name, value in asdict(trainer.step(trials, claim).fidelity).items()
            }
        except FidelityError as error:
            report.gate = str(error)


def correlation(policy: PreTrainedModel, segments: Sequence[Segment], device: torch.device) -> float:
    """Of recorded log-probs and the policy's own, its router choosing again."""
    recorded, own = [], []
    for segment in segments:
        batch = one_row(segment, device, "own")
        with torch.no_grad():
            found = logprobs(policy, batch, 1.0).logp_BT[batch.mask_BT]
        own.append(found.float().cpu().numpy())
        recorded.append(segment.logprobs[segment.loss_mask == 1])
    return round(float(np.corrcoef(np.concatenate(recorded), np.concatenate(own))[0, 1]), 8)


def long(report: Report, policy: PreTrainedModel, size: Size, device: torch.device) -> None:
    """A context as long as the segment, its last tokens sampled; then log-probs of every token, with gradients."""
    count = size.long - size.sampled
    prompt = np.random.default_rng(_SEED + 1).integers(0, size.vocabulary, count).tolist()
    with engine_of(policy, size, device) as engine:
        with part(report, "long prefill", device):
            asyncio.run(sample_all(engine, [prompt], 1))
        with part(report, "long call", device):
            (segment,) = asyncio.run(sample_all(engine, [prompt], size.sampled))
    report.prefill_tokens_per_second = round(count / report.seconds["long prefill"], 1)
    everything = np.ones_like(segment.loss_mask)
    everything[0] = 0  # the first token is predicted by none
    batch = one_row(_trained(segment, everything), device, "replay")
    with part(report, "long training", device):
        seen = logprobs(policy, batch, 1.0)
        seen.logp_BT.sum().backward()  # type: ignore[no-untyped-call]
    report.long_tokens = int(everything.sum())
    report.trained_tokens_per_second = round(report.long_tokens / report.seconds["long training"], 1)
    found = seen.logp_BT.detach()[0, -size.sampled :].float().cpu().numpy()
    report.long_mean_abs = round(float(np.abs(found - segment.logprobs[-size.sampled :]).mean()), 6)


def _trained(segment: Segment, mask: Any) -> Segment:
    """The same tokens and routes, other ones of which are trained."""
    trained = mask.astype(bool)
    return Segment(
        token_ids=segment.token_ids,
        loss_mask=mask,
        logprobs=segment.logprobs,
        versions=np.where(trained, 0, -1).astype(np.int32),
        call_ids=np.where(trained, 0, -1).astype(np.int32),
        call_positions=np.where(trained, np.arange(len(trained)), -1).astype(np.int32),
        calls=segment.calls,
        routes=segment.routes,
        routes_recorded=segment.routes_recorded,
    )


def main() -> None:
    """Run every part and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), default="gpu")
    parser.add_argument("--device", default="cuda")
    chosen = parser.parse_args()
    size, device = SIZES[chosen.size], torch.device(chosen.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    with torch.device("cpu"):
        policy = build(size, device)
    report = Report(name, torch.__version__, sum(weight.numel() for weight in policy.parameters()))
    long(report, policy, size, device)
    policy.zero_grad()
    short(report, policy, size, device)
    print(json.dumps(asdict(report), indent=1))


if __name__ == "__main__":
    main()
