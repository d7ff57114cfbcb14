"""The embedded engine: a Qwen3 or Qwen3-MoE policy sampled in this process, on the CPU or one GPU.

Invariants, beyond those of `Engine`:

- Routes are what the router chose, for every position, whoever computed it: cached positions keep theirs.
- `load_weights` takes effect between two steps. Calls that are decoding go on under the new weights with the state they
  have (partial rollout) and say so in `Sample.weight_versions`; prompts still in prefill start again; no cached block
  survives.
- A seed fixes a call's tokens whatever else runs, as far as floating point allows (see `drawing`).

The thread of the engine and the event loop share the interpreter's lock: what keeps the loop busy slows sampling.
"""

import asyncio
import itertools
import math
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor

from lego_rl.engine.embedded.call import Call
from lego_rl.engine.embedded.drawing import Uniforms
from lego_rl.engine.embedded.geometry import Geometry
from lego_rl.engine.embedded.policy import load_policy, usable_device
from lego_rl.engine.embedded.prefix_cache import BLOCK_TOKENS
from lego_rl.engine.embedded.stats import EngineStats
from lego_rl.engine.embedded.stepper import EngineOptions
from lego_rl.engine.embedded.weights import Weights, state_digest
from lego_rl.engine.embedded.worker import SignOfLife, WeightChange, Worker
from lego_rl.engine.protocol import Sample, Sampling
from lego_rl.errors import ConfigError

type Precision = Literal["float32", "bfloat16"]
"""Names of what an engine computes in, for recipes and callers without torch."""

_PRECISIONS: dict[Precision, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class EmbeddedEngine:
    """Samples from a policy in this process. It implements `Engine`.

    Args:
        weights: The policy; the engine never changes it.
        version: Weight version of `weights`.
        options: Batch, cache and threads.
        seed: Of the generator that seeds calls without a seed of their own; ``None`` takes it from the system.
    """

    def __init__(
        self, weights: Weights, *, version: int = 0, options: EngineOptions | None = None, seed: int | None = None
    ) -> None:
        options = options or EngineOptions()
        _check_options(options)
        _check_dtype(weights.dtype)
        self._geometry = weights.geometry
        self._dtype, self._device = weights.dtype, weights.device
        self._seeds = np.random.default_rng(seed)
        self._name = secrets.token_hex(4)
        self._numbers = itertools.count()
        self._worker = Worker(weights, version, options)

    @classmethod
    def from_directory(
        cls,
        path: Path,
        *,
        dtype: torch.dtype | Precision = torch.float32,
        device: str = "cpu",
        version: int = 0,
        options: EngineOptions | None = None,
        seed: int | None = None,
    ) -> Self:
        """Load the policy of a Hugging Face directory.

        Args:
            path: With config.json, model.safetensors and tokenizer.json.
            dtype: What the engine computes in: float32 or bfloat16, as torch's dtype or by its name in a recipe.
            device: A torch device.
            version: Weight version of what is loaded.
            options: Batch, cache and threads.
            seed: See the class.

        Raises:
            ConfigError: The directory is incomplete or contradicts itself, or this machine has no such device.
        """
        if isinstance(dtype, str):
            dtype = _PRECISIONS[dtype]
        place = usable_device(device)
        module = load_policy(path, dtype)
        geometry = Geometry.from_config(module.config)
        weights = Weights.from_state_dict(module.state_dict(), geometry, dtype, place)
        return cls(weights, version=version, options=options, seed=seed)

    @property
    def geometry(self) -> Geometry:
        """Shape of the policy."""
        return self._geometry

    @property
    def dtype(self) -> torch.dtype:
        """What the engine computes in."""
        return self._dtype

    @property
    def weight_version(self) -> int:
        """Version of the weights that a call started now would sample from."""
        return self._worker.version

    @property
    def digest_covers(self) -> Literal["in_use"]:
        """`weights_digest` is of the very tensors that are computed with."""
        return "in_use"

    @property
    def healthy(self) -> bool:
        """Whether calls can be answered."""
        return self._worker.failure is None

    def weights_digest(self) -> str:
        """Digest of the weights in use; equal to `state_digest` of the state dict they were loaded from."""
        return self._worker.weights.digest()

    def digest_of(self, state: Mapping[str, Tensor]) -> str:
        """What `weights_digest` is while exactly these weights are in use.

        Args:
            state: ``module.state_dict()`` of any dtype and device.
        """
        return state_digest(state, self._geometry, self._dtype)

    def stats(self) -> EngineStats:
        """Totals since the engine was made."""
        return self._worker.stats()

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0, forced_ids: Sequence[int] = ()
    ) -> Sample:
        """Sample a continuation; see `Engine.generate`.

        Args:
            prompt_ids: ``[P]``.
            sampling: How to sample.
            routes_from: First position whose routes are wanted.
            forced_ids: What the answer begins with, whatever the policy would have said: everything else of the sample
                (log-probs, routes, versions) is as if it had been drawn. It ends the answer as drawn tokens would.

        Raises:
            ConfigError: The call cannot be answered by this policy: ids outside the vocabulary, or a context too small.
            EngineError: The engine is unhealthy or closed.
        """
        prompt = tuple(prompt_ids)
        self._check_call(prompt, sampling, routes_from, forced_ids)
        loop = asyncio.get_running_loop()
        seed = int(self._seeds.integers(2**63)) if sampling.seed is None else sampling.seed
        call = Call(
            call_id=f"{self._name}-{next(self._numbers)}",
            prompt_ids=prompt,
            sampling=sampling,
            routes_from=routes_from,
            uniforms=Uniforms(seed),
            forced_ids=tuple(forced_ids),
            loop=loop,
            future=loop.create_future(),
        )
        self._worker.submit(call)
        try:
            return await call.future
        except asyncio.CancelledError:
            call.cancelled = True
            self._worker.wake()
            raise

    async def progressed(self) -> None:
        """Return after the next step, or at once where there is none to take; see `Engine.progressed`.

        Nothing pauses this engine, and new weights come in between two steps.

        Raises:
            EngineError: The engine is unhealthy or closed.
        """
        loop = asyncio.get_running_loop()
        sign = SignOfLife(loop, loop.create_future())
        self._worker.submit(sign)
        await sign.future

    async def load_weights(self, state: Mapping[str, Tensor], version: int) -> None:
        """Sample from other weights from the next step on. Returns when they are in use.

        Args:
            state: ``module.state_dict()`` of the same architecture, of any dtype and device; copied before the first
                suspension, so the caller may go on training.
            version: Greater than the present one.

        Raises:
            ConfigError: The state dict is of another architecture, or the version is not greater; nothing has changed.
            EngineError: The engine is unhealthy or closed.
        """
        if version <= self.weight_version:
            raise ConfigError(
                f"weight version {version} does not follow {self.weight_version}, which the engine has",
                "raise the version with every load",
            )
        weights = Weights.from_state_dict(state, self._geometry, self._dtype, self._device)
        loop = asyncio.get_running_loop()
        change = WeightChange(weights, version, loop, loop.create_future())
        self._worker.submit(change)
        await change.future

    def close(self) -> None:
        """Stop the engine's thread; unfinished calls fail with `EngineError`."""
        self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _check_call(
        self, prompt: tuple[int, ...], sampling: Sampling, routes_from: int, forced_ids: Sequence[int]
    ) -> None:
        g = self._geometry
        if not prompt or not all(min(ids) >= 0 and max(ids) < g.vocab for ids in (prompt, forced_ids) if ids):
            raise ConfigError(
                f"a prompt needs at least one id and only ids below {g.vocab}, the policy's vocabulary",
                "use the tokenizer of the policy's own directory",
            )
        if sampling.max_tokens < 1 or not 0 <= sampling.temperature < math.inf or (sampling.seed or 0) < 0:
            raise ConfigError(
                f"cannot sample {sampling.max_tokens} tokens, temperature {sampling.temperature}, seed {sampling.seed}",
                "ask for at least one token, at a temperature and with a seed of 0 or more",
            )
        if len(prompt) + sampling.max_tokens > g.context:
            raise ConfigError(
                f"a prompt of {len(prompt)} ids and {sampling.max_tokens} to sample exceed the context of {g.context}",
                "lower the budget of the session, or use a policy with a longer context",
            )
        if not 0 <= routes_from <= len(prompt):
            raise ConfigError(
                f"routes_from {routes_from} lies outside a prompt of {len(prompt)} ids",
                "pass how many leading positions already have their routes",
            )


def _check_dtype(dtype: torch.dtype) -> None:
    if dtype not in _PRECISIONS.values():
        raise ConfigError(f"the embedded engine does not compute in {dtype}", "use float32 or bfloat16")


def _check_options(options: EngineOptions) -> None:
    if options.max_running < 1 or options.threads < 1 or options.cache_tokens < 0:
        raise ConfigError(
            f"engine options out of range: {options}", "use at least one place and one thread, and a cache of 0 or more"
        )
    if options.prefill_tokens < BLOCK_TOKENS or options.prefill_tokens % BLOCK_TOKENS:
        raise ConfigError(
            f"prefill_tokens is {options.prefill_tokens}", f"use a positive multiple of {BLOCK_TOKENS}, such as 256"
        )
