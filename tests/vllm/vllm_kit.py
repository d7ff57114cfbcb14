"""Tiny policies, real vLLM servers of them, and what the trainer makes of their samples."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedModel,
    Qwen3_5MoeConfig,
    Qwen3_5MoeForConditionalGeneration,
    Qwen3_5MoeTextConfig,
)

from lego_rl.commands.serve import planned
from lego_rl.engine.embedded.policy import save_policy
from lego_rl.engine.protocol import Engine, Sample, Sampling
from lego_rl.engine.vllm.launch import WORKER, Dtype, Placement
from lego_rl.gateway.trajectory import Segment
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.train.batch import MicroBatch, Row, TrainingTrial
from lego_rl.train.fidelity import ComparedTokens, FidelityReport, measure
from lego_rl.train.forward import logprobs
from lego_rl.train.loop import as_graded

ENVIRONMENT = Path(__file__).parents[2] / ".venv-vllm"
VISION = [ENVIRONMENT / "vision", Path(__file__).with_name("vision_on_cpu")]
"""What a server of Qwen3.5 imports beside vLLM."""
DEMO = Path(str(files("lego_rl.policies") / "demo"))
CONTEXT = 8192
_START_SECONDS = 240


@dataclass(frozen=True)
class Server:
    """A vLLM server, and the folder whose policy it was started with."""

    url: str
    policy: Path
    dtype: Dtype


def random_policy(target: Path) -> Path:
    """The demo policy's shape and tokenizer with random weights, spread so that no answer is near certain."""
    config = AutoConfig.from_pretrained(DEMO)
    config.initializer_range = 0.08
    torch.manual_seed(0)
    module = AutoModelForCausalLM.from_config(config)
    save_policy(module.state_dict(), module.config, target, dtype=torch.float32, companions=DEMO)
    return target


def random_hybrid_policy(target: Path) -> Path:
    """A Qwen3.5-MoE of the demo policy's vocabulary: three layers of linear attention and one of full attention."""
    config = Qwen3_5MoeTextConfig(**_hybrid())
    torch.manual_seed(0)
    module = AutoModelForCausalLM.from_config(config)
    save_policy(module.state_dict(), module.config, target, dtype=torch.float32, companions=DEMO)
    return target


def random_hybrid_with_tower(target: Path) -> Qwen3_5MoeForConditionalGeneration:
    """The same with a vision tower, as Qwen3.5 is published: experts of a layer in one tensor. Its module."""
    text = _hybrid() | {
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "partial_rotary_factor": 0.25,
            "mrope_section": [3, 3, 2],
            "mrope_interleaved": True,
        }
    }
    vision = {"depth": 1, "hidden_size": 64, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 128}
    config = Qwen3_5MoeConfig(
        text_config=text,
        vision_config=vision,
        tie_word_embeddings=False,
        initializer_range=0.08,
        pad_token_id=text["pad_token_id"],
    )
    torch.manual_seed(0)
    module = Qwen3_5MoeForConditionalGeneration._from_config(config, attn_implementation="sdpa").eval()
    module.save_pretrained(target)
    save_file(module.state_dict(), target / "model.safetensors", metadata={"format": "pt"})
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy2(DEMO / name, target / name)
    return module


def _hybrid() -> dict[str, Any]:
    """Sizes that vLLM's kernels for CPUs take."""
    demo = AutoConfig.from_pretrained(DEMO)
    return {
        "vocab_size": demo.vocab_size,
        "hidden_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "linear_key_head_dim": 128,  # vLLM's CPU kernels take no smaller ones
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 1,
        "linear_num_value_heads": 2,
        "moe_intermediate_size": 64,
        "shared_expert_intermediate_size": 64,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "max_position_embeddings": CONTEXT,
        "initializer_range": 0.08,
        "bos_token_id": None,
        "eos_token_id": demo.eos_token_id,
        "pad_token_id": demo.pad_token_id,
    }


@contextmanager
def serving(
    policy: Path, dtype: Dtype, log: Path, *, paths: Sequence[Path] = (), further: tuple[str, ...] = ()
) -> Iterator[Server]:
    """A server started as ``lego-rl serve policy`` starts it, with further folders to import from, and flags."""
    if not ENVIRONMENT.exists():
        raise AssertionError("there is no .venv-vllm; run: make setup-vllm")
    place = Placement(
        environment=ENVIRONMENT,
        platform="cpu",
        dtype=dtype,
        port=_free_port(),
        context=CONTEXT,
        max_running=8,
        cache_gib=1,
        further=further,
    )
    started = planned(str(policy), place, None)
    with log.open("w") as file:
        process = subprocess.Popen(
            started.arguments,
            env={**os.environ, **started.variables, "PYTHONPATH": os.pathsep.join(map(str, [WORKER, *paths]))},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{place.port}"
            _wait(url, process, log)
            yield Server(url, policy, dtype)
        finally:
            _end(process)


def _free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _wait(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()[-4000:]
        try:
            with opener.open(f"{url}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"no server within {_START_SECONDS} s: {log.read_text()[-4000:]}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def sample(engine: Engine, prompts: Sequence[Sequence[int]], tokens: int) -> list[Sample]:
    """One answer to every prompt, all at once."""
    sampling = Sampling(1.0, tokens, ())

    async def together() -> list[Sample]:
        return await asyncio.gather(*(engine.generate(prompt, sampling) for prompt in prompts))

    return asyncio.run(together())


def alternating(records: Sequence[TrialRecord], step: int) -> list[TrainingTrial]:
    """Rewards that a random policy would not earn, so that every step changes the weights."""
    trials = as_graded(records, step)
    return [
        TrainingTrial(each.trial_id, each.group_id, 1 if number % 2 else 0, each.segments)
        for number, each in enumerate(trials)
    ]


def random_prompts(count: int, length: int, vocabulary: int) -> list[list[int]]:
    """Ids drawn at random, the same in every run."""
    random = np.random.default_rng(0)
    return [random.integers(0, vocabulary, length + 16 * number).tolist() for number in range(count)]


def compared(
    module: PreTrainedModel, samples: Sequence[Sample], routing: Literal["replay", "own"], version: int = 0
) -> FidelityReport:
    """What the fidelity gate measures of some samples."""
    parts = []
    for one in samples:
        batch = MicroBatch.of([Row("trial", 0, segment(one), 1.0, 1.0)], routing=routing, device=torch.device("cpu"))
        with torch.no_grad():
            trainer_BT = logprobs(module, batch, 1.0).logp_BT
        engine_N, trainer_N = (each[batch.mask_BT].double().numpy() for each in (batch.behaviour_logp_BT, trainer_BT))
        parts.append(ComparedTokens(engine_N, trainer_N, np.full(len(engine_N), version)))
    return measure(ComparedTokens.joined(parts), version)


def segment(one: Sample) -> Segment:
    """The training sequence of a single call."""
    prompt, count = len(one.prompt_ids), len(one.token_ids)
    trained = np.arange(prompt + count) >= prompt
    positions = np.where(trained, np.arange(prompt + count) - prompt, -1)
    versions = np.full(prompt + count, -1, np.int32)
    for span in one.weight_versions:
        versions[prompt + span.start : prompt + span.end] = span.version
    assert one.routes is not None
    return Segment(
        token_ids=np.array([*one.prompt_ids, *one.token_ids], np.int32),
        loss_mask=trained.astype(np.uint8),
        logprobs=np.concatenate([np.zeros(prompt, np.float32), one.logprobs]),
        versions=versions,
        call_ids=np.where(trained, 0, -1).astype(np.int32),
        call_positions=positions.astype(np.int32),
        calls=(one.call_id,),
        routes=one.routes,
        routes_recorded=len(one.routes),
    )


def said(title: str, report: FidelityReport) -> None:
    """Print figures, which are the evidence of this suite."""
    print(
        f"\n{title}: {report.tokens} tokens · Pearson of log-probs {report.pearson_logprobs:.10f} · "
        f"of probabilities {report.pearson_probs:.10f} · mean |Δ| {report.mean_abs:.3g} · max |Δ| {report.max_abs:.3g}"
    )
