"""Keys, values and routes of one sequence.

Invariant: positions ``[0, length)`` hold what the policy computed for the sequence's tokens; the rest is garbage. A
position's routes stand beside its keys and values, so whoever reuses the one has the other.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lego_rl.engine.embedded.geometry import Geometry

_GROWTH = 1.5


class KvBuffer:
    """The attention state of one sequence, which grows as it decodes.

    Attributes:
        length: Positions that are computed.
        storage: ``[layers, 2 kv_heads, capacity, head_dim]``: the key heads, then the value heads.
        routes: ``[capacity, routed_layers, top_k]`` uint8.
    """

    def __init__(self, geometry: Geometry, dtype: torch.dtype, device: torch.device, capacity: int) -> None:
        self._geometry = geometry
        self.length = 0
        self.storage = self._allocate(dtype, device, capacity)
        self.routes: NDArray[np.uint8] = np.empty((capacity, geometry.routed_layers, geometry.top_k), np.uint8)

    def _allocate(self, dtype: torch.dtype, device: torch.device, capacity: int) -> Tensor:
        g = self._geometry
        return torch.empty((g.layers, 2 * g.kv_heads, capacity, g.head_dim), dtype=dtype, device=device)

    def reserve(self, length: int) -> None:
        """Make room for `length` positions in all, keeping what is computed."""
        capacity = self.storage.shape[2]
        if length <= capacity:
            return
        capacity = max(length, min(int(capacity * _GROWTH), self._geometry.context))
        storage = self._allocate(self.storage.dtype, self.storage.device, capacity)
        storage[:, :, : self.length] = self.storage[:, :, : self.length]
        routes = np.empty((capacity, *self.routes.shape[1:]), np.uint8)
        routes[: self.length] = self.routes[: self.length]
        self.storage, self.routes = storage, routes
