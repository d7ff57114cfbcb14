"""An engine that costs nothing: every answer is ready before the benchmark begins."""

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lego_rl.engine.protocol import Sample, Sampling, WeightSpan


class Routes:
    """Expert routes for any position, drawn in advance: experts of a layer are chosen unevenly, as routers do.

    Args:
        positions: Rows held; later positions begin again at the first.
        layers: Routed layers.
        top_k: Experts of a token.
        experts: To choose from, at most 256.
    """

    def __init__(self, positions: int, *, layers: int = 40, top_k: int = 8, experts: int = 256) -> None:
        generator = np.random.default_rng(0)
        rows = min(positions, 4096)
        favour = generator.gumbel(size=(1, layers, experts)).astype(np.float32)
        drawn = np.empty((rows, layers, top_k), np.uint8)
        for row in range(rows):
            score = favour + generator.gumbel(size=(1, layers, experts)).astype(np.float32)
            drawn[row] = np.argpartition(-score, top_k, axis=-1)[0, :, :top_k]
        # A position's row is a drawn one with its layers turned, so that rows far apart are not equal.
        turned = [np.roll(drawn, turn, axis=1) for turn in range(-(-positions // rows))]
        self.rows: NDArray[np.uint8] = np.concatenate(turned)[:positions]
        """``[positions, layers, top_k]``"""


class ReadyEngine:
    """Implements `Engine` for one session that asks for one answer after the other.

    Args:
        name: First part of call ids.
        replies: What it says, in turn: ``[T]`` int32 each.
        routes: What it routes by; ``None`` for a dense policy.

    Attributes:
        name: As given.
        marks: CPU seconds of this process when each call arrived.
    """

    weight_version = 1

    def __init__(self, name: str, replies: Sequence[NDArray[np.int32]], routes: Routes | None = None) -> None:
        generator = np.random.default_rng(1)
        self.name = name
        self._routes = routes
        self._replies = [tuple(ids.tolist()) for ids in replies]
        # Log-probs of a policy: most tokens are nearly certain, some are not, and no two are alike in all bits.
        self._logprobs = [
            -generator.exponential(0.6, len(ids)).astype(np.float32)
            * generator.choice([1.0, 1e-2, 1e-4], len(ids)).astype(np.float32)
            for ids in replies
        ]
        self.marks: list[float] = []

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        """The next answer, whatever the prompt; see `Engine.generate`."""
        number = len(self.marks)
        self.marks.append(time.process_time())
        token_ids = self._replies[number]
        fed = len(prompt_ids) + len(token_ids) - 1
        return Sample(
            call_id=f"{self.name}-{number}",
            prompt_ids=prompt_ids,
            token_ids=token_ids,
            logprobs=self._logprobs[number],
            finish_reason="stop",
            weight_versions=(WeightSpan(self.weight_version, 0, len(token_ids)),),
            routes=None if self._routes is None else self._routes.rows[routes_from:fed].copy(),
            routes_from=routes_from,
        )

    async def progressed(self) -> None:
        """Return at once: what it says is ready."""
