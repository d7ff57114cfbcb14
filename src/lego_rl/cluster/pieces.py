"""What one uninterrupted call of an inference server returns, and who asks for it.

Invariant: a piece was sampled under one weight version from its first token to its last: a server aborts what runs
before it takes new weights, and says under which version it answered.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

type SamplingParams = Mapping[str, float | int | bool | list[int]]
"""As verl's servers take them; ``max_tokens`` and ``stop_token_ids`` among them."""


class Piece(Protocol):
    """What a call returned; verl's ``TokenOutput`` is one.

    Attributes:
        token_ids: ``[T]`` sampled ids, a stop token included; none where the call was aborted at once.
        log_probs: ``[T]`` natural log, of the distribution sampled from; may be ``None`` where nothing was sampled.
        routed_experts: ``[P + T - 1, layers, top_k]`` experts of every token that was fed, or ``None``.
        stop_reason: ``aborted`` where the server took other weights; ``completed`` otherwise, whether a stop token or
            the limit ended it.
        extra_fields: ``global_steps`` is the weight version.
    """

    token_ids: Sequence[int]
    log_probs: Sequence[float] | None
    routed_experts: NDArray[np.integer[Any]] | None
    stop_reason: str | None
    extra_fields: Mapping[str, Any]


class PieceServer(Protocol):
    """Asks one of the inference servers."""

    async def piece(self, session: str, prompt_ids: list[int], params: SamplingParams) -> Piece:
        """Sample until a stop token, the limit or an abort. Cancelling the awaiting task aborts the call.

        Args:
            session: Calls of the same name go to the same server, which holds what they have in common.
            prompt_ids: ``[P]``.
            params: How to sample.

        Raises:
            EngineError: No server answers.
        """
        ...

    async def alive(self) -> None:
        """Return once any server has shown that its engine takes steps; never while all of them hang.

        Raises:
            EngineError: None can be reached.
        """
        ...
