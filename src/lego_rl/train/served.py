"""A policy that is trained here and served by vLLM: its weights go there by a folder that both can see.

Invariant: the digest compares what the servers took over with what the trainer has, tensor by tensor, in the servers'
dtype. It proves that the right weights arrived; whether the servers also compute with them is what the gate finds out.
"""

import hashlib
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from lego_rl.engine.protocol import EngineError
from lego_rl.engine.vllm.engine import VllmEngine
from lego_rl.errors import ConfigError, RunError
from lego_rl.train.fidelity import DigestCovers

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_GATE_UP, _DOWN = ".mlp.experts.gate_up_proj", ".mlp.experts.down_proj"


class ServedPolicy:
    """Implements `ServedEngine` for servers that hold a policy of the trainer's architecture.

    Args:
        engine: The servers.
        names: Of the tensors in the policy's checkpoint, as it was served first.
        folder: Where weights are written for the servers; they see it under the same path. It is removed again.

    Raises:
        ConfigError: The servers compute in a dtype that a trainer's weights are not pushed in.
    """

    def __init__(self, engine: VllmEngine, names: Collection[str], folder: Path) -> None:
        if engine.served.dtype not in _DTYPES:
            raise ConfigError(f"the servers compute in {engine.served.dtype}", "serve with --dtype float32 or bfloat16")
        self._engine = engine
        self._dtype = _DTYPES[engine.served.dtype]
        self._names = frozenset(names)
        self._folder = folder
        self._digest = engine.served.digest

    @property
    def weight_version(self) -> int:
        """Version that a call started now would sample from."""
        return self._engine.weight_version

    @property
    def digest_covers(self) -> DigestCovers:
        """`weights_digest` is of what was taken over: vLLM fuses, shards and packs what it computes with."""
        return "handed_over"

    def weights_digest(self) -> str:
        """Digest of what the servers took over last."""
        return self._digest

    def digest_of(self, state: Mapping[str, Tensor]) -> str:
        """What `weights_digest` is after exactly these weights were pushed."""
        return tensors_digest(self._tensors(state))

    async def load_weights(self, state: Mapping[str, Tensor], version: int) -> None:
        """Push weights: they are in use when this returns.

        Args:
            state: ``module.state_dict()`` of the trainer.
            version: Greater than the present one.

        Raises:
            ConfigError: The version is not greater.
            RunError: A server failed.
        """
        if version <= self.weight_version:
            raise ConfigError(
                f"weight version {version} does not follow {self.weight_version}, which the servers have",
                "raise the version with every load",
            )
        target = self._folder / str(version)
        target.mkdir(parents=True, exist_ok=True)
        try:
            tensors = {name: tensor.contiguous() for name, tensor in self._tensors(state)}
            save_file(tensors, target / "model.safetensors")
            self._digest = await self._engine.load(target, version)
        except EngineError as error:
            raise RunError(
                f"weights of version {version} could not be pushed: {error}",
                "start the servers anew and resume the run",
            ) from error
        finally:
            shutil.rmtree(target)

    def _tensors(self, state: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        named = dict(checkpoint_tensors(state, self._names))
        for name in sorted(named):
            yield name, named[name].detach().to("cpu", self._dtype)


def checkpoint_tensors(state: Mapping[str, Tensor], names: Collection[str]) -> Iterator[tuple[str, Tensor]]:
    """A module's weights as a checkpoint of it has them, as views.

    Args:
        state: ``module.state_dict()``.
        names: Of the checkpoint's tensors. Experts that it keeps apart are taken apart; what it does not have at all,
            such as an output projection that is the embedding, is left out.
    """
    for name, tensor in state.items():
        if name in names:
            yield name, tensor
        elif name.endswith((_GATE_UP, _DOWN)):
            yield from _apart(name, tensor)


def _apart(name: str, fused: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Each expert's projections: ``gate_up_proj`` holds the rows of the gate first."""
    experts, _, kind = name.rpartition(".")
    for number, expert in enumerate(fused):
        if kind == "down_proj":
            yield f"{experts}.{number}.down_proj.weight", expert
        else:
            gate, up = expert.chunk(2)
            yield f"{experts}.{number}.gate_proj.weight", gate
            yield f"{experts}.{number}.up_proj.weight", up


def checkpoint_names(folder: Path) -> list[str]:
    """Names of the tensors in a policy folder."""
    return sorted(_places(folder))


def folder_digest(folder: Path, dtype: str) -> str:
    """What a server that computes in `dtype` says of a policy folder.

    Args:
        folder: With ``*.safetensors``.
        dtype: ``float32`` or ``bfloat16``.
    """
    places = _places(folder)

    def tensors() -> Iterator[tuple[str, Tensor]]:
        for name in sorted(places):
            with safe_open(places[name], "pt") as file:
                yield name, file.get_tensor(name).to(_DTYPES[dtype])

    return tensors_digest(tensors())


def tensors_digest(tensors: Iterator[tuple[str, Tensor]]) -> str:
    """BLAKE2b-128 of every name, dtype, shape and byte; the worker inside vLLM computes the same of what it loads."""
    hashed = hashlib.blake2b(digest_size=16)
    for name, tensor in tensors:
        hashed.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        hashed.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())
    return hashed.hexdigest()


def _places(folder: Path) -> dict[str, Path]:
    """Tensor → the file that holds it."""
    places: dict[str, Path] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            places.update(dict.fromkeys(file.keys(), path))
    return places
