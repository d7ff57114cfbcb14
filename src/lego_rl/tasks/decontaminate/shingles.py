"""Runs of three neighbouring words or tokens (shingles), of many texts at once.

Invariant: two texts share a shingle where the same three words stand side by side in both, exactly: nothing is hashed,
so nothing collides. A shingle is three places in the vocabulary of the reference, packed into one number; whatever
holds a word that the reference has not cannot be shared and has no number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lego_rl.errors import TaskError
from lego_rl.tasks.decontaminate.normal import LOOK_ALIKES
from lego_rl.tasks.decontaminate.scaffold import without_form_lines, without_form_sentences

WIDTH = 3
"""Words of a shingle."""

_BITS = 21
_NOWHERE = -1

type Ids = npt.NDArray[np.int64]


def words_of(texts: pa.Array) -> pa.ListArray:
    """The words of issue texts: letters and digits, in small letters, without markup, layout and what forms bring.

    Args:
        texts: ``[texts]`` of strings; a null has no words.
    """
    words = pc.replace_substring_regex(pc.utf8_lower(without_form_lines(_plain(texts))), r"[^\p{L}\p{N}]+", " ")
    return _split(without_form_sentences(words))


def changes_of(patches: pa.Array) -> pa.ListArray:
    """The tokens of the lines that unified diffs take out or put in: names, numbers and every other character.

    Lines of comment and of imports are passed over: the head of a new file is in thousands of patches.

    Args:
        patches: ``[patches]`` of strings; a null has no tokens.
    """
    lines = pc.replace_substring_regex(_plain(patches), r"\r", "")
    lines = pc.replace_substring_regex(lines, r"(?m)^--- .*\n\+\+\+ .*$", "")
    lines = pc.replace_substring_regex(lines, r"(?m)^(?:[^+\-\n].*)?$", "")
    lines = pc.replace_substring_regex(lines, r"(?m)^[+-]\s*(?:(?:#|//|/\*|\* )|(?:import|from|use|using)\s).*$", "")
    lines = pc.replace_substring_regex(lines, r"(?m)^[+-]", "\n")
    return _split(pc.replace_substring_regex(lines, r"([^\p{L}\p{N}_\s])", r" \1 "))


def _plain(texts: pa.Array) -> pa.Array:
    """As `normal.plain_letters`."""
    plain = pc.replace_substring_regex(pc.utf8_normalize(texts, form="NFKD"), r"[\p{Cf}\p{M}]+", "")
    is_foreign = pc.fill_null(pc.match_substring_regex(plain, r"[\p{Cyrillic}\p{Greek}]"), False)
    latin = [text.translate(LOOK_ALIKES) for text in plain.filter(is_foreign).to_pylist()]
    return pc.replace_with_mask(plain, is_foreign, pa.array(latin, pa.string()))


def _split(texts: pa.Array) -> pa.ListArray:
    return pc.ascii_split_whitespace(pc.fill_null(pc.ascii_trim_whitespace(texts), ""))


@dataclass(frozen=True)
class Found:
    """Shingles of texts, place by place; a text may have one more than once.

    Attributes:
        text: ``[places]`` which text each is of, in order.
        key: ``[places]`` packed words.
        unknown: ``[texts]`` how many further places of a text hold a shingle that the vocabulary does not know.
    """

    text: Ids
    key: Ids
    unknown: Ids


class Vocabulary:
    """Every word of the reference.

    Args:
        tokens: Lists of words; nothing else is known afterwards.
        is_telling: Which words say something; a shingle without one is passed over.

    Raises:
        TaskError: There are too many different words to pack three of them into a number.
    """

    def __init__(self, tokens: pa.ListArray, is_telling: Callable[[str], bool]) -> None:
        flat = tokens.flatten()
        self._words: Any = pc.unique(flat.filter(pc.not_equal(flat, "")))
        # The last one is for words that it does not know, which `_NOWHERE` points at.
        self._is_telling = np.array([*map(is_telling, self._words.to_pylist()), True])
        if len(self._words) >= 1 << _BITS:
            raise TaskError(
                f"the reference has {len(self._words):,} different words, and {1 << _BITS:,} is the most",
                "split the file and name one part after the other",
            )

    def shingles(self, tokens: pa.ListArray) -> Found:
        """The shingles of texts.

        Args:
            tokens: ``[texts]`` lists of words.
        """
        flat = tokens.flatten()
        lengths = pc.list_value_length(tokens).to_numpy(zero_copy_only=False).astype(np.int64)
        owner = np.repeat(np.arange(len(lengths)), lengths)
        code = pc.fill_null(pc.index_in(flat, value_set=self._words), _NOWHERE).to_numpy(zero_copy_only=False)
        is_word = pc.greater(pc.binary_length(flat), 0).to_numpy(zero_copy_only=False)
        code, owner = code[is_word].astype(np.int64), owner[is_word]  # a text without words is split into one empty one
        places = max(0, len(code) - WIDTH + 1)
        first, second, third = (code[at : at + places] for at in range(WIDTH))
        text = owner[:places]
        within = text == owner[WIDTH - 1 : WIDTH - 1 + places]
        within &= self._is_telling[first] | self._is_telling[second] | self._is_telling[third]
        known = within & ((first | second | third) >= 0)  # `_NOWHERE` has every bit set
        key = (first[known] << 2 * _BITS) | (second[known] << _BITS) | third[known]
        unknown = np.bincount(text[within & ~known], minlength=len(lengths))
        return Found(text[known], key, unknown.astype(np.int64))
