"""The issue text of a task, from what its failing tests show or from what a change log says.

Invariant: an issue tells behaviour. Neither the place of the bug nor a line of its fix is in it: `shows_fix` is asked
of every text before a task is written.
"""

import hashlib
import random
from collections.abc import Sequence

from lego_rl.tasks.make.evidence import Evidence

MOST_SHOWN = 2
"""Failing tests that are told in full."""
SHORTEST = 8
"""Characters of a line of a patch, below which it is found in any text."""

_OPENINGS = (
    "I came across this while using {name} {label}.",
    "This does not work as I expect with {name} {label}.",
    "Something that I rely on is broken in {name} {label}.",
    "Here is a small example that goes wrong with {name} {label}.",
)
_CLOSINGS = (
    "Please mend it in the library, for these inputs and for others like them.",
    "Please look into it. The rest of the library's behaviour should stay as it is.",
    "Could this be mended without changing what else works?",
)


def issue_text(name: str, label: str, found: Sequence[Evidence], log: Sequence[str] = (), *, seed: str) -> str:
    """Write an issue.

    Args:
        name: Of the package.
        label: Its version, or the like; may be empty.
        found: What failing tests show, the most telling first.
        log: Entries of a change log that tell what is to be.
        seed: Chooses among ways of saying the same.
    """
    rng = random.Random(hashlib.sha256(seed.encode()).digest())
    parts = [f"# {_title(name, found, log)}"]
    opening = rng.choice(_OPENINGS).format(name=name, label=label).replace(" .", ".")
    if log:
        parts += [f"{name} should behave as follows, and does not yet:", "\n".join(f"- {_joined(e)}" for e in log)]
        if found:
            parts.append("For example:")
    else:
        parts.append(opening)
    # One failing test is kept back where there are several: special cases of what is told are no fix.
    told = found[: max(1, min(MOST_SHOWN, len(found) - 1))]
    shown = [each for place, each in enumerate(told) if place == 0 or each.calls != found[0].calls]
    for each in shown:
        parts += _told(each)
    others = sorted({_words(each.test) for each in found} - {_words(each.test) for each in shown})
    if others:
        parts.append(f"Other cases that go wrong as well: {', '.join(others[:8])}.")
    parts.append(rng.choice(_CLOSINGS))
    return "\n\n".join(parts) + "\n"


def shows_fix(text: str, patch: str) -> str | None:
    """A changed line of a patch that is in a text, if there is one."""
    known = {line.strip() for line in text.splitlines()}
    for line in patch.splitlines():
        if line.startswith(("+++", "---")) or not line.startswith(("+", "-")):
            continue
        words = line[1:].strip()
        if (words in known and len(words) >= SHORTEST) or (len(words) >= 2 * SHORTEST and words in text):
            return words
    return None


def ordered(found: Sequence[Evidence]) -> list[Evidence]:
    """The most telling first: what says what it expected, in few lines, each test function once."""
    once: dict[str, Evidence] = {}
    for each in sorted(found, key=_clarity):
        once.setdefault(each.test.partition("[")[0], each)
    told: list[Evidence] = []
    again: list[Evidence] = []
    for each in once.values():
        (again if any(each.calls == other.calls for other in told) else told).append(each)
    return told + again


def _clarity(each: Evidence) -> tuple[bool, bool, int, str]:
    told = each.expected is not None or each.raises is not None or each.crashed
    return not told, not each.called, len(each.calls) + len(each.said), each.test


def _title(name: str, found: Sequence[Evidence], log: Sequence[str]) -> str:
    if not found:
        return f"{name}: {_joined(log[0])[:80]}" if log else f"{name} misbehaves"
    first = found[0]
    what = f"`{first.called}`" if first.called else name
    if first.crashed:
        return f"{what} raises {first.said.partition(':')[0].strip().rpartition('.')[2]}"
    if first.raises is not None:
        return f"{what} does not raise {first.raises}"
    return f"{what} gives a wrong result"


def _told(each: Evidence) -> list[str]:
    parts = [f"```python\n{each.calls}\n```"]
    if each.values:
        shown = ", ".join(f"`{name} = {value}`" for name, value in sorted(each.values.items()))
        parts.append(f"with {shown}.")
    if each.raises is not None:
        parts.append(f"I expected {each.raises} to be raised. What I get:")
    elif each.crashed:
        parts.append("I expected no exception. What I get:")
    elif each.expected is not None and "\n" not in each.expected and len(each.expected) <= 80:
        parts.append(f"I expected `{each.expected}`. What I get:")
    else:
        parts.append("What I get:")
    return [*parts, f"```\n{each.said}\n```"]


def _words(test: str) -> str:
    """A test's name as words."""
    name = test.partition("[")[0].rpartition("::")[2]
    return name.removeprefix("test").strip("_").replace("_", " ") or name


def _joined(entry: str) -> str:
    return " ".join(entry.split())
