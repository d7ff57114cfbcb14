"""What a policy directory must hold, checked without loading it.

Invariant: a directory that `inspect_policy` accepts has a weight for every token its tokenizer can produce, and says
the same about tied embeddings in its config and in its weights. transformers would load most of the others, with random
numbers where weights are missing.

A policy directory is an ordinary Hugging Face directory: config.json, model.safetensors (or shards and their index),
tokenizer.json, and a chat template for those who render one. Weights are read by their safetensors headers only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from lego_rl.documents import read_json
from lego_rl.errors import ConfigError

CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
WEIGHTS = "model.safetensors"
SHARDS = "model.safetensors.index.json"

_EMBEDDING = "model.embed_tokens.weight"
_HEAD = "lm_head.weight"
_ROUTER = ".mlp.gate.weight"
_MOST_HEADER_BYTES = 100_000_000
_DTYPES = frozenset({"F64", "F32", "F16", "BF16"})
"""Weights of other dtypes are quantised: their numbers are not the policy's without scales that are not read here."""


@dataclass(frozen=True)
class PolicyFacts:
    """What is known of a policy before it is loaded.

    Attributes:
        path: Its directory.
        model_type: ``qwen3_moe``, ``qwen3`` or another one of transformers.
        vocab_size: Rows of its embedding.
        tokenizer_size: One more than the highest id of its tokenizer; at most `vocab_size`.
        context: Most positions of one sequence.
        experts: Experts of a layer with a router; 0 for a dense model.
        tied: Whether the output projection is the embedding.
        parameters: Numbers stored in the weight files.
        weight_bytes: Size of the weight files' tensors.
        dtypes: Dtypes found in them, as safetensors names them (``F32``, ``BF16``).
    """

    path: Path
    model_type: str
    vocab_size: int
    tokenizer_size: int
    context: int
    experts: int
    tied: bool
    parameters: int
    weight_bytes: int
    dtypes: tuple[str, ...]


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a weight file.

    Attributes:
        dtype: As safetensors names it: ``F32``, ``BF16``.
        shape: Its shape.
        size: Bytes.
    """

    dtype: str
    shape: tuple[int, ...]
    size: int


def inspect_policy(path: Path) -> PolicyFacts:
    """Check a policy directory.

    Args:
        path: The directory.

    Raises:
        ConfigError: Something is missing, damaged or contradictory.
    """
    if not path.is_dir():
        raise ConfigError(
            f"{path} is no policy directory", "name a folder with config.json, weights and tokenizer.json"
        )
    config = _read_json(path / CONFIG)
    stored = _stored_tensors(path)
    vocab_size = _config_value(path, config, "vocab_size")
    tied = bool(config.get("tie_word_embeddings", False))
    _check_dtypes(path, stored)
    _check_embedding(path, stored, vocab_size, tied)
    tokenizer_size = _tokenizer_size(path)
    if tokenizer_size > vocab_size:
        raise ConfigError(
            f"the tokenizer of {path} has ids up to {tokenizer_size - 1}, its policy only {vocab_size} embeddings",
            "use the tokenizer that the policy was trained with",
        )
    return PolicyFacts(
        path=path,
        model_type=str(config.get("model_type", "")),
        vocab_size=vocab_size,
        tokenizer_size=tokenizer_size,
        context=_config_value(path, config, "max_position_embeddings"),
        # By the router's own rows: configurations of the same architecture call the number by different names.
        experts=max(
            (rows for name, tensor in stored.items() if name.endswith(_ROUTER) for rows in tensor.shape[:1]), default=0
        ),
        tied=tied,
        parameters=sum(prod(tensor.shape) for tensor in stored.values()),
        weight_bytes=sum(tensor.size for tensor in stored.values()),
        dtypes=tuple(sorted({tensor.dtype for tensor in stored.values()})),
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path} is missing", "a policy directory holds it; copy it from where the policy was saved"
        ) from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not JSON: {error}", "save the policy again") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is not a JSON object", "save the policy again")
    return content


def _config_value(path: Path, config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    if not isinstance(value, int) or value < 1:
        raise ConfigError(f"{path / CONFIG} has {key} = {value!r}", "it must be a positive number")
    return value


def _tokenizer_size(path: Path) -> int:
    file = path / TOKENIZER
    _read_json(file)
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises plain Exception for every defect
        raise ConfigError(f"{file} is no fast tokenizer: {error}", "save the tokenizer again") from error
    return int(max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)) + 1


def _check_dtypes(path: Path, stored: Mapping[str, StoredTensor]) -> None:
    for name, tensor in stored.items():
        if tensor.dtype not in _DTYPES:
            raise ConfigError(
                f"{name} in {path} is stored as {tensor.dtype}, which cannot be trained", "save the policy in bfloat16"
            )


def _check_embedding(path: Path, stored: Mapping[str, StoredTensor], vocab_size: int, tied: bool) -> None:
    embedding = stored.get(_EMBEDDING)
    if embedding is None:
        raise ConfigError(f"the weights in {path} have no {_EMBEDDING}", "save the policy as a causal language model")
    if embedding.shape[:1] != (vocab_size,):
        raise ConfigError(
            f"{path} has an embedding of shape {list(embedding.shape)}, its config says vocab_size {vocab_size}",
            "save config and weights together",
        )
    if not tied and _HEAD not in stored:
        raise ConfigError(
            f"{path} has no {_HEAD} and its config does not tie it to the embedding",
            "set tie_word_embeddings to true, or save the output projection",
        )


def weight_files(path: Path) -> list[Path]:
    """The weight files of a policy directory, in the order of their names.

    Raises:
        ConfigError: It has none, or its index does not say which.
    """
    files = [path / WEIGHTS]
    if not files[0].is_file():
        if not (path / SHARDS).is_file():
            raise ConfigError(f"{path} has no {WEIGHTS}", "save the policy with save_pretrained, in safetensors format")
        shards = _read_json(path / SHARDS).get("weight_map")
        if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
            raise ConfigError(f"{path / SHARDS} does not say which file holds which weight", "save the policy again")
        files = [path / name for name in sorted(set(shards.values()))]
    return files


def _stored_tensors(path: Path) -> dict[str, StoredTensor]:
    stored: dict[str, StoredTensor] = {}
    for file in weight_files(path):
        stored |= read_header(file)
    return stored


def read_header(file: Path) -> dict[str, StoredTensor]:
    """Tensors of a safetensors file: 8 bytes of header length, the header in JSON, then the bytes it points into.

    Raises:
        ConfigError: It is none, or cut short.
    """
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            header = read_json(opened.read(min(length, _MOST_HEADER_BYTES)))
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        stored = {
            name: StoredTensor(
                entry["dtype"], tuple(entry["shape"]), entry["data_offsets"][1] - entry["data_offsets"][0]
            )
            for name, entry in entries.items()
        }
        complete = file.stat().st_size == 8 + length + sum(tensor.size for tensor in stored.values())
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, MemoryError) as error:
        raise ConfigError(f"{file} is no safetensors file: {error}", "save or copy the policy again") from error
    if not complete:
        raise ConfigError(f"{file} is cut short", "save or copy the policy again")
    return stored
