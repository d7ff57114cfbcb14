"""What Lego-RL needs inside a vLLM server: weights taken from a folder, and on CPUs the expert routes.

One stand-alone file for the server's own Python (3.10 or later): it imports the standard library, NumPy, torch,
safetensors and vLLM. The server finds it by PYTHONPATH, for this folder holds nothing else, and loads one of

- ``--worker-extension-cls lego_vllm_worker.PolicyWorker`` where vLLM returns routes itself (GPU);
- ``--worker-cls lego_vllm_worker.CpuPolicyWorker`` on CPUs, where it cannot.

Their ``lego_`` methods are called through ``/collective_rpc``. Invariants: what `lego_load` returns is the digest of
the very tensors that it handed to vLLM; a row of routes is what the router chose when the position was last computed,
also where a prefix cache spared computing it again.

Source: vLLM 0.32.0.
"""

import base64
import hashlib
import io
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from vllm.platforms import current_platform

_MOST_FINISHED = 512
"""Finished calls whose routes wait to be fetched; those of calls that nobody asks for go first."""


class PolicyWorker:
    """Mixed into a vLLM worker: weights from a folder."""

    model_runner: Any
    vllm_config: Any
    _lego_digest: str | None = None

    def lego_serves(self) -> dict[str, Any]:
        """What this worker serves: platform, dtype, whether it has routers, and the digest of its weights' files."""
        config = self.vllm_config.model_config
        if self._lego_digest is None:
            self._lego_digest = _digest(_tensors(Path(config.model), config.dtype))
        return {
            "platform": current_platform.device_type,
            "dtype": str(config.dtype).removeprefix("torch."),
            "routed": any(True for _ in _experts(self.model_runner.get_model())),
            "digest": self._lego_digest,
        }

    def lego_load(self, folder: str) -> dict[str, Any]:
        """Serve the weights of a folder's ``*.safetensors`` from the next step on.

        Args:
            folder: Path as this machine sees it; names and shapes of the model's own checkpoint.

        Returns:
            ``{"digest": ...}`` of what was loaded.
        """
        hashed = hashlib.blake2b(digest_size=16)

        def read() -> Iterator[tuple[str, torch.Tensor]]:
            for name, tensor in _tensors(Path(folder), self.vllm_config.model_config.dtype):
                _feed(hashed, name, tensor)
                yield name, tensor

        self.model_runner.reload_weights(weights_iterator=read())
        if current_platform.is_cpu():
            _prepack_experts(self.model_runner.get_model())
        self._lego_digest = hashed.hexdigest()
        return {"digest": self._lego_digest}


def _prepack_experts(model: torch.nn.Module) -> None:
    """Put reloaded experts into the layout that the CPU kernel reads.

    ``UnquantizedFusedMoEMethod._setup_kernel`` does so on the first load and leaves it out on a reload, after which the
    kernel silently reads plain rows as if they were packed.
    """
    for module in _experts(model):
        module.quant_method.moe_kernel.fused_experts.process_weights_after_loading(module)


def _experts(model: torch.nn.Module) -> Iterator[Any]:
    """The modules that hold the experts of a layer."""
    return (module for module in model.modules() if hasattr(module, "w13_weight"))


def _tensors(folder: Path, dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and tensor of everything in a folder's weight files, by name, in the server's dtype."""
    opened: list[Any] = [safe_open(str(path), "pt") for path in sorted(folder.glob("*.safetensors"))]
    places = {name: file for file in opened for name in file.keys()}  # noqa: SIM118  (it is no mapping)
    if not places:
        raise FileNotFoundError(f"no *.safetensors in {folder}")
    for name in sorted(places):
        yield name, places[name].get_tensor(name).to(dtype)


def _digest(tensors: Iterable[tuple[str, torch.Tensor]]) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    for name, tensor in tensors:
        _feed(hashed, name, tensor)
    return hashed.hexdigest()


def _feed(hashed: Any, name: str, tensor: torch.Tensor) -> None:
    """Must be what `lego_rl.train.served` computes of the trainer's weights."""
    hashed.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
    hashed.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())


@dataclass
class _Held:
    """Rows ``[room, layers, top_k]`` of a call, of which the first `count` are written."""

    rows: Any
    count: int = 0


class RouteBook:
    """Rows of routes ``[layers, top_k]`` by cache slot and by call.

    A call that starts at a position > 0 found the positions before it in the prefix cache: their rows are those that
    were written when the cache's slots were. So a call's rows are complete from position 0, whoever computed them.

    Args:
        block_size: Positions of a cache block.
        layers: With routers.
        top_k: Experts of a position.
    """

    def __init__(self, block_size: int, layers: int, top_k: int) -> None:
        self._block_size = block_size
        self._row = (layers, top_k)
        self._slots = self._empty(0)
        self._calls: OrderedDict[str, _Held] = OrderedDict()
        self._finished: OrderedDict[str, _Held] = OrderedDict()

    def write(self, call: str, blocks: list[int], start: int, rows: Any) -> None:
        """Note the rows of positions ``[start, start + n)`` of a call.

        Args:
            call: vLLM's request id.
            blocks: The call's cache blocks, in order.
            start: First position.
            rows: ``[n, layers, top_k]`` uint8.
        """
        end = start + len(rows)
        positions = np.arange(end)
        slots = np.asarray(blocks)[positions // self._block_size] * self._block_size + positions % self._block_size
        self._slots = self._grown(self._slots, int(slots.max()) + 1)
        held = self._calls.get(call)
        if held is None:
            held = self._calls[call] = _Held(self._empty(end))
            held.rows[:start] = self._slots[slots[:start]]
        held.rows = self._grown(held.rows, end)
        held.rows[start:end] = rows
        held.count = end
        self._slots[slots[start:]] = rows

    def finish(self, call: str) -> None:
        """A call has ended, or was aborted: its rows wait to be fetched, for so long as there is room."""
        held = self._calls.pop(call, None)
        if held is not None:
            self._finished[call] = held
        while len(self._finished) > _MOST_FINISHED:
            self._finished.popitem(last=False)

    def take(self, prefix: str, start: int) -> Any | None:
        """Rows from position `start` on of the one call whose id begins so, which is then forgotten."""
        for book in (self._finished, self._calls):
            for call in [call for call in book if call.startswith(prefix)]:
                held = book.pop(call)
                return held.rows[start : held.count]
        return None

    def _empty(self, rows: int) -> Any:
        return np.zeros((rows, *self._row), np.uint8)

    def _grown(self, rows: Any, needed: int) -> Any:
        if len(rows) >= needed:
            return rows
        return np.concatenate([rows, self._empty(max(needed, 2 * len(rows), 256) - len(rows))])


if current_platform.is_cpu():
    from vllm.model_executor.layers.fused_moe.layer import MoERunner
    from vllm.v1.kv_cache_interface import AttentionSpec
    from vllm.v1.worker.cpu_worker import CPUWorker

    class CpuPolicyWorker(PolicyWorker, CPUWorker):  # type: ignore[misc]  # vLLM is not installed where this is checked
        """vLLM's worker for CPUs, which also remembers the routes of every position it computes."""

        _lego_book: RouteBook | None = None

        def load_model(self, **options: Any) -> None:
            """Load as ever, then listen to the routers."""
            super().load_model(**options)
            self._lego_chosen: dict[int, Any] = {}
            for module in self.model_runner.get_model().modules():
                if isinstance(module, MoERunner):
                    module.router.set_capture_fn(self._lego_note(module.layer_id))

        def execute_model(self, scheduler_output: Any) -> Any:
            """Take a step as ever, and note what its routers chose."""
            self._lego_chosen.clear()
            output = super().execute_model(scheduler_output)
            if self._lego_chosen and scheduler_output.total_num_scheduled_tokens:
                self._lego_write(scheduler_output)
            if self._lego_book is not None:
                for call in scheduler_output.finished_req_ids:
                    self._lego_book.finish(call)
            return output

        def lego_routes(self, request_id: str, start: str) -> dict[str, Any]:
            """Routes of a finished call from position `start` on, base64 of ``.npy``.

            Args:
                request_id: As it was given to ``/inference/v1/generate``.
                start: First position wanted, in decimal.
            """
            book = self._lego_book
            rows = None if book is None else book.take(f"generate-tokens-{request_id}-", int(start))
            if rows is None:
                return {"npy": None}
            buffer = io.BytesIO()
            np.save(buffer, rows, allow_pickle=False)
            return {"npy": base64.b64encode(buffer.getvalue()).decode()}

        def _lego_note(self, layer: int) -> Callable[[torch.Tensor], None]:
            def note(chosen: torch.Tensor) -> None:
                self._lego_chosen[layer] = chosen.to("cpu", torch.uint8).numpy()

            return note

        def _lego_write(self, scheduled: Any) -> None:
            """Sort a step's rows by call: they lie in the order of the runner's batch."""
            rows = np.stack([self._lego_chosen[layer] for layer in sorted(self._lego_chosen)], axis=1)
            group, block_size = self._lego_group()
            if self._lego_book is None:
                self._lego_book = RouteBook(block_size, *rows.shape[1:])
            cached = scheduled.scheduled_cached_reqs
            starts = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
            starts.update({new.req_id: new.num_computed_tokens for new in scheduled.scheduled_new_reqs})
            at = 0
            for call in self.model_runner.input_batch.req_ids:
                count = scheduled.num_scheduled_tokens.get(call, 0)
                if count:
                    blocks = self.model_runner.requests[call].block_ids[group]
                    self._lego_book.write(call, blocks, starts[call], rows[at : at + count])
                    at += count

        def _lego_group(self) -> tuple[int, int]:
            """Which group of cache blocks counts tokens (of a hybrid model its attention's), and a block's size."""
            groups = self.model_runner.kv_cache_config.kv_cache_groups
            found = next(i for i, each in enumerate(groups) if isinstance(each.kv_cache_spec, AttentionSpec))
            return found, groups[found].kv_cache_spec.block_size
