"""Laws of the block pool: a hit is exactly what was stored, prefixes only, and space is bounded."""

import numpy as np
import torch
from engine_kit import CPU, Reference, tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_rl.engine.embedded.kv import KvBuffer
from lego_rl.engine.embedded.prefix_cache import BLOCK_TOKENS, BlockKeys, PrefixCache


def state_of(reference: Reference, token_ids: tuple[int, ...]) -> KvBuffer:
    """A made-up state in which every position depends on all tokens up to it."""
    kv = KvBuffer(reference.geometry, torch.float32, CPU, len(token_ids) + 3)
    sums = np.cumsum(np.array(token_ids) * (np.arange(len(token_ids)) + 1))
    kv.storage[:, :, : len(token_ids)] = torch.tensor(sums, dtype=torch.float32)[None, None, :, None]
    kv.routes[: len(token_ids)] = (sums % 4).astype(np.uint8)[:, None, None]
    kv.length = len(token_ids)
    return kv


def restore(reference: Reference, cache: PrefixCache, token_ids: tuple[int, ...], serial: int = 0) -> KvBuffer:
    kv = KvBuffer(reference.geometry, torch.float32, CPU, 1)
    assert cache.restore(BlockKeys(serial).of(token_ids), kv) == kv.length
    return kv


def pool(reference: Reference, blocks: int) -> PrefixCache:
    return PrefixCache(reference.geometry, torch.float32, CPU, blocks * BLOCK_TOKENS)


@settings(max_examples=60)
@given(
    sequences=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 200)), min_size=1, max_size=12),
    blocks=st.integers(0, 12),
)
def test_a_hit_is_what_was_stored(moe: Reference, sequences: list[tuple[int, int]], blocks: int) -> None:
    """Families share their first 64 tokens, so that chains branch; the pool is often too small for all."""
    cache = pool(moe, blocks)
    for family, length in sequences:
        ids = (*tokens(64), *tokens(136, family + 1))[:length]
        found = restore(moe, cache, ids)
        own = state_of(moe, ids)
        assert found.length % BLOCK_TOKENS == 0
        torch.testing.assert_close(found.storage[:, :, : found.length], own.storage[:, :, : found.length])
        np.testing.assert_array_equal(found.routes[: found.length], own.routes[: found.length])
        cache.store(BlockKeys(0).of(ids), own)
        assert len(cache) <= blocks
        stored = restore(moe, cache, ids)
        assert stored.length == min(length // BLOCK_TOKENS, blocks) * BLOCK_TOKENS


def test_no_key_is_shared_over_weights(moe: Reference) -> None:
    cache, ids = pool(moe, 8), tokens(100)
    cache.store(BlockKeys(0).of(ids), state_of(moe, ids))
    assert restore(moe, cache, ids).length == 96
    assert restore(moe, cache, ids, serial=1).length == 0
    cache.clear()
    assert restore(moe, cache, ids).length == 0


def test_the_least_recently_used_chain_loses_its_end_first(moe: Reference) -> None:
    cache, old, new = pool(moe, 4), tokens(96, seed=1), tokens(64, seed=2)
    cache.store(BlockKeys(0).of(old), state_of(moe, old))
    cache.store(BlockKeys(0).of(new), state_of(moe, new))
    assert restore(moe, cache, old).length == 64
    assert restore(moe, cache, new).length == 64


def test_a_common_block_in_another_place_is_no_hit(moe: Reference) -> None:
    cache, ids = pool(moe, 8), tokens(64)
    cache.store(BlockKeys(0).of(ids), state_of(moe, ids))
    assert restore(moe, cache, (*tokens(32, seed=3), *ids)).length == 0


def test_keys_do_not_depend_on_how_a_sequence_grew() -> None:
    ids = tokens(200)
    grown = BlockKeys(0)
    for length in (10, 70, 64, 200):
        assert list(grown.of(ids[:length])) == list(BlockKeys(0).of(ids))[: length // BLOCK_TOKENS]
