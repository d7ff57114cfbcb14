"""Writing and reading a trainer's state: files in a folder that somebody else publishes by renaming it.

Invariant: what is read back equals what was written bit for bit (float32 weights, optimizer moments, random state), and
is on the disk when writing returns. ``policy/`` is an ordinary Hugging Face directory.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from lego_rl.errors import ConfigError, RunError

POLICY = "policy"
OPTIMIZER = "optimizer.pt"
STATE = "trainer.json"
WEIGHT_FILES = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.pt")


def load_policy(directory: Path, device: torch.device) -> PreTrainedModel:
    """A causal language model in float32, the master precision.

    Raises:
        ConfigError: The directory holds no policy that can be loaded.
    """
    if not (directory / "config.json").is_file():
        raise ConfigError(f"{directory} holds no policy (no config.json)", "name a Hugging Face model directory")
    try:
        policy: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            directory, dtype=torch.float32, attn_implementation="sdpa", local_files_only=True
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(f"cannot load the policy in {directory}: {error}", "check its files") from error
    nn.Module.to(policy, device)
    return policy


def save_policy(policy: PreTrainedModel, source: Path, directory: Path) -> None:
    """Write a policy with the tokenizer, chat template and other small files of the directory it came from."""
    policy.save_pretrained(directory)
    written = {path.name for path in directory.iterdir()}
    for path in source.iterdir():
        if path.is_file() and path.name not in written and not any(path.match(pattern) for pattern in WEIGHT_FILES):
            shutil.copy2(path, directory / path.name)


def flush(directory: Path) -> None:
    """Force a directory and everything in it to disk, so that renaming it afterwards publishes complete files."""
    for path in (*sorted(directory.rglob("*")), directory):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_state(directory: Path, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Optimizer moments and the random generator's state beside a JSON file of plain numbers."""
    torch.save({"optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}, directory / OPTIMIZER)
    (directory / STATE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")


def read_state(directory: Path, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Restore what `write_state` wrote and return the plain numbers.

    Raises:
        RunError: The directory is no complete checkpoint, or belongs to another policy.
    """
    try:
        state: dict[str, Any] = json.loads((directory / STATE).read_text(encoding="utf-8"))
        saved = torch.load(directory / OPTIMIZER, weights_only=True)
        optimizer.load_state_dict(saved["optimizer"])
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise RunError(f"{directory} is no complete checkpoint: {error}", "resume from another one") from error
    torch.set_rng_state(saved["rng"])
    return state
