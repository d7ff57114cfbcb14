"""Writes trained weights as the Hugging Face folder that they started from.

Invariant: the folder that has its name is whole: files, names of tensors, shapes and dtypes are those of the folder
that the policy started from, and so is every byte of what the trainer never held. It is written under another name,
read back, forced to the disk and renamed.

Weight files are those of that folder, one by one, so no more than one of them is in memory beside the weight that is
being put together.
"""

import shutil
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from lego_rl.documents import read_json
from lego_rl.durable import sync_folder, sync_tree
from lego_rl.engine.policy_dir import CONFIG, StoredTensor, read_header, weight_files
from lego_rl.errors import ConfigError, RunError
from lego_rl.train.export.fit import EMBEDDING, HEAD, Fit, canonical, fit
from lego_rl.train.export.sources import RESTORE, FolderWeights, WeightSource
from lego_rl.train.persistence import writing

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_WEIGHT_FILES = ("*.safetensors", "*.bin", "*.bin.index.json", "*.pt", "*.pth", "*.gguf")
_KEPT_LOADED = 3
"""Trained tensors that are kept once they are put together: those of one layer's experts, which a folder may have by
expert."""


@dataclass(frozen=True)
class Exported:
    """What an export came to, in tensors of the folder.

    Attributes:
        changed: Trained, and another number than before somewhere.
        unchanged: Held by the trainer, and bit by bit what they were.
        untouched: Never held by the trainer.
        parameters: Numbers in the folder.
        weight_bytes: Their size.
    """

    changed: int
    unchanged: int
    untouched: int
    parameters: int
    weight_bytes: int


class _Base:
    """The folder that a policy started from."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = {file: read_header(file) for file in weight_files(path)}
        self.weights = FolderWeights(path)
        self.tied = _says_tied(path) or HEAD not in map(canonical, self.stored())

    def stored(self) -> dict[str, StoredTensor]:
        """Every tensor."""
        return {name: tensor for header in self.files.values() for name, tensor in header.items()}


def export(source: WeightSource, base: Path, target: Path, describe: Callable[[Path, Exported], None]) -> Exported:
    """Write a folder.

    Args:
        source: The trained weights.
        base: The Hugging Face folder that they started from.
        target: The new folder; nothing has this name.
        describe: Writes what else belongs into the folder, before that has its name.

    Raises:
        ConfigError: `base` holds no weights, or such as cannot be trained.
        RunError: The weights do not fit `base`, are no finite numbers, or the disk does not take them.
    """
    if target.exists() or target.is_symlink():
        raise RunError(f"{target} is there already", "name a folder that does not exist: --out DIR")
    origin = _Base(base)
    plan = fit({name: each.shape for name, each in origin.stored().items()}, source.shapes, tied=origin.tied)
    _check_dtypes(origin, plan)
    recent = _Recent(source)
    if plan.tied_head is not None:
        _check_tied(recent, plan)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        changed = sum(_write_file(file, partial / file.name, origin, plan, recent) for file in origin.files)
        _copy_companions(base, partial, {file.name for file in origin.files})
        done = _exported(origin, plan, changed)
        describe(partial, done)
        _check_written(origin, plan, partial)
        sync_tree(partial)
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    sync_folder(target.parent)
    return done


class _Recent:
    """Loads trained tensors, keeping the last few."""

    def __init__(self, source: WeightSource) -> None:
        self._source = source
        self._kept: OrderedDict[str, Tensor] = OrderedDict()

    def __call__(self, name: str) -> Tensor:
        if name not in self._kept:
            if len(self._kept) == _KEPT_LOADED:
                self._kept.popitem(last=False)
            self._kept[name] = self._source.load(name)
        self._kept.move_to_end(name)
        return self._kept[name]


def _write_file(file: Path, target: Path, base: _Base, plan: Fit, load: _Recent) -> int:
    """One weight file; returns how many of its tensors are other than before."""
    header = base.files[file]
    if all(name in plan.untouched for name in header):
        shutil.copyfile(file, target)
        return 0
    tensors: dict[str, Tensor] = {}
    changed = 0
    for name, stored in header.items():
        before = base.weights.load(name)
        if name in plan.untouched:
            tensors[name] = before
            continue
        tensors[name] = _cast(name, plan.trained[name].build(load), _DTYPES[stored.dtype])
        changed += not _same_bits(tensors[name], before)
    with writing(target):
        save_file(tensors, target, metadata=_metadata(file))
    return changed


def _cast(name: str, trained: Tensor, dtype: torch.dtype) -> Tensor:
    tensor = trained.detach().to(dtype).contiguous().clone()  # clone: files hold no two names for one storage
    if not tensor.isfinite().all():
        raise RunError(f"{name} has numbers that are not finite in {dtype}", "export an earlier checkpoint")
    return tensor


def _same_bits(one: Tensor, other: Tensor) -> bool:
    return torch.equal(_bits(one), _bits(other))


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _check_written(base: _Base, plan: Fit, folder: Path) -> None:
    """Read back what was written: the same tensors, and the untouched ones bit by bit."""
    written = FolderWeights(folder)
    for file, header in base.files.items():
        kept = [name for name in header if name in plan.untouched]
        if read_header(folder / file.name) != header or not all(
            _same_bits(written.load(name), base.weights.load(name)) for name in kept
        ):
            raise RunError(f"{folder / file.name} does not hold the tensors of {file}", "export again")


def _check_dtypes(base: _Base, plan: Fit) -> None:
    for name, tensor in base.stored().items():
        if name in plan.trained and tensor.dtype not in _DTYPES:
            raise ConfigError(
                f"{name} in {base.path} is stored as {tensor.dtype}, which trained weights cannot be written as",
                "name the unquantised policy that the run started from: --base DIR",
            )


def _check_tied(load: _Recent, plan: Fit) -> None:
    """A trainer may hold a tied output projection twice; it must still be the embedding."""
    assert plan.tied_head is not None, "the caller asked"
    (embedding,) = [each for name, each in plan.trained.items() if canonical(name) == EMBEDDING]
    if not torch.equal(load(plan.tied_head), embedding.build(load)):
        raise RunError(f"{plan.tied_head} was trained apart from the embedding that the policy ties it to", RESTORE)


def _copy_companions(base: Path, folder: Path, written: set[str]) -> None:
    """Tokenizer, chat template, generation config and whatever else belongs to a policy beside its weights."""
    for path in sorted(base.iterdir()):
        if path.is_file() and path.name not in written and not any(map(path.match, _WEIGHT_FILES)):
            shutil.copyfile(path, folder / path.name)


def _exported(base: _Base, plan: Fit, changed: int) -> Exported:
    stored = base.stored().values()
    return Exported(
        changed=changed,
        unchanged=len(plan.trained) - changed,
        untouched=len(plan.untouched),
        parameters=sum(torch.Size(tensor.shape).numel() for tensor in stored),
        weight_bytes=sum(tensor.size for tensor in stored),
    )


def _says_tied(base: Path) -> bool:
    try:
        config = read_json((base / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {base / CONFIG}: {error}", "copy the policy again") from error
    text = config.get("text_config", {})
    return bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False)))


def _metadata(file: Path) -> dict[str, str] | None:
    with safe_open(file, framework="pt") as opened:
        found: dict[str, str] | None = opened.metadata()
    return found
