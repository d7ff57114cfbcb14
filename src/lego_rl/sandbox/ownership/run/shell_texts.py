"""Shell texts with the variables that they set themselves: ``HERE=$(dirname "$0"); LIB=$HERE/lib; . "$LIB/common"``.

Invariant: nothing is executed. A variable has every value that any text of the run gives it, those of files that are
read later too; what a command prints is taken for a folder, as at the beginning of a path (`shell_words`). A line
counts as it stands and with each value.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, product

from lego_rl.sandbox.ownership.texts.shell_words import statements, without_commands

MAX_VALUES = 8
"""Of one variable."""
MAX_VARIANTS = 8
"""Of one line."""
MAX_DEPTH = 4
"""How often a value is looked at for further variables."""
MAX_LINE = 4_000
"""Characters of a line with variables that is read with their values."""

_SET = re.compile(r"""(?<![\w$.{-])([A-Za-z_]\w*)\+?=("[^"\n]*"|'[^'\n]*'|[^\s;&|()<>"'`]*)""")
_SET_IN_MAKEFILE = re.compile(r"^(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*(?:[+?:!]|::)?=[ \t]*(.*)", re.MULTILINE)
_LOOP = re.compile(r"(?<![\w$-])for\s+([A-Za-z_]\w*)\s+in\s+([^;\n]+)")
_REFERENCE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?::?-([^{}]*)|(%%?|##?)([^{}]*))?\}|\(([A-Za-z_]\w*)\))")
_NO_PATHS = frozenset({"PATH", "PYTHONPATH", "PWD", "OLDPWD", "HOME", "IFS", "PS1", "SHELL", "CURDIR"})

type Statements = list[tuple[str, ...]]


@dataclass
class ShellTexts:
    """The texts of one run.

    Attributes:
        values: Variable → what it can be.
    """

    values: dict[str, list[str]] = field(default_factory=dict)
    _read: list[tuple[str, list[str], str, str]] = field(default_factory=list)

    def know(self, env: Mapping[str, str]) -> None:
        """Add variables of an environment."""
        for name, value in env.items():
            self._set(name, value)

    def read(self, text: str, bases: list[str], origin: str = "") -> Statements:
        """The simple commands of a text, with what variables make of them.

        Args:
            text: A command line, a script or a Makefile.
            bases: Folders in one of which it is run.
            origin: The file that it stands in; empty where it is in none of the work tree.
        """
        plain = without_commands(text)
        for name, value in (*_SET.findall(plain), *_SET_IN_MAKEFILE.findall(plain)):
            self._set(name, value.strip("\"'"))
        for name, listed in _LOOP.findall(plain):
            for value in listed.split():
                self._set(name, value.strip("\"'"))
        expanded = self._expanded(text)
        self._read.append((text, bases, expanded, origin))
        return list(statements(expanded))

    def again(self) -> Iterator[tuple[Statements, list[str], str]]:
        """Texts that say more than when they were read, for what has become known of variables; bases and origins."""
        for at, (text, bases, before, origin) in enumerate(self._read):
            expanded = self._expanded(text)
            if expanded != before:
                self._read[at] = text, bases, expanded, origin
                yield list(statements(expanded)), bases, origin

    def _set(self, name: str, value: str) -> None:
        known = self.values.setdefault(name, [])
        if name not in _NO_PATHS and value and value not in known and len(known) < MAX_VALUES:
            known.append(value)

    def _expanded(self, text: str) -> str:
        lines = text.replace("\\\n", " ").splitlines()
        return "\n".join(variant for line in lines for variant in self._variants(line))

    def _variants(self, line: str) -> list[str]:
        found, new = [line], [line]
        for _ in range(MAX_DEPTH):
            new = list(islice((each for one in new for each in self._once(one) if each not in found), MAX_VARIANTS))
            if not new:
                break
            found += new
        return found

    def _once(self, line: str) -> Iterator[str]:
        """A line with one value for each variable that is known."""
        references = list(_REFERENCE.finditer(line)) if len(line) <= MAX_LINE else []
        choices = [self._values_of(each) or [each[0]] for each in references]
        for chosen in product(*choices) if references else ():
            at, parts = 0, []
            for reference, value in zip(references, chosen, strict=True):
                parts += [line[at : reference.start()], value]
                at = reference.end()
            yield "".join([*parts, line[at:]])

    def _values_of(self, reference: re.Match[str]) -> list[str]:
        name = reference[1] or reference[2] or reference[6]
        known = [_cut(value, reference[4], reference[5]) for value in self.values.get(name, [])]
        return [*known, *([reference[3]] if reference[3] else [])]


def _cut(value: str, operator: str | None, pattern: str | None) -> str:
    """A value without the end or the beginning that a shell would cut off, where it can be told (``${t%.in}``)."""
    if not operator or not pattern:
        return value
    if operator.startswith("%"):
        end = value.rfind(".") if pattern == ".*" else len(value) - len(pattern)
        return value[:end] if end > 0 and (pattern == ".*" or value.endswith(pattern)) else value
    return value.rpartition("/")[2] if pattern == "*/" else value.removeprefix(pattern)
