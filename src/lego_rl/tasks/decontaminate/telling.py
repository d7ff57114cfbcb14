"""Which words say something of a text: three in a row that do not are in every other text too."""

import builtins
import keyword

_OTHER_LANGUAGES = (
    "abstract bool boolean byte case catch char const constexpr default delete double end enum export extends extern "
    "final float fn func function go goto impl implements include inline int interface let long loop match module mut "
    "namespace new nil null package private protected pub public readonly require return short signed sizeof static "
    "string struct super switch template then this throw throws trait true false type typedef undefined union unless "
    "unsigned until use using var virtual void volatile when where"
)
_CUSTOM = "self cls args kwargs name value key data result item obj other index"

_COMMON = frozenset(
    [
        *keyword.kwlist,
        *(name for name in dir(builtins) if not name.startswith("_")),
        *_OTHER_LANGUAGES.split(),
        *_CUSTOM.split(),
        *("__init__", "super", "return", "__name__"),
    ]
)

_LEAST_CHARS = 3


def any_word(word: str) -> bool:
    """Whether a word of an issue text says something: any does, for the weights know which are common."""
    return bool(word)


def own_name(token: str) -> bool:
    """Whether a token of code is a name that the code chose: no keyword, no built-in, no punctuation, not `self`.

    What patches have in common without being copies is idioms, `if x is None:`, and a reference of few patches does not
    know which they are.
    """
    return len(token) >= _LEAST_CHARS and (token[0].isalpha() or token[0] == "_") and token not in _COMMON
