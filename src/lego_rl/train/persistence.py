"""Writing and reading a trainer's state: files in a folder that somebody else publishes by renaming it.

Invariant: what is read back equals what was written bit for bit (float32 weights, optimizer moments, random state), and
is on the disk when writing returns. ``policy/`` is an ordinary Hugging Face directory.
"""

import hashlib
import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import PreTrainedModel

from lego_rl.documents import read_json
from lego_rl.durable import sync_tree
from lego_rl.engine.embedded.policy import save_policy
from lego_rl.errors import RunError
from lego_rl.train.card import PolicyCard

POLICY = "policy"
OPTIMIZER = "optimizer.pt"
STATE = "trainer.json"
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, pickle.UnpicklingError)


def write(
    directory: Path,
    policy: PreTrainedModel,
    optimizer: torch.optim.Optimizer,
    version: int,
    companions: Path,
    card: PolicyCard,
) -> None:
    """Fill an empty folder.

    Args:
        directory: The folder.
        policy: Its weights are written in float32, the master precision.
        optimizer: Its moments are written, and with them the state of torch's random generator.
        version: Weight version.
        companions: Policy directory whose tokenizer, chat template and other small files go along.
        card: How the policy is trained.

    Raises:
        RunError: The disk does not take it.
        OSError: Likewise.
    """
    state = {"optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
    with writing(directory):
        save_policy(
            policy.state_dict(),
            policy.config,
            directory / POLICY,
            dtype=torch.float32,
            companions=companions,
            also=lambda folder: card.write(folder, version),
        )
        torch.save(state, directory / OPTIMIZER)
    digests = {str(path.relative_to(directory)): _digest(path) for path in _files(directory)}
    (directory / STATE).write_text(json.dumps({"version": version, "sha256": digests}) + "\n", encoding="utf-8")
    sync_tree(directory)


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Says of a library that fails to write into `target` that it did: each has an error of its own for a full disk.

    Raises:
        RunError: It did.
    """
    try:
        yield
    except (RuntimeError, SafetensorError) as error:
        if isinstance(error, torch.OutOfMemoryError):  # of a GPU, while the weights were copied
            raise
        raise RunError(
            f"cannot write {target}: {error}", "free disk space where it is short, then go on with the run"
        ) from error


def read(directory: Path, optimizer: torch.optim.Optimizer) -> int:
    """Restore optimizer and random generator from what `write` wrote, and return the weight version.

    Raises:
        RunError: The directory is no complete checkpoint, was altered, or belongs to another policy.
    """
    try:
        version = _verified(directory)
        saved = torch.load(directory / OPTIMIZER, weights_only=True)
        optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["rng"])
    except _DAMAGE as error:
        raise RunError(
            f"{directory} is no complete checkpoint: {error}",
            "restore it from a copy, or start a new run with another checkpoint's policy/ as policy.path",
        ) from error
    return version


def verify(directory: Path) -> int:
    """The weight version of a checkpoint whose every file is as it was written.

    Raises:
        RunError: One is not, or the directory is no checkpoint.
    """
    try:
        return _verified(directory)
    except _DAMAGE as error:
        raise RunError(
            f"{directory} is no complete checkpoint: {error}", "restore it from a copy, or take another checkpoint"
        ) from error


def _verified(directory: Path) -> int:
    state = read_json((directory / STATE).read_text(encoding="utf-8"))
    version = int(state["version"])
    altered = [name for name, digest in state["sha256"].items() if _digest(directory / name) != digest]
    if altered:
        raise ValueError(f"{altered[0]} is not as it was written")
    return version


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file() and path.name != STATE)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
