"""Rollouts by the real embedded engine, honest or with one thing wrong, for the tests of the fidelity gate."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from tiny_moe import VOCAB, prompts, segment
from torch import Tensor
from transformers import Qwen3MoeForCausalLM

from lego_rl.engine.audit import AuditedEngine
from lego_rl.engine.audit_log import AuditLog, MemoryAuditLog
from lego_rl.engine.embedded.engine import EmbeddedEngine
from lego_rl.engine.embedded.geometry import Geometry
from lego_rl.engine.embedded.stepper import EngineOptions
from lego_rl.engine.embedded.weights import Weights, state_digest
from lego_rl.engine.protocol import Engine, Sample, Sampling
from lego_rl.gateway.trajectory import Segment
from lego_rl.train.batch import TrainingTrial


@dataclass(frozen=True)
class Fault:
    """What is wrong with an engine; by default nothing.

    Attributes:
        temperature: What it samples at.
        dtype: What it computes in.
        prompt_shift: Added to every id of the first part of the prompt before the engine sees it: what it is given is
            not what is recorded, as with another template.
        route_shift: Rows by which the recorded routes are displaced.
    """

    temperature: float = 1.0
    dtype: torch.dtype = torch.float32
    prompt_shift: int = 0
    route_shift: int = 0


def geometry(policy: Qwen3MoeForCausalLM) -> Geometry:
    return Geometry.from_config(policy.config)


def digest(policy: Qwen3MoeForCausalLM, dtype: torch.dtype = torch.float32) -> str:
    return state_digest(policy.state_dict(), geometry(policy), dtype)


def corrupted(state: Mapping[str, Tensor], layer: int, expert: int, scale: float = -1.0) -> dict[str, Tensor]:
    """A state dict in which one expert's output projection is multiplied by `scale`."""
    name = f"model.layers.{layer}.mlp.experts.down_proj"
    damaged = dict(state)
    damaged[name] = state[name].clone()
    damaged[name][expert] *= scale
    return damaged


def sampled_trials(
    policy: Qwen3MoeForCausalLM,
    fault: Fault = Fault(),
    *,
    state: Mapping[str, Tensor] | None = None,
    groups: int = 2,
    size: int = 4,
    version: int = 0,
    seed: int = 0,
    log: AuditLog | None = None,
) -> list[TrainingTrial]:
    """A step's trials from an engine that holds `state`, by default the policy's own."""
    weights = Weights.from_state_dict(state or policy.state_dict(), geometry(policy), fault.dtype, torch.device("cpu"))
    with EmbeddedEngine(weights, version=version, options=EngineOptions(threads=1), seed=seed) as engine:
        audited = AuditedEngine(engine, MemoryAuditLog() if log is None else log)
        return asyncio.run(_step(audited, fault, groups, size, seed))


async def _step(engine: Engine, fault: Fault, groups: int, size: int, seed: int) -> list[TrainingTrial]:
    made = []
    starts = prompts(groups, seed=seed + 7)
    numbers = [(g, n) for g in range(groups) for n in range(size)]
    segments = await asyncio.gather(*(_rollout(engine, fault, starts[g], 100 * g + n + seed) for g, n in numbers))
    for (g, n), one in zip(numbers, segments, strict=True):
        reward: Literal[0, 1] = 1 if n % 2 else 0
        made.append(TrainingTrial(f"t{g}-{n}", f"g{g}", reward, (one,)))
    return made


async def _rollout(engine: Engine, fault: Fault, prompt: Sequence[int], seed: int, calls: int = 3) -> Segment:
    random = np.random.default_rng(seed)
    ids, mask, logps = list(prompt), [0] * len(prompt), [0.0] * len(prompt)
    routes = np.zeros((0, 0, 0), np.uint8)
    samples: list[Sample] = []
    for number in range(calls):
        if number:
            tool = random.integers(0, VOCAB, 5).tolist()
            ids, mask, logps = ids + tool, mask + [0] * 5, logps + [0.0] * 5
        given = [(i + fault.prompt_shift) % VOCAB if at < 20 else i for at, i in enumerate(ids)]
        sampling = Sampling(fault.temperature, int(random.integers(15, 30)), (), seed=seed * 10 + number)
        sample = await engine.generate(given, sampling, routes_from=len(routes))
        samples.append(sample)
        assert sample.routes is not None
        routes = sample.routes if not number else np.concatenate([routes, sample.routes])
        ids, mask = ids + list(sample.token_ids), mask + [1] * len(sample.token_ids)
        logps = logps + sample.logprobs.tolist()
    made = segment(ids, mask, logps, np.roll(routes, fault.route_shift, 0), version=engine.weight_version)
    return replace(made, calls=tuple(sample.call_id for sample in samples))


async def rollout_of(engine: Engine, prompt: Sequence[int], seed: int) -> Segment:
    """One honest trial of three calls from `prompt`."""
    return await _rollout(engine, Fault(), prompt, seed)
