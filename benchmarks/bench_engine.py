"""Speed and numerics of the embedded engine, as one JSON object.

    python benchmarks/bench_engine.py [--policy DIRECTORY] [--dtype float32] [--threads 1] [--concurrent 8]

Without a policy a random Qwen3-MoE of the demo's size is measured (speed does not depend on what the weights are).
``lean`` is the engine's forward, ``transformers`` the module's own with its DynamicCache; ``traffic`` drives the whole
engine as harnesses do: every session shares the first half of its prompt, samples, and comes back with a longer prompt.
Figures per CPU second do not depend on what else the machine does, if one thread is used.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel, Qwen3MoeConfig, Qwen3MoeForCausalLM

from lego_rl.engine.embedded import EmbeddedEngine, EngineOptions, Geometry, Weights, load_policy
from lego_rl.engine.embedded.forward import Rotary, Span, forward
from lego_rl.engine.embedded.kv import KvBuffer
from lego_rl.engine.protocol import Sample, Sampling

CPU = torch.device("cpu")
DEMO_SIZE: dict[str, Any] = {
    "vocab_size": 2048,
    "hidden_size": 192,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "norm_topk_prob": True,
    "tie_word_embeddings": True,
    "max_position_embeddings": 16384,
}


@dataclass(frozen=True)
class Setting:
    """What is measured: sizes in tokens."""

    dtype: torch.dtype
    threads: int
    concurrent: int
    context: int
    sampled: int = 150
    turns: int = 4
    growth: int = 128
    chunk: int = 256


class Pair:
    """One policy, twice: the module of transformers and the weights of the lean forward."""

    def __init__(self, module: PreTrainedModel, setting: Setting) -> None:
        self.module, self.setting = module, setting
        self.geometry = Geometry.from_config(module.config)
        self.weights = Weights.from_state_dict(module.state_dict(), self.geometry, setting.dtype, CPU)
        self.rotary = Rotary(self.geometry, setting.dtype, CPU)

    def state(self) -> KvBuffer:
        """Room for the context and what is decoded after it."""
        return KvBuffer(self.geometry, self.setting.dtype, CPU, self.setting.context + 64)

    def feed(self, token_ids: list[int], kv: KvBuffer) -> torch.Tensor:
        """Lean chunked prefill; logits after the last token."""
        for start in range(0, len(token_ids), self.setting.chunk):
            span = Span(token_ids[start : start + self.setting.chunk], kv, wants_logits=True)
            logits = forward(self.weights, self.rotary, [span])
        return logits


def median_seconds(run: Callable[[], object], times: int) -> float:
    """Median CPU seconds over `times` runs after one to warm up."""
    run()
    taken = []
    for _ in range(times):
        started = time.process_time()
        run()
        taken.append(time.process_time() - started)
    return statistics.median(taken)


@torch.inference_mode()
def compare_forwards(pair: Pair) -> dict[str, object]:
    """Lean against transformers: prefill of one context, and decode steps at batch 1 and `concurrent`."""
    setting, context = pair.setting, pair.setting.context
    ids = np.random.default_rng(0).integers(0, pair.geometry.vocab, context).tolist()
    lean_prefill = median_seconds(lambda: pair.feed(ids, pair.state()), 3)
    module_prefill = median_seconds(lambda: pair.module(torch.tensor([ids]), logits_to_keep=1), 3)
    result: dict[str, object] = {
        "prefill_tokens_per_cpu_s": {"lean": context / lean_prefill, "transformers": context / module_prefill},
        "max_abs_logit_difference": float(
            (pair.feed(ids, pair.state())[-1] - pair.module(torch.tensor([ids])).logits[0, -1].float()).abs().max()
        ),
    }
    for batch in (1, setting.concurrent):
        lean = median_seconds(next_lean_step(pair, ids, batch), 30)
        module = median_seconds(next_module_step(pair, ids, batch), 30)
        result[f"decode_batch_{batch}"] = {
            "lean_cpu_ms": lean * 1e3,
            "transformers_cpu_ms": module * 1e3,
            "ratio": module / lean,
            "lean_tokens_per_cpu_s": batch / lean,
        }
    return result


def next_lean_step(pair: Pair, ids: list[int], batch: int) -> Callable[[], object]:
    """A decode step of `batch` sequences."""
    states = [pair.state() for _ in range(batch)]
    for kv in states:
        pair.feed(ids, kv)
    return lambda: forward(pair.weights, pair.rotary, [Span([1], kv, wants_logits=True) for kv in states])


def next_module_step(pair: Pair, ids: list[int], batch: int) -> Callable[[], object]:
    """A decode step of transformers over a batch of equal lengths."""
    cache = DynamicCache(config=pair.module.config)
    pair.module(torch.tensor([ids] * batch), past_key_values=cache, logits_to_keep=1)
    step = torch.ones((batch, 1), dtype=torch.int64)
    return lambda: pair.module(step, past_key_values=cache)


async def drive(engine: EmbeddedEngine, setting: Setting, vocab: int) -> list[list[Sample]]:
    """Sessions of several turns, all at once; the first half of the first prompt is everybody's."""
    generator = np.random.default_rng(1)
    shared = generator.integers(0, vocab, setting.context // 2).tolist()

    def fresh(count: int) -> list[int]:
        ids: list[int] = generator.integers(0, vocab, count).tolist()
        return ids

    async def session(number: int) -> list[Sample]:
        prompt = [*shared, *fresh(setting.context - len(shared))]
        samples: list[Sample] = []
        for turn in range(setting.turns):
            sampling = Sampling(1.0, setting.sampled // setting.turns, (), seed=1000 * number + turn)
            samples.append(await engine.generate(prompt, sampling))
            prompt = [*prompt, *samples[-1].token_ids, *fresh(setting.growth)]
        return samples

    return await asyncio.gather(*(session(number) for number in range(setting.concurrent)))


def measure_traffic(pair: Pair) -> Iterator[tuple[str, object]]:
    """The engine as a whole, and its log-probs against a one-shot forward of transformers."""
    setting = pair.setting
    options = EngineOptions(threads=setting.threads)
    with EmbeddedEngine(pair.weights, options=options) as engine:
        started, cpu_started = time.perf_counter(), time.process_time()
        sessions = asyncio.run(drive(engine, setting, pair.geometry.vocab))
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
        stats = engine.stats()
    prompt_tokens = stats.prefilled_tokens + stats.restored_tokens
    yield "seconds", seconds
    yield "cpu_seconds", cpu_seconds
    yield "sampled_tokens_per_s", stats.sampled_tokens / seconds
    yield "sampled_tokens_per_decode_s", stats.sampled_tokens / max(stats.decode_seconds, 1e-9)
    yield "prompt_tokens_per_s", prompt_tokens / max(stats.prefill_seconds, 1e-9)
    yield "cache_hit_fraction", stats.cache_hit_fraction
    yield "stats", asdict(stats)
    yield "mean_abs_logprob_difference", logprob_difference(pair.module, sessions[0][-1])


@torch.inference_mode()
def logprob_difference(module: PreTrainedModel, sample: Sample) -> float:
    """Mean |Δ| between a sample's log-probs and a one-shot forward of the module."""
    fed = torch.tensor([[*sample.prompt_ids, *sample.token_ids[:-1]]])
    logits = module(fed).logits[0, len(sample.prompt_ids) - 1 :].float()
    expected = torch.log_softmax(logits, -1).gather(-1, torch.tensor(sample.token_ids)[:, None])[:, 0]
    return float((expected - torch.from_numpy(sample.logprobs)).abs().mean())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Speed and numerics of the embedded engine")
    parser.add_argument("--policy", type=Path)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--concurrent", type=int, default=8)
    parser.add_argument("--context", type=int, default=2048)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    dtype = getattr(torch, arguments.dtype)
    setting = Setting(dtype, arguments.threads, arguments.concurrent, arguments.context)
    if arguments.policy is None:
        kind: Any = Qwen3MoeForCausalLM
        module: PreTrainedModel = kind(Qwen3MoeConfig(**DEMO_SIZE)).eval().to(dtype)
    else:
        module = load_policy(arguments.policy, dtype)
    pair = Pair(module, setting)
    result = {
        "parameters": sum(weight.numel() for weight in module.parameters()),
        "setting": {**asdict(setting), "dtype": arguments.dtype},
        "forward": compare_forwards(pair),
        "traffic": dict(measure_traffic(pair)),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
