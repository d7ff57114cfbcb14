"""Which trained tensor, or part of one, is which tensor of the folder that a policy started from.

Invariant: every tensor of the folder has exactly one origin, and every trained one is used. A part of a model that the
trainer never held (a vision tower, a head for speculative decoding) is held wholly or not at all; of the language model
itself nothing may be missing. All of it is known, shapes included, before a number is read.

Trainers name and stack weights in their own ways: a wrapper's prefix is there or not, the experts of a layer are one
tensor or many. The folder's names are the ones that whoever serves it reads.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from lego_rl.errors import RunError
from lego_rl.train.export.origin import Joined, Origin, Part, Stacked

type Shapes = Mapping[str, tuple[int, ...]]

_WRAPPERS = (
    ("model.language_model.", "model."),
    ("language_model.model.", "model."),
    ("language_model.lm_head.", "lm_head."),
    ("visual.", "model.visual."),
)
_EXPERT = re.compile(r"(?P<layer>.+\.experts)\.(?P<number>\d+)\.(?P<part>gate|up|down)_proj\.weight\Z")
_ALL_EXPERTS = re.compile(r"(?P<layer>.+\.experts)\.(?P<part>gate|up|down|gate_up)_proj\Z")
_LANGUAGE_MODEL = ("model.embed_tokens", "model.layers", "model.norm", "lm_head")
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
"""Canonical names."""


@dataclass(frozen=True)
class Fit:
    """Where the tensors of a folder come from.

    Attributes:
        trained: Name in the folder → what of the trained weights it is.
        untouched: Names that the trainer never held.
        tied_head: A trained output projection that the folder lacks, for it is the embedding; ``None`` if there is
            none.
    """

    trained: Mapping[str, Origin]
    untouched: frozenset[str]
    tied_head: str | None


def fit(base: Shapes, trained: Shapes, *, tied: bool) -> Fit:
    """Find the origin of every tensor of a folder.

    Args:
        base: Shapes in the folder that the policy started from.
        trained: Shapes of the trained weights, by the trainer's names.
        tied: Whether the folder's output projection is its embedding.

    Raises:
        RunError: Something of the language model is missing, a trained weight has no place, or shapes differ.
    """
    finder = _Finder(trained, tied=tied)
    found = {name: origin for name in base if (origin := finder.origin(name)) is not None}
    missing = base.keys() - found.keys()
    _check_missing(base, missing)
    used = {name for origin in found.values() for name in origin.names()}
    left = sorted(trained.keys() - used)
    head = next((name for name in left if tied and canonical(name) == HEAD), None)
    surplus = [name for name in left if name != head]
    if surplus:
        raise RunError(
            f"{len(surplus)} trained weights have no place in the policy that is exported to, such as {surplus[0]}",
            _advice(surplus),
        )
    for name, origin in found.items():
        shape = origin.shape(trained)
        if shape != base[name]:
            raise RunError(
                f"{name} was trained with shape {list(shape)}, the policy that is exported to has {list(base[name])}",
                "name the policy that the run started from: --base DIR",
            )
    return Fit(found, frozenset(missing), head)


def canonical(name: str) -> str:
    """The name of a weight without the wrapper that a model with several towers has around its language model."""
    for wrapped, plain in _WRAPPERS:
        if name.startswith(wrapped):
            return plain + name.removeprefix(wrapped)
    return name


class _Finder:
    """Looks trained weights up by canonical names."""

    def __init__(self, trained: Shapes, *, tied: bool) -> None:
        self._names: dict[str, str] = {}
        self._experts: dict[str, int] = {}
        for name in trained:
            plain = canonical(name)
            if plain in self._names:
                raise RunError(
                    f"the checkpoint holds one weight twice: {name} and {self._names[plain]}",
                    "export another checkpoint of the run",
                )
            self._names[plain] = name
            if match := _EXPERT.match(plain):
                self._experts[match["layer"]] = max(self._experts.get(match["layer"], 0), int(match["number"]) + 1)
        if tied and HEAD not in self._names and EMBEDDING in self._names:
            self._names[HEAD] = self._names[EMBEDDING]

    def origin(self, name: str) -> Origin | None:
        """Of a tensor of the folder; ``None`` if the trainer did not hold it."""
        plain = canonical(name)
        if plain in self._names:
            return self._whole(plain)
        if match := _EXPERT.match(plain):
            return self._one_expert(match["layer"], int(match["number"]), match["part"])
        if match := _ALL_EXPERTS.match(plain):
            return self._all_experts(match["layer"], match["part"])
        return None

    def _whole(self, plain: str) -> Origin:
        return Joined((Part(self._names[plain]),))

    def _one_expert(self, layer: str, number: int, part: str) -> Origin | None:
        if name := self._names.get(f"{layer}.{part}_proj"):
            return Joined((Part(name, number),))
        fused = self._names.get(f"{layer}.gate_up_proj")
        if fused and part != "down":
            return Joined((Part(fused, number, "gate" if part == "gate" else "up"),))
        return None

    def _all_experts(self, layer: str, part: str) -> Origin | None:
        fused = self._names.get(f"{layer}.gate_up_proj")
        if fused and part in {"gate", "up"}:
            return Joined((Part(fused, None, "gate" if part == "gate" else "up"),))
        halves = ("gate", "up") if part == "gate_up" else (part,)
        if whole := self._all_of(f"{layer}.{half}_proj" for half in halves):
            return Joined(whole)
        rows = [
            self._all_of(f"{layer}.{number}.{half}_proj.weight" for half in halves)
            for number in range(self._experts.get(layer, 0))
        ]
        return Stacked(tuple(Joined(row) for row in rows if row)) if rows and all(rows) else None

    def _all_of(self, plain: Iterable[str]) -> tuple[Part, ...] | None:
        found = [self._names.get(name) for name in plain]
        return tuple(Part(name) for name in found if name) if all(found) else None


def _check_missing(base: Shapes, missing: Collection[str]) -> None:
    held = {_tower(canonical(name)) for name in base if name not in missing}
    for name in sorted(missing):
        tower = _tower(canonical(name))
        if tower in _LANGUAGE_MODEL:
            raise RunError(
                f"the checkpoint lacks {name}, a weight of the language model",
                "export a complete checkpoint, or name the policy that the run started from: --base DIR",
            )
        if tower in held:
            raise RunError(
                f"the checkpoint holds only a part of {tower}: {name} is missing", "export a complete checkpoint"
            )


def _tower(plain: str) -> str:
    """The part of a model that a canonical name belongs to: what the trainer holds wholly or not at all."""
    parts = plain.split(".")
    return ".".join(parts[:2]) if parts[0] == "model" else parts[0]


def _advice(surplus: Iterable[str]) -> str:
    if any("lora_" in name for name in surplus):
        return "merge the adapters into the weights first: what is exported is a whole policy"
    return "name the policy that the run started from: --base DIR"
