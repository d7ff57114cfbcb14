"""How each call of a session is sampled: the session's own choice, whatever a request asks for."""

import hashlib
from collections import Counter
from collections.abc import Sequence

from lego_rl.engine.protocol import Sampling
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call import Call


class SessionSampling:
    """Sampling of the calls of one session.

    Args:
        budget: What the session may spend.
        temperature: Of every call.
        stop_token_ids: At which a turn ends.
        seed: Makes the session's sampling reproducible; ``None`` leaves it to the engine.
    """

    def __init__(
        self, budget: Budget, *, temperature: float, stop_token_ids: Sequence[int], seed: int | None = None
    ) -> None:
        self._budget = budget
        self._temperature = temperature
        self._stop_token_ids = tuple(stop_token_ids)
        self._seed = seed
        self._asked: Counter[bytes] = Counter()

    def of(self, call: Call) -> Sampling:
        """How a call is sampled."""
        return Sampling(
            temperature=self._temperature,
            max_tokens=min(self._budget.output_tokens, self._budget.context_tokens - call.prompt_length),
            stop_token_ids=self._stop_token_ids,
            seed=None if self._seed is None else self._call_seed(self._seed, call.prompt_digest),
        )

    def _call_seed(self, seed: int, prompt: bytes) -> int:
        """Depends on the prompt and how often it was asked, not on the order in which concurrent calls arrive."""
        self._asked[prompt] += 1
        key = f"{seed} {self._asked[prompt]} ".encode() + prompt
        return int.from_bytes(hashlib.blake2b(key, digest_size=7).digest())
