"""A tiny Qwen3-MoE, and an engine in the plainest form: sample token by token with `transformers` and write down
log-probs and experts. What the trainer is tested with comes from here."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from lego_rl.gateway.trajectory import Segment
from lego_rl.train.batch import TrainingTrial
from lego_rl.train.card import PolicyCard
from lego_rl.train.fidelity import EngineClaim
from lego_rl.train.replay import routers

CARD = PolicyCard("gspo", "tiny", "claude-code", "as_sent")
VOCAB, LAYERS, EXPERTS, TOP_K = 64, 2, 4, 2


def moe(seed: int = 0, *, spread: float = 0.25, experts: str = "grouped_mm", **changes: Any) -> Qwen3MoeForCausalLM:
    """A random policy whose distributions are far from flat (`spread` is the deviation of its weights)."""
    config = Qwen3MoeConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=32,
        moe_intermediate_size=16,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        num_experts=EXPERTS,
        num_experts_per_tok=TOP_K,
        norm_topk_prob=True,
        tie_word_embeddings=False,
        max_position_embeddings=512,
        initializer_range=spread,
        **changes,
    )
    torch.manual_seed(seed)
    return Qwen3MoeForCausalLM._from_config(config, attn_implementation="sdpa", experts_implementation=experts).eval()


@contextmanager
def recording(policy: Qwen3MoeForCausalLM) -> Iterator[Callable[[], Tensor]]:
    """Collect the experts of every position that the policy computes; the callable gives ``[N, layers, top_k]``."""
    chosen: list[list[Tensor]] = [[] for _ in routers(policy)]
    with ExitStack() as hooks:
        for rows, gate in zip(chosen, routers(policy), strict=True):
            hooks.enter_context(gate.register_forward_hook(lambda _m, _a, out, rows=rows: rows.append(out[2])))
        yield lambda: torch.stack([torch.cat(rows) for rows in chosen], 1)


@torch.no_grad()
def sample(
    policy: Qwen3MoeForCausalLM,
    context: Sequence[int],
    count: int,
    generator: torch.Generator,
    temperature: float = 1.0,
) -> tuple[list[int], list[float]]:
    """`count` sampled tokens and their log-probs, each from a forward pass over everything before it."""
    ids, logps = list(context), []
    for _ in range(count):
        logits = policy(input_ids=torch.tensor([ids])).logits[0, -1].float() / temperature
        logp = logits.log_softmax(-1)
        token = int(torch.multinomial(logp.exp(), 1, generator=generator))
        ids.append(token)
        logps.append(float(logp[token]))
    return ids[len(context) :], logps


@torch.no_grad()
def routes_of(policy: Qwen3MoeForCausalLM, ids: Sequence[int]) -> np.ndarray:
    """Experts of all positions but the last, as an engine records them."""
    with recording(policy) as chosen:
        policy(input_ids=torch.tensor([list(ids[:-1])]))
    return chosen().to(torch.uint8).numpy()


def segment(
    ids: Sequence[int],
    mask: Sequence[int],
    logps: Sequence[float] | None = None,
    routes: np.ndarray | None = None,
    *,
    version: int = 0,
    call: str = "call",
    recorded: int | None = None,
) -> Segment:
    """A segment; every run of mask 1 is one engine call."""
    sampled = np.asarray(mask, bool)
    starts = sampled & ~np.concatenate([[False], sampled[:-1]])
    calls = np.cumsum(starts) - 1
    first = np.maximum.accumulate(np.where(starts, np.arange(len(ids)), 0))
    values = np.zeros(len(ids)) if logps is None else np.asarray(logps)
    return Segment(
        token_ids=np.asarray(ids, np.int32),
        loss_mask=sampled.astype(np.uint8),
        logprobs=np.where(sampled, values, 0.0).astype(np.float32),
        versions=np.where(sampled, version, -1).astype(np.int32),
        call_ids=np.where(sampled, calls, -1).astype(np.int32),
        call_positions=np.where(sampled, np.arange(len(ids)) - first, -1).astype(np.int32),
        calls=tuple(f"{call}/{i}" for i in range(int(starts.sum()))),
        routes=routes,
        routes_recorded=(0 if routes is None else len(routes)) if recorded is None else recorded,
    )


def rollout(
    policy: Qwen3MoeForCausalLM,
    prompt: Sequence[int],
    seed: int,
    *,
    calls: int = 2,
    tokens: int = 6,
    temperature: float = 1.0,
    version: int = 0,
) -> Segment:
    """A conversation: prompt, then `calls` times sampled tokens and, between them, three tokens from a tool."""
    generator = torch.Generator().manual_seed(seed)
    ids, mask, logps = list(prompt), [0] * len(prompt), [0.0] * len(prompt)
    for number in range(calls):
        if number:
            tool = torch.randint(0, VOCAB, (3,), generator=generator).tolist()
            ids, mask, logps = ids + tool, mask + [0] * 3, logps + [0.0] * 3
        count = tokens + int(torch.randint(0, 4, (1,), generator=generator))
        sampled, logp = sample(policy, ids, count, generator, temperature)
        ids, mask, logps = ids + sampled, mask + [1] * count, logps + logp
    return segment(ids, mask, logps, routes_of(policy, ids), version=version, call=f"call-{seed}")


def prompts(count: int, shared: int = 24, own: int = 4, seed: int = 7) -> list[list[int]]:
    """Prompts that begin alike, as those of one harness do."""
    generator = torch.Generator().manual_seed(seed)
    head = torch.randint(0, VOCAB, (shared,), generator=generator).tolist()
    return [head + torch.randint(0, VOCAB, (own,), generator=generator).tolist() for _ in range(count)]


def trials(
    policy: Qwen3MoeForCausalLM, groups: int = 2, size: int = 4, *, temperature: float = 1.0, version: int = 0
) -> list[TrainingTrial]:
    """A step's trials; each group has both verdicts."""
    made = []
    for g, prompt in enumerate(prompts(groups)):
        for n in range(size):
            reward: Literal[0, 1] = 1 if n % 2 else 0
            one = rollout(policy, prompt, 100 * g + n, temperature=temperature, version=version)
            made.append(TrainingTrial(f"t{g}-{n}", f"g{g}", reward, (one,)))
    return made


def honest(version: int = 0) -> EngineClaim:
    """The claim of an engine that holds the trainer's weights."""
    return EngineClaim(version, digest="same", expected_digest="same", previous_digest="older")


def policy_directory(path: Path, seed: int = 0) -> Path:
    """`moe(seed)` on disk, with a tokenizer of its vocabulary."""
    moe(seed).save_pretrained(path)
    Tokenizer(WordLevel({str(i): i for i in range(VOCAB)}, "0")).save(str(path / "tokenizer.json"))
    (path / "chat_template.jinja").write_text("{{ messages }}")
    return path
