"""Where trained weights are read from: one interface for every kind of checkpoint.

Invariant: a source names every tensor that it holds with its full shape, however it was sharded, and a tensor that it
loads has that shape.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from safetensors import SafetensorError, safe_open
from torch import Tensor

from lego_rl.engine.policy_dir import read_header, weight_files
from lego_rl.errors import RunError

RESTORE = "restore the checkpoint from a copy, or export an earlier one"


class WeightSource(Protocol):
    """The weights of a checkpoint, on the CPU and in the dtypes that they were saved in."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Full shape of every weight, by the name that the trainer's module has for it."""

    def load(self, name: str) -> Tensor:
        """One weight, whole.

        Raises:
            RunError: It cannot be read.
        """


class FolderWeights:
    """The weights of a Hugging Face folder: what the embedded trainer saves.

    Args:
        path: The folder.

    Raises:
        ConfigError: It holds no weights, or such as are cut short.
    """

    def __init__(self, path: Path) -> None:
        self._file_of: dict[str, Path] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        for file in weight_files(path):
            for name, tensor in read_header(file).items():
                self._file_of[name] = file
                self._shapes[name] = tensor.shape

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """See `WeightSource`."""
        return self._shapes

    def load(self, name: str) -> Tensor:
        """See `WeightSource`."""
        file = self._file_of[name]
        try:
            with safe_open(file, framework="pt") as opened:
                tensor: Tensor = opened.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise RunError(f"cannot read {name} of {file}: {error}", RESTORE) from error
        return tensor
