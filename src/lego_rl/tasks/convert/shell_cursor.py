"""What of a shell script has an end that can be found without reading what is in it: quotes, braces, arithmetic."""

import re

from lego_rl.tasks.convert.row import RowError

_BRACE, _BRACKET = re.compile(r"\\.|[{}]", re.DOTALL), re.compile(r"[()]")
_NO_NUMBERS = re.compile(r"\w\s+\w|[;'\"`\\]|\$\((?!\()")
"""What stands in no arithmetic, or may run something there."""


class Cursor:
    """A place in a text, and what can be passed there without a look at what it runs.

    Args:
        text: Of a script.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._cuts: list[int] = []

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        return self._place >= len(self._text)

    def single(self) -> str:
        """Pass a text in single quotes, and return it."""
        end = self._text.find("'", self._place + 1)
        if end < 0:
            raise RowError("its script has a quote without its end")
        text = self._text[self._place + 1 : end]
        self._place = end + 1
        return text

    def braces(self) -> None:
        """Pass ``${NAME…}``, in which nothing may be run."""
        opened, start = 0, self._place
        for found in _BRACE.finditer(self._text, start):
            opened += {"{": 1, "}": -1}.get(found.group(), 0)
            if not opened:
                self._place = found.end()
                if "$(" in self._text[start : self._place] or "`" in self._text[start : self._place]:
                    raise RowError("its script has a substitution inside of ${}")
                return
        raise RowError("its script has a substitution without its end")

    def arithmetic(self) -> bool:
        """Pass ``((…))``, if it is one; subshells in each other may begin so, too, and are not passed."""
        opened = 0
        for found in _BRACKET.finditer(self._text, self._place):
            opened += 1 if found.group() == "(" else -1
            if not opened:
                inside = self._text[self._place : found.end()]
                if not inside.endswith("))") or _NO_NUMBERS.search(inside):
                    return False
                self._place = found.end()
                return True
        raise RowError("its script has a substitution without its end")

    def cut(self) -> bool:
        """Pass a line end that a backslash takes away."""
        if not self._text.startswith("\\\n", self._place):
            return False
        self._cuts.append(self._place)
        self._place += 2
        return True
