"""What a tensor of a policy's folder is made of: trained tensors, parts of them, or several put together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

type Half = Literal["gate", "up"]
type Shape = tuple[int, ...]
type Load = Callable[[str], Tensor]


@dataclass(frozen=True)
class Part:
    """A trained tensor, or a part of it.

    Attributes:
        name: The trained tensor.
        expert: Row of its first dimension; ``None`` for all.
        half: Which half of what is fused along its second-last dimension, gate rows first; ``None`` for both.
    """

    name: str
    expert: int | None = None
    half: Half | None = None

    def shape(self, trained: Mapping[str, Shape]) -> Shape:
        """Its shape, of the shapes of trained tensors; empty for an expert that is not there."""
        shape = trained[self.name]
        if self.expert is not None:
            shape = shape[1:] if self.expert < shape[0] else ()
        return shape if self.half is None or not shape else (*shape[:-2], shape[-2] // 2, shape[-1])

    def build(self, load: Load) -> Tensor:
        """The part itself."""
        tensor = load(self.name)
        rows = tensor if self.expert is None else tensor[self.expert]
        if self.half is None:
            return rows
        gate, up = rows.chunk(2, dim=-2)
        return gate if self.half == "gate" else up


@dataclass(frozen=True)
class Joined:
    """Parts that follow each other along their second-last dimension; one is itself."""

    parts: tuple[Part, ...]

    def names(self) -> set[str]:
        """The trained tensors that it takes."""
        return {part.name for part in self.parts}

    def shape(self, trained: Mapping[str, Shape]) -> Shape:
        """As of a part; empty where parts do not fit each other."""
        shapes = [part.shape(trained) for part in self.parts]
        if len(shapes) == 1:
            return shapes[0]
        if any(len(shape) < 2 or shape[:-2] != shapes[0][:-2] or shape[-1] != shapes[0][-1] for shape in shapes):
            return ()
        return (*shapes[0][:-2], sum(shape[-2] for shape in shapes), shapes[0][-1])

    def build(self, load: Load) -> Tensor:
        """The tensor."""
        built = [part.build(load) for part in self.parts]
        return built[0] if len(built) == 1 else torch.cat(built, dim=-2)


@dataclass(frozen=True)
class Stacked:
    """Rows that become a new first dimension: one an expert."""

    rows: tuple[Joined, ...]

    def names(self) -> set[str]:
        """The trained tensors that it takes."""
        return {name for row in self.rows for name in row.names()}

    def shape(self, trained: Mapping[str, Shape]) -> Shape:
        """As of a part; empty where rows do not fit each other."""
        shapes = {row.shape(trained) for row in self.rows}
        return (len(self.rows), *shapes.pop()) if len(shapes) == 1 else ()

    def build(self, load: Load) -> Tensor:
        """The tensor."""
        return torch.stack([row.build(load) for row in self.rows])


type Origin = Joined | Stacked
