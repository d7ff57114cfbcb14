"""What of a Makefile is run for some targets; a rule for something else is none of a test run's business."""

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

MAKEFILES = frozenset({"Makefile", "makefile", "GNUmakefile"})

_RULE = re.compile(r"(?![\s#])([^:=]+?)\s*::?(?![:=])\s*(.*)")
_WORD = re.compile(r"[^\s;|&<>()'\"`]+")


@dataclass
class _Rule:
    targets: frozenset[str]
    lines: list[str] = field(default_factory=list)

    def is_for(self, wanted: AbstractSet[str]) -> bool:
        return not self.targets.isdisjoint(wanted) or any("%" in name or "$" in name for name in self.targets)


def run_for(text: str, wanted: AbstractSet[str]) -> str:
    """The lines outside of rules, and the rules that are needed: the first one, those wanted and what these name.

    Args:
        text: A Makefile.
        wanted: Every word that could be a target.
    """
    outside, rules = _parsed(text.replace("\\\n", " "))
    kept: list[str] = list(outside)
    names = {*wanted, *(rules[0].targets if rules else ())}
    if any("$(" in line or "${" in line for rule in rules for line in rule.lines[:1]):
        return text  # What a rule needs is computed.
    left = rules
    while needed := [rule for rule in left if rule.is_for(names)]:
        left = [rule for rule in left if rule not in needed]
        lines = [line for rule in needed for line in rule.lines]
        kept += lines
        names.update(word for line in lines for word in _WORD.findall(line))
    return "\n".join(kept)


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
