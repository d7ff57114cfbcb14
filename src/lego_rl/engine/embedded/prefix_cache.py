"""A pool of key-value blocks that all sequences share.

Invariant: a block is found only by a key that digests the weights' serial and every token from the start of the
sequence to the block's end. So nothing is shared over two sets of weights, and a hit is what recomputing would give.

A prefix is shared in whole blocks; routes stand beside keys and values. Space is fixed when the pool is made, and the
least recently used block goes first: a touch renews a chain from its end to its start, so a block never outlives the
blocks it continues.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lego_rl.engine.embedded.geometry import Geometry
from lego_rl.engine.embedded.kv import KvBuffer
from lego_rl.errors import ConfigError

BLOCK_TOKENS = 32
"""Tokens a block holds. Small, so that little is recomputed at a prefix's end; copies are by list of blocks anyway."""


class BlockKeys:
    """The keys of a sequence's full blocks, computed once as the sequence grows."""

    def __init__(self, serial: int) -> None:
        self._last = hashlib.blake2b(str(serial).encode(), digest_size=16).digest()
        self._keys: list[bytes] = []

    def of(self, token_ids: Sequence[int]) -> Sequence[bytes]:
        """Keys of all full blocks of `token_ids`, which extends what was asked for before.

        Args:
            token_ids: ``[n]`` the sequence from its first token.
        """
        for start in range(len(self._keys) * BLOCK_TOKENS, len(token_ids) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
            block = np.asarray(token_ids[start : start + BLOCK_TOKENS], np.int32)
            self._last = hashlib.blake2b(block, key=self._last, digest_size=16).digest()
            self._keys.append(self._last)
        return self._keys[: len(token_ids) // BLOCK_TOKENS]


class PrefixCache:
    """Blocks of ``[layers, 2 kv_heads, BLOCK_TOKENS, head_dim]`` and their routes, least recently used first.

    Args:
        geometry: Shape of the policy.
        dtype: Of keys and values.
        device: Of keys and values; routes stay in the host's memory.
        tokens: Space, in tokens; 0 shares nothing.

    Raises:
        ConfigError: There is no memory for it.
    """

    def __init__(self, geometry: Geometry, dtype: torch.dtype, device: torch.device, tokens: int) -> None:
        g = geometry
        count = tokens // BLOCK_TOKENS
        shape = (count, g.layers, 2 * g.kv_heads, BLOCK_TOKENS, g.head_dim)
        try:
            self._blocks = torch.empty(shape, dtype=dtype, device=device)
            self._routes: NDArray[np.uint8] = np.empty((count, BLOCK_TOKENS, g.routed_layers, g.top_k), np.uint8)
        except (RuntimeError, MemoryError, ValueError, TypeError) as error:  # what torch and numpy raise for a size
            raise ConfigError(
                f"there is no memory for a prefix cache of {tokens} tokens", "lower engine.cache_tokens"
            ) from error
        self._free = list(range(count))
        self._index: OrderedDict[bytes, int] = OrderedDict()

    def __len__(self) -> int:
        """Blocks held."""
        return len(self._index)

    def restore(self, keys: Sequence[bytes], kv: KvBuffer) -> int:
        """Append to `kv` the blocks that continue it.

        Args:
            keys: Keys of the sequence's full blocks from its start, as far as they may be restored.
            kv: A state whose length is a multiple of the block size.

        Returns:
            Tokens restored.
        """
        first = kv.length // BLOCK_TOKENS
        found: list[int] = []
        for key in keys[first:]:
            place = self._index.get(key)
            if place is None:
                break
            found.append(place)
        if not found:
            return 0
        start, count = kv.length, len(found) * BLOCK_TOKENS
        kv.reserve(start + count)
        blocks = self._blocks[found].permute(1, 2, 0, 3, 4)
        _in_blocks(kv.storage[:, :, start : start + count]).copy_(blocks)
        kv.routes[start : start + count] = self._routes[found].reshape(count, *kv.routes.shape[1:])
        kv.length = start + count
        self._touch(keys[: first + len(found)])
        return count

    def store(self, keys: Sequence[bytes], kv: KvBuffer) -> None:
        """Keep the blocks of `kv` that are not held yet.

        Args:
            keys: Keys of the sequence's full blocks from its start; `kv` is computed at least that far.
            kv: The state to copy from.
        """
        keys = keys[: len(self._blocks)]
        missing = [number for number, key in enumerate(keys) if key not in self._index]
        if not missing:
            return
        self._touch(keys)
        places = [self._take() for _ in missing]
        used = len(keys) * BLOCK_TOKENS
        blocks = _in_blocks(kv.storage[:, :, :used])[:, :, missing]
        self._blocks[places] = blocks.permute(2, 0, 1, 3, 4)
        routes = kv.routes[:used].reshape(len(keys), *self._routes.shape[1:])
        self._routes[places] = routes[missing]
        for number, place in zip(missing, places, strict=True):
            self._index[keys[number]] = place
        self._touch(keys)

    def clear(self) -> None:
        """Forget everything: the weights have changed."""
        self._free.extend(self._index.values())
        self._index.clear()

    def _take(self) -> int:
        if self._free:
            return self._free.pop()
        return self._index.popitem(last=False)[1]

    def _touch(self, keys: Sequence[bytes]) -> None:
        for key in reversed(keys):
            if key in self._index:
                self._index.move_to_end(key)


def _in_blocks(state: Tensor) -> Tensor:
    """View ``[layers, 2 kv_heads, n, head_dim]`` as ``[layers, 2 kv_heads, blocks, BLOCK_TOKENS, head_dim]``."""
    layers, heads, count, head_dim = state.shape
    return state.view(layers, heads, count // BLOCK_TOKENS, BLOCK_TOKENS, head_dim)
