"""Text that somebody else wrote, made fit to be shown: a policy, a harness, a task, or a file that may be anyone's.

Invariant: nothing in it is invisible, nothing steers a terminal, and nothing changes the direction of what follows.
Whoever prints or shows foreign text has it pass here; markup of any kind is left as it is, for it is the medium's.
"""

import logging
import unicodedata
from typing import override

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def plain(text: str) -> str:
    """Show control, format and direction characters as their code points; newlines and tabs stay."""
    return text.translate(_SHOWN)


def plain_line(text: str) -> str:
    """Likewise, with newlines and tabs shown too: for text in a line of ours, which it could end to begin its own."""
    return plain(text).replace("\n", "\\u{a}").replace("\t", "\\u{9}")


class PlainFormatter(logging.Formatter):
    """Log lines, tracebacks included, of which no part may steer the terminal that they are read on."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))


class _Shown(dict[int, int | str]):
    """How each character is shown; looked up once."""

    def __missing__(self, code: int) -> int | str:
        hidden = unicodedata.category(chr(code)) in _HIDDEN
        self[code] = f"\\u{{{code:x}}}" if hidden else code
        return self[code]


_SHOWN = _Shown({ord("\n"): "\n", ord("\t"): "\t"})
