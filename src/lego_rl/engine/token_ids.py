"""Token ids as one array that can also be read as a sequence of Python integers.

Invariant: the ids never change. A long prompt costs four bytes a token and is passed on without a list being made; an
engine that needs a list calls `tolist`.
"""

from collections.abc import Iterator, Sequence
from typing import overload, override

import numpy as np
from numpy.typing import NDArray


class TokenIds(Sequence[int]):
    """``[N]`` token ids.

    Args:
        ids: ``[N]``; taken over, and from now on read-only.

    Attributes:
        array: ``[N]`` int32.
    """

    __slots__ = ("array",)

    def __init__(self, ids: NDArray[np.int32]) -> None:
        self.array = ids
        ids.setflags(write=False)

    @override
    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> "TokenIds": ...
    @override
    def __getitem__(self, index: int | slice) -> "int | TokenIds":
        return TokenIds(self.array[index]) if isinstance(index, slice) else int(self.array[index])

    @override
    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    @override
    def __eq__(self, other: object) -> bool:
        """Whether `other` is a sequence of the same ids."""
        if isinstance(other, TokenIds):
            return np.array_equal(self.array, other.array)
        return isinstance(other, Sequence) and len(self) == len(other) and self.tolist() == list(other)

    @override
    def __hash__(self) -> int:
        return hash(tuple(self.tolist()))  # that of the tuple which it equals

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray[np.int32]:
        """See NumPy's array protocol: an array is made of this without reading it id by id."""
        return np.array(self.array, dtype=dtype, copy=copy)  # type: ignore[call-overload,no-any-return]

    def tolist(self) -> list[int]:
        """The ids as Python integers."""
        ids: list[int] = self.array.tolist()
        return ids

    @override
    def __repr__(self) -> str:
        return f"TokenIds({self.array!r})"
