"""The lean forward equals transformers' own, however the tokens are cut and whoever is beside them."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from engine_kit import CPU, Reference, tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_rl.engine.embedded.forward import Rotary, Span, forward
from lego_rl.engine.embedded.kv import KvBuffer
from lego_rl.errors import ConfigError


def feed(
    reference: Reference, chunks: Sequence[Sequence[int]], dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, KvBuffer]:
    """Logits after each chunk of one sequence, and its state."""
    geometry = reference.geometry
    rotary, kv = Rotary(geometry, dtype, CPU), KvBuffer(geometry, dtype, CPU, 8)
    weights = reference.weights(dtype)
    with torch.inference_mode():
        logits = [forward(weights, rotary, [Span(chunk, kv, wants_logits=True)]) for chunk in chunks]
    return torch.cat(logits), kv


def assert_same(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [1, 2, 24, 25, 200])
def test_prefill_equals_transformers(moe: Reference, length: int) -> None:
    """Both ways to evaluate the experts: all of them for few tokens, sorted tokens for many."""
    ids = list(tokens(length))
    logits, kv = feed(moe, [ids])
    assert_same(logits[0], moe.logits(ids)[-1])
    np.testing.assert_array_equal(kv.routes[:length], moe.routes(ids))


def test_dense_policy_equals_transformers(dense: Reference) -> None:
    ids = list(tokens(50))
    logits, kv = feed(dense, [ids[:30], *([one] for one in ids[30:])])
    assert_same(logits, dense.logits(ids)[29:])
    assert kv.routes.shape[1:] == (0, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"mlp_only_layers": [0], "num_hidden_layers": 3},
        {"decoder_sparse_step": 2, "num_hidden_layers": 3},
        {"norm_topk_prob": False},
        {"tie_word_embeddings": False},
        {"num_experts_per_tok": 1},
        {"num_key_value_heads": 4},
        {"head_dim": 32, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_every_variant_equals_transformers(build_moe: Callable[..., Reference], changes: dict[str, object]) -> None:
    reference = build_moe(**changes)
    ids = list(tokens(90))
    logits, kv = feed(reference, [ids[:70], ids[70:89], ids[89:]])
    assert_same(logits, reference.logits(ids)[[69, 88, 89]])
    np.testing.assert_array_equal(kv.routes[:90], reference.routes(ids))


@settings(max_examples=25)
@given(cuts=st.lists(st.integers(1, 119), max_size=6, unique=True).map(sorted))
def test_chunks_do_not_matter(moe: Reference, cuts: list[int]) -> None:
    ids = list(tokens(120, seed=5))
    edges = [0, *cuts, 120]
    logits, kv = feed(moe, [ids[start:end] for start, end in itertools.pairwise(edges)])
    assert_same(logits, moe.logits(ids)[[end - 1 for end in edges[1:]]])
    np.testing.assert_array_equal(kv.routes[:120], moe.routes(ids))


@settings(max_examples=25)
@given(spans=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), min_size=1, max_size=6))
def test_ragged_batch_equals_one_by_one(moe: Reference, spans: list[tuple[int, int]]) -> None:
    """Sequences of different lengths, some decoding and some in prefill, in one forward."""
    geometry, weights = moe.geometry, moe.weights()
    rotary = Rotary(geometry, torch.float32, CPU)
    sequences = [list(tokens(before + fed, seed)) for seed, (before, fed) in enumerate(spans)]
    states = [KvBuffer(geometry, torch.float32, CPU, 4) for _ in spans]
    with torch.inference_mode():
        for ids, (before, _), kv in zip(sequences, spans, states, strict=True):
            if before:
                forward(weights, rotary, [Span(ids[:before], kv, wants_logits=False)])
        batch = [
            Span(ids[before:], kv, wants_logits=True)
            for ids, (before, _), kv in zip(sequences, spans, states, strict=True)
        ]
        logits = forward(weights, rotary, batch)
    for row, (ids, kv) in enumerate(zip(sequences, states, strict=True)):
        assert_same(logits[row], moe.logits(ids)[-1])
        np.testing.assert_array_equal(kv.routes[: kv.length], moe.routes(ids))


@pytest.mark.parametrize("length", [40, 300])
def test_bfloat16_is_close(moe: Reference, length: int) -> None:
    """Bfloat16 keeps 8 bits: log-probs agree to a few hundredths where the routes do."""
    ids = list(tokens(length))
    logits, _ = feed(moe, [ids[:-1], ids[-1:]], torch.bfloat16)
    expected = moe.logits(ids)[-2:]
    correlation = np.corrcoef(torch.log_softmax(logits, -1).flatten(), torch.log_softmax(expected, -1).flatten())
    assert correlation[0, 1] > 0.99


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"attention_bias": True}, "attention_bias"),
        ({"use_sliding_window": True, "sliding_window": 64}, "use_sliding_window"),
        ({"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}}, "rope_type"),
        ({"num_experts": 257}, "257 experts"),
    ],
)
def test_other_maths_is_refused(build_moe: Callable[..., Reference], changes: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        _ = build_moe(**changes).geometry
