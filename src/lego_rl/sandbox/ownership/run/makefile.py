"""What of a Makefile is run for some targets; a rule for something else is none of a test run's business.

A pattern rule (``%.done: %.txt``) counts for every name that fits, with what it stands for; ``$<`` and ``$^`` in a
recipe are what the rule needs; and a pattern in ``include $(wildcard dev/*.inc)`` is one of files that are read. What
a Makefile includes is made anew, too, and so is the Makefile itself, where there is a rule for it.
"""

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice

from lego_rl.sandbox.ownership.known.launchers import MAKEFILES

MAX_ROUNDS = 24
"""How far a chain of rules is followed."""

_RULE = re.compile(r"(?![\s#])([^:=]+?)\s*::?(?![:=])\s*(.*)")
_INCLUDED = re.compile(r"^([ ]*[-s]?include\b[^\n]*?)\$[({]wildcard\s+([^(){}]*)[)}]", re.MULTILINE)
_GIVEN = r"\s+((?:[^(){}\n]|\$[({]\w+[)}])*)[)}]"
_COMMANDS = re.compile(rf"\$[({{](?:if|foreach|call|eval){_GIVEN}")
_WORDS = re.compile(rf"\$[({{](?:wildcard|strip|firstword|lastword|sort|abspath|realpath|or|and){_GIVEN}")
"""Functions of which what they are given is run, or may be a path."""
_INCLUDES = re.compile(r"[ ]*[-s]?include\s")
_MAKE = re.compile(r"\$[({]MAKE[)}]")
_NEEDED = re.compile(r"\$(?:[<^+|?]|[({][<^+|?][DF]?[)}])")
_WORD = re.compile(r"[^\s;|&<>()'\"`]+")

MAX_STEMS = 64
"""Names that are tried for a pattern rule."""


@dataclass
class _Rule:
    targets: frozenset[str]
    lines: list[str] = field(default_factory=list)

    def is_for(self, wanted: AbstractSet[str]) -> bool:
        return not self.targets.isdisjoint(wanted) or any("%" in name or "$" in name for name in self.targets)

    def filled(self, names: AbstractSet[str]) -> Iterator[str]:
        """Its lines with what it needs, for every name that it can make."""
        for stem in self._stems(names):
            needed = self.lines[0].replace("%", stem)
            yield needed
            for line in filter(_NEEDED.search, self.lines[1:]):
                yield from (name.join(_NEEDED.split(line)) for name in needed.split())

    def _stems(self, names: AbstractSet[str]) -> list[str]:
        """What ``%`` stands for; one that does not matter where a rule has none."""
        patterns = [re.escape(name).replace("%", "(.+)", 1) for name in sorted(self.targets) if "%" in name]
        found = (re.fullmatch(pattern, name) for pattern in patterns for name in sorted(names))
        return list(islice((match[1] for match in found if match is not None), MAX_STEMS)) if patterns else [""]


def run_for(text: str, wanted: AbstractSet[str]) -> str:
    """The lines outside of rules, and the rules that are needed: the first one, those wanted and what these name.

    Args:
        text: A Makefile.
        wanted: Every word that could be a target.
    """
    text = _MAKE.sub("make", text.replace("\\\n", " "))
    while (shorter := _INCLUDED.sub(r"\1 \2", text)) != text:
        text = shorter
    outside, rules = _parsed(text)
    included = (word for line in outside if _INCLUDES.match(line) for word in line.split()[1:])
    names = {*wanted, *MAKEFILES, *included, *(rules[0].targets if rules else ())}
    if any("$(" in line or "${" in line for rule in rules for line in rule.lines[:1]):
        return _without_functions(text)  # What a rule needs is computed.
    kept: list[_Rule] = []
    lines = list(outside)
    for _ in range(MAX_ROUNDS):
        needed = [rule for rule in rules if rule not in kept and rule.is_for(names)]
        kept += needed
        new = [line for rule in needed for line in rule.lines]
        new += [line for rule in kept for line in rule.filled(names) if line not in lines]
        if not new:
            break
        lines += dict.fromkeys(new)
        names.update(word for line in new for word in _WORD.findall(line) if not {"%", "$"} & set(word))
    return _without_functions("\n".join(lines))


def _without_functions(text: str) -> str:
    """A text with what make's own functions are given in place of them: commands, or words of one."""
    for _ in range(MAX_ROUNDS):
        shorter = _COMMANDS.sub(lambda found: " ; ".join(found[1].split(",")), text)
        shorter = _WORDS.sub(lambda found: " ".join(found[1].split(",")), shorter)
        if shorter == text:
            break
        text = shorter
    return text


def _parsed(text: str) -> tuple[list[str], list[_Rule]]:
    outside: list[str] = []
    rules: list[_Rule] = []
    current: _Rule | None = None
    for line in text.splitlines():
        if current is not None and (line.startswith("\t") or not line.strip()):
            current.lines.append(line)
        elif (found := _RULE.match(line)) is not None:
            current = _Rule(frozenset(found[1].split()), [found[2]])
            if not found[1].startswith("."):
                rules.append(current)
        else:
            current = None
            outside.append(line)
    return outside, rules
