"""Text of a chat template to token ids, where only the template itself can speak added tokens.

Invariant: text that came from a message (a file, a tool's output, an argument) never becomes an added token such as
``<|im_end|>`` or ``<tool_call>``, whatever it spells. Text without such spellings is encoded as the tokenizer would.

How: `Encoder.quote` breaks every spelling of an added token in message text with a Unicode noncharacter before the
template sees it; `Encoder.encode` splits the rendered text at the added tokens that are still whole (the template's
own), removes the quoting and encodes each fragment between them with the tokenizer's model alone. So a piece is a
maximal run of text between two added tokens of the template, and piece boundaries are token boundaries, as they are in
the tokenizers library.
"""

import json
import re
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from tokenizers import Tokenizer

from lego_rl.documents import read_json
from lego_rl.errors import TemplateError

_ESCAPE = "\ufdd0"
"""A noncharacter (Unicode 23.7): never part of interchanged text, and neither whitespace nor escaped by ``tojson``."""
_LITERAL = _ESCAPE + "0"
_BREAK = _ESCAPE + "1"
MARK = _ESCAPE + "2"
"""A marker that quoted text cannot contain, for `template` to find a place in what it rendered."""

_CACHED_LENGTH = 512
_SHORT = 2_000
SLICE = 1 << 15
"""Characters that are looked through or encoded without letting other threads run, and with them the other trials."""


class Encoder:
    """A tokenizer whose added tokens are out of reach of message text.

    Args:
        tokenizer_json: Content of a ``tokenizer.json`` of the tokenizers library.

    Raises:
        TemplateError: The file cannot be read, or an added token needs rules that this encoder does not have.
    """

    def __init__(self, tokenizer_json: str) -> None:
        try:
            spec = read_json(tokenizer_json)
            self._full = Tokenizer.from_str(tokenizer_json)
            added = {token["content"]: int(token["id"]) for token in spec["added_tokens"]}
            odd = [t["content"] for t in spec["added_tokens"] if _needs_rules(t)]
            spec["added_tokens"] = []
            spec["post_processor"] = None
            self._model = Tokenizer.from_str(json.dumps(spec))
        except Exception as error:  # the library has no exception of its own for a bad file
            raise TemplateError(
                f"tokenizer.json cannot be read ({error})", "save the policy's tokenizer again"
            ) from error
        if odd:
            raise TemplateError(
                f"added tokens of one character, or that strip or match whole words, are not supported: {odd}",
                "save the tokenizer with lstrip, rstrip and single_word off",
            )
        if not added:
            raise TemplateError(
                "the tokenizer has no added tokens", "add the chat template's turn markers as added tokens"
            )
        self._added = added
        names = sorted(added, key=len, reverse=True)
        alternatives = "|".join(map(re.escape, names))
        self._added_token = re.compile(alternatives)
        self._longest = len(names[0])
        # One character at a time, so that overlapping spellings are all broken; a spelling cut off by the end of the
        # text is broken too, for the template's next characters could complete it.
        cut = {name[:size] for name in names for size in range(1, len(name))}
        endings = "|".join(map(re.escape, sorted(cut, key=len, reverse=True)))
        self._spelling = re.compile(f"(?=(?:{alternatives})|(?:{endings})\\Z)(.)", re.DOTALL)
        self._first = re.compile("[" + re.escape("".join({name[0] for name in names})) + _ESCAPE + "]")
        self._encode_long = lru_cache(maxsize=64)(self._encode_packed)
        self._check_model()

    def _check_model(self) -> None:
        reachable = [name for name, token in self._added.items() if token in self._encode_fragment(name)]
        if reachable:
            raise TemplateError(
                f"the tokenizer's model spells added tokens without their rule: {reachable}",
                "remove these tokens from the model's vocabulary or its merges",
            )

    @property
    def size(self) -> int:
        """One more than the highest id."""
        return 1 + int(max(self._full.get_vocab(with_added_tokens=True).values()))

    def id_of(self, token: str) -> int:
        """Id of an added token; `KeyError` if it is none."""
        return self._added[token]

    def leading_token(self, rendered: str) -> str | None:
        """The added token that `rendered` starts with, if it does."""
        found = self._added_token.match(rendered)
        return found.group(0) if found else None

    def quote(self, text: str) -> str:
        """Message text, safe to be rendered: no spelling of an added token is whole. `encode` undoes it."""
        if not self._first.search(text):
            return text
        # A slice is quoted as if the text ended there: whatever spelling its end cuts in two is broken as well.
        return "".join(self._quote(text[at : at + SLICE]) for at in range(0, len(text), SLICE))

    def unquote(self, text: str) -> str:
        """What `quote` was given, as far as it is in a rendered text."""
        return text.replace(_BREAK, "").replace(_LITERAL, _ESCAPE) if _ESCAPE in text else text

    def encode(self, rendered: str) -> list[int]:
        """Ids of a rendered template; quoted spellings are encoded as the text they are."""
        ids: list[int] = []
        at = 0
        for start, end in self._added_tokens(rendered):
            ids.extend(self._encode_piece(rendered[at:start]))
            ids.append(self._added[rendered[start:end]])
            at = end
        ids.extend(self._encode_piece(rendered[at:]))
        return ids

    def count(self, text: str) -> int:
        """Tokens of a text by itself, in which nothing is an added token."""
        return len(self._encode_fragment(text))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, added tokens included; bytes that are no UTF-8 become U+FFFD."""
        text: str = self._full.decode(list(ids), skip_special_tokens=False)
        return text

    def _quote(self, text: str) -> str:
        return self._spelling.sub(lambda found: found.group(1) + _BREAK, text.replace(_ESCAPE, _LITERAL))

    def _added_tokens(self, rendered: str) -> Iterator[tuple[int, int]]:
        """Where the added tokens stand that are whole: start and end of each."""
        at = 0
        while at < len(rendered):
            whole = at + SLICE  # a token that starts before this ends within the view
            found = self._added_token.search(rendered, at, whole + self._longest)
            if found is None or found.start() >= whole:
                at = whole
            else:
                yield found.span()
                at = found.end()

    def _encode_piece(self, piece: str) -> Sequence[int]:
        if not piece:
            return ()
        fragment = self.unquote(piece)
        return self._encode_long(fragment) if len(fragment) >= _CACHED_LENGTH else self._encode_fragment(fragment)

    def _encode_fragment(self, text: str) -> tuple[int, ...]:
        if len(text) < _SHORT:
            return tuple(self._model.encode(text, add_special_tokens=False).ids)
        # The library lets other threads run while it encodes a batch, not while it encodes a text, and leaves out
        # offsets that nobody asks for. Getting back to work then may take a while, which short texts are not worth.
        return tuple(self._model.encode_batch_fast([text], add_special_tokens=False)[0].ids)

    def _encode_packed(self, text: str) -> "array[int]":
        """The same at four bytes an id, for what is kept."""
        return array("i", self._encode_fragment(text))


def _needs_rules(token: dict[str, Any]) -> bool:
    return bool(len(token["content"]) < 2 or token["lstrip"] or token["rstrip"] or token["single_word"])
