"""Which texts of a reference have a shingle, and what other texts share with each of them.

Invariant: the overlap of every pair is exact. A shingle that few texts have is passed on to those; one that many have
is a column of a matrix product, for passing it on would take as long as all the others together.
"""

import numpy as np
import numpy.typing as npt

from lego_rl.tasks.decontaminate.shingles import Ids

type Floats = npt.NDArray[np.float64]

_FEW = 8
"""Texts that have a shingle, up to which it is passed on; in a large reference, a fiftieth of it."""


class Postings:
    """Which texts have a shingle.

    Args:
        shingle: ``[n]`` shingles, in ascending order.
        text: ``[n]`` a text that has it; no pair stands twice.
        weights: ``[shingles]`` of each shingle.
        texts: How many texts there are.
    """

    def __init__(self, shingle: Ids, text: Ids, weights: Floats, texts: int) -> None:
        self._texts = texts
        self._weights = weights
        often = np.bincount(shingle, minlength=len(weights))
        is_common = often > max(_FEW, texts // 50)
        self._column: Ids = np.where(is_common, np.cumsum(is_common) - 1, -1)
        self._often = np.where(is_common, 0, often)
        self._start = np.cumsum(self._often) - self._often
        in_column = self._column[shingle]
        self._having = text[in_column < 0]
        self._common = np.zeros((int(is_common.sum()), texts))
        self._common[in_column[in_column >= 0], text[in_column >= 0]] = 1.0
        self._common_weights = weights[is_common][:, None] * self._common

    def shared(self, row: Ids, shingle: Ids, rows: int) -> tuple[Floats, Floats]:
        """What other texts share with each text of the reference.

        Args:
            row: ``[m]`` which of the other texts, in ``[0, rows)``.
            shingle: ``[m]`` a shingle that it has; no pair stands twice.
            rows: How many other texts there are.

        Returns:
            ``[rows, texts]`` the weight that is shared, and ``[rows, texts]`` how many shingles are.
        """
        often = self._often[shingle]
        offset = np.arange(int(often.sum())) - np.repeat(np.cumsum(often) - often, often)
        cell = np.repeat(row, often) * self._texts + self._having[np.repeat(self._start[shingle], often) + offset]
        passed = np.repeat(self._weights[shingle], often)
        size, shape = rows * self._texts, (rows, self._texts)
        weight = np.bincount(cell, weights=passed, minlength=size).astype(np.float64).reshape(shape)
        count = np.bincount(cell, minlength=size).astype(np.float64).reshape(shape)
        column = self._column[shingle]
        having = np.zeros((rows, len(self._common)))
        having[row[column >= 0], column[column >= 0]] = 1.0
        return weight + having @ self._common_weights, count + having @ self._common
