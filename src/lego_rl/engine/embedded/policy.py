"""Loading a policy directory as a `transformers` module, and saving one.

Invariant: a loaded policy has every weight from the file, and a directory under its final name is complete: it is
written beside and renamed.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.utils import logging as transformers_logging

from lego_rl.engine.policy_dir import inspect_policy
from lego_rl.errors import ConfigError

_AUTO: Any = AutoModelForCausalLM
_LOGGING: Any = transformers_logging
_WEIGHT_FILES = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json", "*.pt")


def load_policy(path: Path, dtype: torch.dtype) -> PreTrainedModel:
    """The module of a policy directory, on the CPU, in evaluation mode.

    Args:
        path: See `inspect_policy`.
        dtype: What the weights are cast to.

    Raises:
        ConfigError: The directory is incomplete, damaged or contradictory, or a weight is no finite number.
    """
    inspect_policy(path)
    try:
        with _quiet():
            module, info = _AUTO.from_pretrained(
                path, dtype=dtype, attn_implementation="sdpa", local_files_only=True, output_loading_info=True
            )
    except Exception as error:  # the library passes on whatever a damaged config makes it stumble over
        raise ConfigError(f"cannot load the policy in {path}: {error}", "check its files, or save it again") from error
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info.get(kind):
            names = ", ".join(sorted(map(str, info[kind]))[:3])
            raise ConfigError(f"the weights in {path} do not fit its config: {kind} {names}", "save both together")
    for name, weight in module.state_dict().items():
        if not weight.isfinite().all():
            raise ConfigError(f"{name} in {path} has numbers that are not finite", "go back to an earlier checkpoint")
    head, embedding = module.get_output_embeddings(), module.get_input_embeddings()
    if module.config.tie_word_embeddings and not torch.equal(head.weight, embedding.weight):
        raise ConfigError(
            f"{path} ties its output projection to the embedding and holds another one", "save both together"
        )
    loaded: PreTrainedModel = module.eval()
    return loaded


def usable_device(name: str) -> torch.device:
    """The torch device of this name.

    Raises:
        ConfigError: This machine has none that can hold numbers.
    """
    try:
        torch.zeros(1, device=name).item()
        return torch.device(name)
    except (RuntimeError, AssertionError, ImportError) as error:  # torch without the device, no driver, no such index
        reason = str(error).partition("\n")[0].partition(". ")[0]
        raise ConfigError(
            f"device {name!r} cannot be used: {reason}", 'set engine.device to "cpu", or to a GPU of this machine'
        ) from error


def _nothing(_: Path) -> None:
    """Adds no file."""


def save_policy(
    state: Mapping[str, Tensor],
    config: PretrainedConfig,
    target: Path,
    *,
    dtype: torch.dtype,
    companions: Path,
    also: Callable[[Path], None] = _nothing,
) -> None:
    """Write a policy directory.

    An existing directory of that name is replaced, by two renames; a kill between them leaves the old one beside,
    as ``.NAME.replaced``.

    Args:
        state: ``module.state_dict()`` of a causal language model, of any dtype and device.
        config: Its config.
        target: The directory; its parent exists.
        dtype: What the weights are saved in (bfloat16: two bytes a parameter).
        companions: A policy directory whose tokenizer, chat template and other small files are copied.
        also: Writes what else belongs into the directory, before that has its name.

    Raises:
        ConfigError: `state` does not fit `config`, or the result is no policy directory.
    """
    with torch.random.fork_rng(devices=[]):  # the random weights that are replaced at once are no draw of the run
        module = _AUTO.from_config(config, dtype=dtype)
    try:
        module.load_state_dict(dict(state), strict=True)
    except RuntimeError as error:
        raise ConfigError(f"the state dict does not fit its config: {error}", "pass both of one module") from error
    partial, replaced = (target.with_name(f".{target.name}.{suffix}") for suffix in ("partial", "replaced"))
    shutil.rmtree(partial, ignore_errors=True)
    with _quiet():
        module.save_pretrained(partial)
    for path in companions.iterdir():
        if path.is_file() and not (partial / path.name).exists() and not any(map(path.match, _WEIGHT_FILES)):
            shutil.copy2(path, partial / path.name)
    also(partial)
    inspect_policy(partial)
    if target.exists():  # else a kill has left `replaced` as the only whole one, until this one is in place
        shutil.rmtree(replaced, ignore_errors=True)
        target.rename(replaced)
    partial.rename(target)
    shutil.rmtree(replaced, ignore_errors=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """transformers draws bars and tables on stderr, where a run shows its own progress and one line for an error."""
    bars, verbosity = _LOGGING.is_progress_bar_enabled(), _LOGGING.get_verbosity()
    _LOGGING.disable_progress_bar()
    _LOGGING.set_verbosity_error()
    try:
        yield
    finally:
        _LOGGING.set_verbosity(verbosity)
        if bars:
            _LOGGING.enable_progress_bar()
