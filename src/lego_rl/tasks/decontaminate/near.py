"""Near-duplicates: texts that share more uncommon runs of words with a text of the reference than chance explains.

Invariant: whether a text is a near-duplicate depends on it and on the reference alone, not on what else is looked at
with it. A run of three words weighs the square of log(1 + R / r), where r of the R reference texts have it (tf-idf):
what a template or a traceback brings into many of them weighs little.

A reference is small and everything is compared with it, so the overlap is counted, exactly, by a join over the shingles
of the reference; sketches such as MinHash estimate the same overlap, and miss what their bands miss.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lego_rl.tasks.decontaminate.postings import Floats, Postings
from lego_rl.tasks.decontaminate.shingles import Ids, Vocabulary

_CELLS = 4_000_000
"""Pairs that are counted at a time: 32 MB of weights."""


@dataclass(frozen=True)
class Measure:
    """How much overlap makes a near-duplicate.

    Attributes:
        tokens: Texts → lists of words.
        is_telling: Which words say something; a run without one counts for nothing.
        overlap: Weight that is shared, of the weight of the lighter of the two texts.
        evidence: What `overlap` times the shared weight has to come to, the weight as a multiple of what a shingle of
            one reference text only weighs: the shorter a text, the more of it has to be shared.
    """

    tokens: Callable[[pa.Array], pa.ListArray]
    is_telling: Callable[[str], bool]
    overlap: float
    evidence: float


@dataclass(frozen=True)
class Near:
    """A near-duplicate.

    Attributes:
        text: Place of the text.
        reference: Place of the reference's text that it is nearest to.
        overlap: Weight that is shared, of the weight of the lighter of the two; in (0, 1].
        shared: Different shingles that are shared.
    """

    text: int
    reference: int
    overlap: float
    shared: int


class NearIndex:
    """The texts of a reference, ready to be compared with.

    Args:
        reference: ``[R]`` texts; a null is compared with nothing.
        measure: What is near.

    Raises:
        TaskError: The reference has too many different words.
    """

    def __init__(self, reference: pa.Array, measure: Measure) -> None:
        self._measure = measure
        tokens = measure.tokens(reference)
        self._texts = len(reference)
        self._vocabulary = Vocabulary(tokens, measure.is_telling)
        found = self._vocabulary.shingles(tokens)
        self._keys, place = np.unique(found.key, return_inverse=True)
        place, having = np.divmod(np.unique(place * self._texts + found.text), max(1, self._texts))
        often = np.bincount(place, minlength=len(self._keys))
        self._alone = float(np.log1p(self._texts) ** 2)
        self._weights: Floats = np.log1p(self._texts / often) ** 2
        self._whole: Floats = np.bincount(having, weights=self._weights[place], minlength=self._texts)
        self._postings = Postings(place, having, self._weights, self._texts)
        self.comparable = int((self._whole > 0).sum())

    def near(self, texts: pa.Array) -> list[Near]:
        """The near-duplicates among texts, each with the reference's text that it shares most with.

        Args:
            texts: ``[texts]``; a null is near nothing.
        """
        if not len(self._keys) or not len(texts):
            return []
        found = self._vocabulary.shingles(self._measure.tokens(texts))
        at = np.minimum(np.searchsorted(self._keys, found.key), len(self._keys) - 1)
        is_shared = self._keys[at] == found.key
        text, at_shared = np.divmod(np.unique(found.text[is_shared] * len(self._keys) + at[is_shared]), len(self._keys))
        elsewhere = found.unknown + np.bincount(found.text[~is_shared], minlength=len(texts))
        whole = self._alone * elsewhere + np.bincount(text, weights=self._weights[at_shared], minlength=len(texts))
        return list(self._pairs(text, at_shared, whole))

    def _pairs(self, text: Ids, at: Ids, whole: Floats) -> Iterator[Near]:
        step = max(1, _CELLS // self._texts)
        bounds = np.searchsorted(text, np.arange(0, len(whole) + step, step))
        for number, (low, high) in enumerate(pairwise(bounds.tolist())):
            yield from self._block(number * step, text[low:high], at[low:high], whole[number * step :][:step])

    def _block(self, first: int, text: Ids, at: Ids, whole: Floats) -> Iterator[Near]:
        """The pairs of neighbouring texts."""
        weight, count = self._postings.shared(text - first, at, len(whole))
        lighter = np.minimum(whole[:, None], self._whole[None, :])
        overlap = np.divide(weight, lighter, out=np.zeros(weight.shape), where=lighter > 0)
        overlap[overlap * weight < self._measure.evidence * self._alone] = 0.0
        best = overlap.argmax(axis=1)
        reached = overlap[np.arange(len(whole)), best]
        for place in np.flatnonzero(reached >= self._measure.overlap).tolist():
            reference = int(best[place])
            yield Near(first + place, reference, float(reached[place]), int(count[place, reference]))
