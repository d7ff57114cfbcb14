"""Checkpoints of VeOmni's own trainer: torch's distributed checkpoint (DCP), read by one process.

Invariant: a weight is read by torch from the files that its metadata names; a file that is missing or cut short is
found before anything is written. The metadata is a pickle, so a checkpoint is to be trusted as a program is.
"""

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load

from lego_rl.errors import RunError
from lego_rl.train.export.sources import RESTORE

_METADATA = ".metadata"
_MODEL, _OTHER_PARTS = "model.", ("optimizer.", "extra_state", "lr_scheduler.")


def has_distributed(folder: Path) -> bool:
    """Whether a folder holds such a checkpoint."""
    return (folder / _METADATA).is_file()


class DistributedWeights:
    """The weights of such a checkpoint.

    Args:
        folder: The folder with ``.metadata``.

    Raises:
        RunError: A file is missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reader = FileSystemReader(folder)
        metadata = self._read_metadata()
        stored = {
            name: entry
            for name, entry in metadata.state_dict_metadata.items()
            if isinstance(entry, TensorStorageMetadata) and not name.startswith(_OTHER_PARTS)
        }
        # VeOmni saves {"model": ..., "optimizer": ...}; the module's own names begin with "model." as well.
        nested = any(name.startswith((f"{_MODEL}{_MODEL}", f"{_MODEL}lm_head.")) for name in stored)
        self._stored = {name.removeprefix(_MODEL) if nested else name: (name, entry) for name, entry in stored.items()}
        for item in (metadata.storage_data or {}).values():
            path = folder / item.relative_path
            if not path.is_file() or path.stat().st_size < item.offset + item.length:
                raise RunError(f"{path} is missing or cut short", RESTORE)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """See `WeightSource`."""
        return {name: tuple(entry.size) for name, (_, entry) in self._stored.items()}

    def load(self, name: str) -> Tensor:
        """See `WeightSource`."""
        key, entry = self._stored[name]
        state = {key: torch.empty(entry.size, dtype=entry.properties.dtype)}
        try:
            with warnings.catch_warnings():  # that one process reads it is what is wanted
                warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
                load(state, storage_reader=self._reader, no_dist=True)
        except (OSError, RuntimeError, ValueError, CheckpointException, pickle.UnpicklingError) as error:
            raise RunError(f"cannot read {name} of {self._folder}: {str(error).partition('\n')[0]}", RESTORE) from error
        return state[key]

    def _read_metadata(self) -> Metadata:
        try:
            return self._reader.read_metadata()
        except (OSError, EOFError, AttributeError, ValueError, pickle.UnpicklingError) as error:
            raise RunError(f"{self._folder / _METADATA} is damaged: {error}", RESTORE) from error
